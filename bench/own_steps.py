"""Counterfoil's durable steps by its public doors: a plain thread, asyncio, 64 wide."""

import asyncio
from pathlib import Path
from time import perf_counter

import apsw

from bench.workload import Laps, work
from counterfoil import open_house
from counterfoil.app.house import House, Run
from counterfoil.app.settings import Settings

NAME = "edit"


def open_ledger_in(folder: Path, name: str) -> House:
    return open_house(settings=Settings(home=folder / name, ledger=folder / name / "ledger.db"))


def open_run(house: House) -> Run:
    """A run that stays open for as long as the contender lives."""
    return house.run(subject_kind="agent", subject_id="bench").__enter__()


class OwnSteps:
    """One ledger for each door, so that none is larger for what another has written."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._sync, self._async, self._wide, self._wide_one = (
            open_ledger_in(folder, name) for name in ("sync", "async", "wide", "wide-one")
        )
        self._sync_run, self._async_run = open_run(self._sync), open_run(self._async)
        self._one_run = open_run(self._wide_one)
        self._many_runs: list[Run] = []

    def sync_door(self, count: int) -> float:
        """Milliseconds of the median step, one after another in a plain thread."""
        run, laps = self._sync_run, Laps()
        for _ in range(count):
            run.step(NAME, work).wait()
            laps.lap()
        return laps.median

    def async_door(self, count: int) -> float:
        """Milliseconds of the median step, one after another on asyncio."""
        return self._loop.run_until_complete(self._sequence(count))

    def wide(self, width: int, each: int) -> float:
        """Milliseconds a step: ``width`` runs side by side, ``each`` steps in each."""
        while len(self._many_runs) < width:
            self._many_runs.append(open_run(self._wide))
        return self._loop.run_until_complete(side_by_side(self._many_runs[:width], each))

    def wide_in_one(self, width: int, each: int) -> float:
        """Milliseconds a step: the same, all of them in one run."""
        runs = [self._one_run] * width
        return self._loop.run_until_complete(side_by_side(runs, each))

    def bytes_used(self) -> float:
        """Bytes of the plain thread's ledger, its log written back."""
        path = self._sync.settings.ledger_file
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
        return float(path.stat().st_size + Path(f"{path}-wal").stat().st_size)

    def close(self) -> None:
        self._loop.close()
        for house in (self._sync, self._async, self._wide, self._wide_one):
            house.close()

    async def _sequence(self, count: int) -> float:
        run, laps = self._async_run, Laps()
        for _ in range(count):
            await run.step(NAME, work)
            laps.lap()
        return laps.median


async def side_by_side(runs: list[Run], each: int) -> float:
    """Milliseconds a step while one chain of steps goes on in each of the runs."""

    async def chain(number: int, run: Run) -> None:
        for _ in range(each):
            await run.step(f"{NAME}-{number}", work)

    began = perf_counter()
    await asyncio.gather(*(chain(number, run) for number, run in enumerate(runs)))
    return (perf_counter() - began) * 1000 / (len(runs) * each)
