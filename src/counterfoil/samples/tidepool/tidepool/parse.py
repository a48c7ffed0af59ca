"""Tide tables as text: one reading a line, such as ``2026-03-01 06:20 -0.10 m``."""

import re
from dataclasses import dataclass

from tidepool.units import to_metres


@dataclass(frozen=True, order=True)
class Reading:
    """A height above chart datum in metres, at a minute of a day."""

    day: str
    minute: int
    height: float


def parse_reading(line: str) -> Reading:
    """Read one line. Raises ``ValueError`` and quotes the line."""
    match = re.match(r"(\S+) (\d+):(\d+) .*?(\d+\.\d+) (m|ft)", line)
    if match is None:
        raise ValueError(f"not a reading: {line!r}")
    day, hours, minutes, height, unit = match.groups()
    return Reading(day, int(hours) * 60 + int(minutes), to_metres(float(height), unit))


def parse_table(text: str) -> list[Reading]:
    """Read a whole table; blank lines and lines that start with # are left out."""
    lines = (line.strip() for line in text.splitlines())
    return sorted(parse_reading(line) for line in lines if line and not line.startswith("#"))
