"""DBOS's durable steps by its public API, on the SQLite file that it makes, or on one in WAL.

Import it only where the package ``dbos`` is installed (extra ``bench``).
"""

import asyncio
import sqlite3
from pathlib import Path
from time import perf_counter
from typing import Any

from dbos import DBOS, DBOSConfig

from bench.workload import Laps, work, work_async

step = DBOS.step(name="step")(work)
step_async = DBOS.step(name="step_async")(work_async)


@DBOS.workflow(name="sequence")
def sequence(count: int) -> float:
    laps = Laps()
    for _ in range(count):
        step()
        laps.lap()
    return laps.median


@DBOS.workflow(name="sequence_async")
async def sequence_async(count: int) -> tuple[float, float]:
    began = perf_counter()
    for _ in range(count):
        await step_async()
    return began, perf_counter()


class Shipped:
    """As its documentation starts it, without its logs."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "dbos.sqlite"
        self._make_file()
        config: DBOSConfig = {
            "name": "bench",
            "system_database_url": f"sqlite:///{self._path}",
            "log_level": "ERROR",
        }
        DBOS(config=config)
        DBOS.launch()
        self._loop = asyncio.new_event_loop()

    def _make_file(self) -> None:
        """DBOS makes it."""

    def sequential(self, count: int) -> float:
        """Milliseconds of the median step of one workflow; its start and end do not count."""
        return float(sequence(count))

    def wide(self, width: int, each: int) -> float:
        """Milliseconds a step: ``width`` workflows side by side, from first step to last."""
        spans = self._loop.run_until_complete(_gather(width, each))
        elapsed = max(ended for _, ended in spans) - min(began for began, _ in spans)
        return float(elapsed) * 1000 / (width * each)

    def bytes_used(self) -> float:
        """Bytes of its file, its log written back."""
        connection = sqlite3.connect(self._path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return float(self._path.stat().st_size)

    def close(self) -> None:
        DBOS.destroy()
        self._loop.close()


class Wal(Shipped):
    """The same on a file that was put into WAL before: the mode stays with the file."""

    def _make_file(self) -> None:
        connection = sqlite3.connect(self._path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()


async def _gather(width: int, each: int) -> list[Any]:
    return await asyncio.gather(*(sequence_async(each) for _ in range(width)))
