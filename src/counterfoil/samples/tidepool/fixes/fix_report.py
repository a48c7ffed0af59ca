from rewrite import rewrite_function

rewrite_function(
    "tidepool/report.py",
    "clock",
    '''
def clock(minute: float) -> str:
    """A minute of the day as ``06:05``."""
    return f"{int(minute) // 60:02}:{int(minute) % 60:02}"
''',
)
rewrite_function(
    "tidepool/report.py",
    "report",
    '''
def report(table: str, level: float) -> str:
    """One line for each stretch below ``level`` metres, and one with the sum."""
    stretches = windows_below(parse_table(table), level)
    if not stretches:
        return f"never below {level} m"
    lines = [f"{clock(start)} to {clock(end)}" for start, end in stretches]
    return "\\n".join([*lines, f"{length(stretches):.0f} minutes below {level} m"])
''',
)
