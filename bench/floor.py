"""The floor below a step: the very statements that the library sent, on one bare connection.

The library does the steps on a ledger whose connection writes down each statement with its
parameters; a copy of that ledger, taken when its runs were open, gets the same statements in
the same transactions, with nothing above SQLite but a loop.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw

from bench.own_steps import NAME, open_run, side_by_side
from bench.workload import Laps, work
from counterfoil.app.house import House
from counterfoil.app.settings import Settings
from counterfoil.app.wiring import open_ledger
from counterfoil.ports.store import NO_PARAMS, Params, Row
from counterfoil.stores.sqlite import SqliteConnection, SqliteStore

WIDEST = 64
COMMIT = "COMMIT"
Statement = tuple[str, dict[str, Any] | None, bool]


class RecordingConnection(SqliteConnection):
    """A connection that writes down what it is told to do: text, parameters, whether it reads."""

    def __init__(self, path: Path, statements: list[Statement]) -> None:
        super().__init__(path)
        self._statements = statements

    def run(self, sql: str, params: Params = NO_PARAMS) -> None:
        self._note(sql, params, reads=False)
        super().run(sql, params)

    def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        self._note(sql, params, reads=True)
        return super().one(sql, params)

    def all(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        self._note(sql, params, reads=True)
        return super().all(sql, params)

    def _note(self, sql: str, params: Params, *, reads: bool) -> None:
        self._statements.append((sql, dict(params) or None, reads))


class RecordingStore(SqliteStore):
    """Only its writers record: ``snapshot`` hands out plain connections."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.statements: list[Statement] = []

    def connect(self) -> RecordingConnection:
        return RecordingConnection(self.path, self.statements)


class Floor:
    """Records a block of steps untimed, then plays it on the bare connection, timed."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        settings = Settings(home=folder, ledger=folder / "recorded.db")
        self._store = RecordingStore(settings.ledger_file)
        self._house = House(settings, open_ledger(settings, store=self._store))
        self._run = open_run(self._house)
        self._many_runs = [open_run(self._house) for _ in range(WIDEST)]
        self._bare = _copy(self._store, folder / "floor.db")
        self._taken()

    def sequential(self, count: int) -> float:
        """Milliseconds of the median step, in the transactions of one step after another."""
        for _ in range(count):
            self._run.step(NAME, work).wait()
        return _play(self._bare, self._taken()).median

    def wide(self, width: int, each: int) -> float:
        """Milliseconds a step, in the transactions of that many runs side by side."""
        self._loop.run_until_complete(side_by_side(self._many_runs[:width], each))
        taken = self._taken()
        began = perf_counter()
        _play(self._bare, taken)
        return (perf_counter() - began) * 1000 / (width * each)

    def statements(self) -> float:
        """Statements of one step, the transaction's own included."""
        self._run.step(NAME, work).wait()
        taken = self._taken()
        _play(self._bare, taken)
        return float(len(taken))

    def close(self) -> None:
        self._loop.close()
        self._house.close()
        self._bare.close()

    def _taken(self) -> list[Statement]:
        taken = self._store.statements.copy()
        self._store.statements.clear()
        return taken


def _copy(store: RecordingStore, path: Path) -> apsw.Connection:
    """The ledger as it is now, opened bare with the ledger's own settings."""
    source = apsw.Connection(str(store.path))
    source.execute("VACUUM INTO ?", (str(path),))
    source.close()
    bare = apsw.Connection(str(path))
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=1"):
        bare.execute(f"PRAGMA {pragma}")
    return bare


def _play(bare: apsw.Connection, statements: list[Statement]) -> Laps:
    """The laps are the transactions."""
    execute = bare.execute
    laps = Laps()
    for sql, params, reads in statements:
        if reads:
            execute(sql, params).fetchall()
        else:
            execute(sql, params)
        if sql == COMMIT:
            laps.lap()
    return laps
