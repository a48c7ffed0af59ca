"""Stretches of a day in minutes, from a start up to an end."""

Interval = tuple[float, float]


def merge(intervals: list[Interval]) -> list[Interval]:
    """Join stretches that overlap or touch; the result is in order."""
    merged: list[Interval] = []
    for start, end in intervals:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(intervals: list[Interval]) -> float:
    """How many minutes the stretches cover together."""
    return sum(end - start for start, end in merge(intervals))
