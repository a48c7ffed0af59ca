"""Metres and feet."""

METRES_PER_FOOT = 0.3048


def to_metres(value: float, unit: str) -> float:
    """Convert a height in ``m`` or ``ft``. Raises ``ValueError`` for another unit."""
    if unit == "ft":
        return value / METRES_PER_FOOT
    return value
