from rewrite import rewrite_function

rewrite_function(
    "tidepool/windows.py",
    "windows_below",
    '''
def windows_below(readings: list[Reading], level: float) -> list[Interval]:
    """Stretches below ``level`` metres, the height taken as a straight line between readings."""
    stretches = []
    for before, after in pairwise(sorted(readings)):
        if min(before.height, after.height) >= level:
            continue
        start, end = float(before.minute), float(after.minute)
        if max(before.height, after.height) > level:
            share = (level - before.height) / (after.height - before.height)
            crossing = start + share * (end - start)
            start, end = (start, crossing) if before.height < level else (crossing, end)
        stretches.append((start, end))
    return merge(stretches)
''',
)
