"""The machine's own pace while something long is measured: one small process and one sync.

A plan of a thousand tasks takes minutes, and a machine is not the same at their end: what is
slower then may be slower only because everything is.
"""

import os
import subprocess
import threading
from pathlib import Path
from statistics import median
from time import perf_counter, time
from types import TracebackType
from typing import Self

SECONDS = 0.2


class Pulse:
    """Takes the pulse in a thread of its own until its block ends."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "pulse"
        self._taken: list[tuple[float, float]] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)

    def between(self, began_ms: float, ended_ms: float) -> float:
        """Milliseconds of the median pulse between two wall times, or of the nearest one."""
        within = [took for at, took in self._taken if began_ms <= at <= ended_ms]
        nearest = min(self._taken, key=lambda taken: abs(taken[0] - ended_ms))
        return median(within or [nearest[1]])

    def __enter__(self) -> Self:
        self._take()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ending.wait(SECONDS):
            self._take()

    def _take(self) -> None:
        began = perf_counter()
        subprocess.run(["git", "version"], stdout=subprocess.DEVNULL, check=True)
        with self._file.open("wb") as file:
            file.write(b"pulse")
            file.flush()
            os.fsync(file.fileno())
        self._taken.append((time() * 1000, (perf_counter() - began) * 1000))
