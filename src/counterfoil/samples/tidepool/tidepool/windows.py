"""The stretches of a day in which the water stands below a level."""

from itertools import pairwise

from tidepool.intervals import Interval, merge
from tidepool.parse import Reading


def windows_below(readings: list[Reading], level: float) -> list[Interval]:
    """Stretches below ``level`` metres, the height taken as a straight line between readings."""
    stretches = []
    for before, after in pairwise(sorted(readings)):
        if before.height < level and after.height < level:
            stretches.append((float(before.minute), float(after.minute)))
    return merge(stretches)
