"""Time comes in from outside: the one place that reads the machine's clocks."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in microseconds since 1970 (UTC), and monotonic seconds for durations."""

    def now_us(self) -> int: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's own clocks."""

    def now_us(self) -> int:
        return time.time_ns() // 1000  # noqa: TID251 - the one reader of the wall clock

    def monotonic(self) -> float:
        return time.monotonic()  # noqa: TID251 - the one reader of the monotonic clock
