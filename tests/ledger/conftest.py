"""A ledger to test on, once for each engine; another engine is one more entry of ``ENGINES``."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from counterfoil.core.redaction import Redactor
from counterfoil.ledger import attempts, events, journal, runs, tasks, verify
from counterfoil.ledger.attempts import Lease
from counterfoil.ledger.hashing import HashKey
from counterfoil.ledger.record import Ledger
from counterfoil.ledger.runs import Driver, NewRun
from counterfoil.ledger.states import ExecutionStatus, Phase
from counterfoil.ledger.tasks import NewTask
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import AttemptRow, Refusal, RunRow, Scope
from counterfoil.ledger.writer import GroupWriter, Pending
from counterfoil.ports.store import Store
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.fakes import CountedIds, MemoryBlobs, StillClock
from counterfoil.testing.faults import Fault, FaultKind, FaultyStore

OpenStore = Callable[[Path], Store]


def sqlite(folder: Path) -> Store:
    return SqliteStore(folder / "ledger.db", synchronous="OFF")


ENGINES: dict[str, OpenStore] = {"sqlite": sqlite}
"""By name: what opens one more store on the database that belongs to a folder."""


@pytest.fixture(params=ENGINES)
def open_store(request: pytest.FixtureRequest) -> OpenStore:
    return ENGINES[request.param]


@pytest.fixture
def sqlite_only(open_store: OpenStore) -> None:
    """For what is asked of the engine itself, or of the one file."""
    if open_store is not sqlite:
        pytest.skip("asks SQLite itself")


class Workbench:
    """One ledger over a faulty store, and what tests do to it all the time."""

    def __init__(self, store: Store, ids: CountedIds | None = None) -> None:
        self.store = FaultyStore(store)
        self.store.migrate()
        self.clock = StillClock()
        self.ids = ids or CountedIds()
        self.blobs = MemoryBlobs()
        self.redactor = Redactor()
        self.writer = GroupWriter(
            self.store, clock=self.clock, ids=self.ids, redactor=self.redactor
        )
        self.scope = Scope()
        self.ledger = Ledger(
            store=self.store,
            writer=self.writer,
            blobs=self.blobs,
            redactor=self.redactor,
            clock=self.clock,
            ids=self.ids,
            scope=self.scope,
            key=HashKey("k1", b"k" * 32),
        )
        self.do = self.ledger.do
        self.read = self.ledger.read

    def close(self) -> None:
        self.writer.close()
        self.store.close()

    def submit(self, work: Callable[[Unit], Any]) -> Any:
        """Do a unit; the answer may be a refusal."""
        return self.writer.submit(work).wait()

    def refused(self, work: Callable[[Unit], Any]) -> str:
        """The code of the refusal that the unit must get."""
        answer = self.submit(work)
        assert isinstance(answer, Refusal), answer
        return str(answer.code)

    def new(self, **columns: Any) -> NewRun:
        given = {"subject_kind": "agent", "subject_id": "a", "holder_id": "hd_1", **columns}
        value = given.pop("value", {"ask": 1})
        return NewRun(
            input=self.ledger.prepare(value), input_hash="h", input_hash_key="k1", **given
        )

    def run(self, **columns: Any) -> tuple[RunRow, Driver]:
        row = self.do(lambda unit: runs.create(unit, self.scope, self.new(**columns)))
        return row, Driver(row.id, row.holder_id, row.fence)

    def running(self, **columns: Any) -> Driver:
        row, driver = self.run(**columns)
        self.do(
            lambda unit: runs.move(unit, self.scope, driver, row.status, ExecutionStatus.RUNNING)
        )
        return driver

    def add_tasks(self, driver: Driver, *names: str) -> None:
        new = [NewTask(name, n, f"Do {name}", "s" * 64, ()) for n, name in enumerate(names)]
        self.do(lambda unit: tasks.add(unit, self.scope, driver, new))

    def attempt(
        self, driver: Driver, task: str = "a", phase: Phase = Phase.IMPLEMENT, ordinal: int = 1
    ) -> AttemptRow:
        lease = Lease(self.ids.new("at"), task, phase, ordinal, "claude", "b" * 40)
        return self.do(lambda unit: attempts.lease(unit, self.scope, driver, lease))

    def tell(self, stream: str, message: str = "m") -> Callable[[Unit], Any]:
        """A unit that appends one entry."""
        payload = {"message": message, "where": "test"}
        return lambda unit: journal.append(unit, self.scope, stream, events.RUN_DIAGNOSTIC, payload)

    def entries(self, stream: str) -> list[Any]:
        return self.read(lambda connection: list(journal.entries(connection, self.scope, stream)))

    def findings(self, heads: dict[str, str] | None = None) -> list[verify.Findings]:
        kept = heads or {}
        return self.read(
            lambda connection: [
                verify.verify_stream(
                    connection,
                    self.blobs,
                    self.scope,
                    head,
                    kept_head=kept.get(head.stream, ""),
                )
                for head in verify.streams(connection, self.scope)
            ]
        )

    def faults(self, heads: dict[str, str] | None = None) -> list[str]:
        """What verify says of the whole ledger."""
        return [fault for findings in self.findings(heads) for fault in findings.faults]

    def held(self) -> "Held":
        return Held(self)


@dataclass
class Held:
    """Holds the writer inside a unit, so that what is handed in meanwhile becomes one group."""

    bench: Workbench
    _go: threading.Event = field(default_factory=threading.Event)
    _faults: list[Fault] = field(default_factory=list)

    def __enter__(self) -> "Held":
        inside = threading.Event()

        def wait(unit: Unit) -> None:
            inside.set()
            assert self._go.wait(30)

        self._pending: Pending[None] = self.bench.writer.submit(wait)
        assert inside.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def arm(self, kind: FaultKind, *, after: int = 0, times: int = 1) -> None:
        """A fault that counts from the first statement of the group on."""
        self._faults.append(Fault(kind, after, times))

    def release(self) -> None:
        store = self.bench.store

        def arm(_number: int, when: str) -> None:
            if when == "after":
                store.on_commit = None
                for fault in self._faults:
                    store.arm(fault.kind, after=fault.after, times=fault.times)

        if self._faults:
            store.on_commit = arm
        self._go.set()
        self._pending.wait()


@pytest.fixture
def bench(open_store: OpenStore, tmp_path: Path) -> Iterator[Workbench]:
    workbench = Workbench(open_store(tmp_path))
    yield workbench
    workbench.store.disarm()
    workbench.close()


@pytest.fixture
def open_bench(open_store: OpenStore, tmp_path: Path) -> Iterator[Callable[[], Workbench]]:
    """Opens workbenches on one database, as other processes would."""
    opened: list[Workbench] = []
    ids = CountedIds()

    def open_one() -> Workbench:
        opened.append(Workbench(open_store(tmp_path), ids))
        return opened[-1]

    yield open_one
    for workbench in opened:
        workbench.store.disarm()
        workbench.close()


@pytest.fixture
def new_bench(open_store: OpenStore) -> Callable[[Path], Workbench]:
    """Opens a workbench in a folder; whoever asks for it closes it."""
    return lambda folder: Workbench(open_store(folder))
