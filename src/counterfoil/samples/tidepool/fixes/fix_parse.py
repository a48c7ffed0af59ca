from rewrite import rewrite_function

rewrite_function(
    "tidepool/parse.py",
    "parse_reading",
    r'''
def parse_reading(line: str) -> Reading:
    """Read one line. Raises ``ValueError`` and quotes the line."""
    match = re.fullmatch(r"(\S+)\s+(\d+):(\d+)\s+(-?\d+\.\d+)\s+(\w+)", line.strip())
    if match is None:
        raise ValueError(f"not a reading: {line!r}")
    day, hours, minutes, height, unit = match.groups()
    return Reading(day, int(hours) * 60 + int(minutes), to_metres(float(height), unit))
''',
)
