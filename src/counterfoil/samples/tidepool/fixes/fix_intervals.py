from rewrite import rewrite_function

rewrite_function(
    "tidepool/intervals.py",
    "merge",
    '''
def merge(intervals: list[Interval]) -> list[Interval]:
    """Join stretches that overlap or touch; the result is in order."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
''',
)
