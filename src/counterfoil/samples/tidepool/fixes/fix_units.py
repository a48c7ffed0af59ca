from rewrite import rewrite_function

rewrite_function(
    "tidepool/units.py",
    "to_metres",
    '''
def to_metres(value: float, unit: str) -> float:
    """Convert a height in ``m`` or ``ft``. Raises ``ValueError`` for another unit."""
    if unit == "m":
        return value
    if unit == "ft":
        return value * METRES_PER_FOOT
    raise ValueError(f"unknown unit: {unit}")
''',
)
