"""The step that everybody does: it returns a dict of about 200 bytes of JSON. And its laps."""

from statistics import median
from time import perf_counter
from typing import Any

RESULT: dict[str, Any] = {
    "ok": True,
    "path": "src/harbour/tides/windows.py",
    "lines": [3, 5, 8, 13, 21, 34, 55, 89],
    "message": "eight lines changed, two files read, no file left behind at the end of it",
    "count": 42,
    "share": 0.75,
    "name": "edit",
}


def work() -> dict[str, Any]:
    return RESULT


async def work_async() -> dict[str, Any]:
    return RESULT


class Laps:
    """How long each of a sequence of steps took. The median step says what a step costs.

    The mean would say how often somebody else's sync held up the disk.
    """

    __slots__ = ("_at", "_taken")

    def __init__(self) -> None:
        self._taken: list[float] = []
        self._at = perf_counter()

    def lap(self) -> None:
        now = perf_counter()
        self._taken.append(now - self._at)
        self._at = now

    @property
    def median(self) -> float:
        """In milliseconds."""
        return median(self._taken) * 1000
