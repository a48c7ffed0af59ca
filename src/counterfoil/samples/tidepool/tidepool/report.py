"""A day's walking times as text."""

from tidepool.intervals import length
from tidepool.parse import parse_table
from tidepool.windows import windows_below


def clock(minute: float) -> str:
    """A minute of the day as ``06:05``."""
    return f"{int(minute) // 60}:{int(minute) % 60}"


def report(table: str, level: float) -> str:
    """One line for each stretch below ``level`` metres, and one with the sum."""
    stretches = windows_below(parse_table(table), level)
    lines = [f"{clock(start)} to {clock(end)}" for start, end in stretches]
    return "\n".join([*lines, f"{length(stretches)} minutes below {level} m"])
