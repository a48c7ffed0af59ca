"""A keeper that stops or dies at a named point, for crash tests.

``python -m counterfoil.testing.keeper_faults ACTION:POINT SIGNAL_FILE FOLDER`` runs in place
of the keeper. ACTION is ``kill`` or ``stop``; at the point it writes its pid into the signal
file, and one that stopped goes on when that file is removed.
"""

import os
import signal
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from counterfoil.executors.keeper import Exit, Keeper, run
from counterfoil.ports.executor import ExitRecord

LOOK_SECONDS = 0.01


class Point(StrEnum):
    """Where a keeper can be struck, in the order of its life."""

    BEFORE_LOCK = "before_lock"
    AFTER_LOCK = "after_lock"
    BEFORE_SPAWN = "before_spawn"
    AFTER_SPAWN = "after_spawn"
    BEFORE_RECORD = "before_record"
    AFTER_RECORD = "after_record"


class FaultyKeeper(Keeper):
    """A keeper with one fault."""

    def __init__(self, action: str, point: Point, signal_file: Path, *given: Any) -> None:
        super().__init__(*given)
        self._action, self._point, self._signal_file = action, point, signal_file

    def take_lock(self) -> None:
        self._reach(Point.BEFORE_LOCK)
        super().take_lock()
        self._reach(Point.AFTER_LOCK)

    def spawn(self) -> None:
        self._reach(Point.BEFORE_SPAWN)
        super().spawn()
        self._reach(Point.AFTER_SPAWN)

    def write_record(self, record: ExitRecord) -> Exit:
        self._reach(Point.BEFORE_RECORD)
        code = super().write_record(record)
        self._reach(Point.AFTER_RECORD)
        return code

    def _reach(self, point: Point) -> None:
        if point is not self._point:
            return
        draft = self._signal_file.with_suffix(".draft")
        draft.write_text(str(os.getpid()))
        draft.rename(self._signal_file)
        if self._action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        while self._signal_file.exists():
            self.wake.wait(LOOK_SECONDS)


if __name__ == "__main__":
    what, signal_file, folder = sys.argv[1:]
    action, _, point = what.partition(":")
    faulty = partial(FaultyKeeper, action, Point(point), Path(signal_file))
    sys.exit(run(Path(folder), faulty))
