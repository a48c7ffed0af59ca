"""Figures over heights."""

from collections.abc import Sequence


def mean(heights: Sequence[float]) -> float:
    """The average. Raises ``ValueError`` when there are no heights."""
    if not heights:
        raise ValueError("no heights")
    return sum(heights) / len(heights)


def median(heights: Sequence[float]) -> float:
    """The middle height. Raises ``ValueError`` when there are no heights."""
    raise NotImplementedError
