"""The fold of the journal equals the state columns after any history, faults and refusals too."""

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterfoil.core.errors import StoreError, StoreUnavailable
from counterfoil.ledger import (
    artifacts,
    attempts,
    fold,
    gates,
    holders,
    journal,
    runs,
    steps,
    tasks,
    verify,
    writer,
)
from counterfoil.ledger.attempts import End, Lease
from counterfoil.ledger.gates import Judged
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import (
    MACHINES,
    AttemptOutcome,
    ExecutionStatus,
    FailClass,
    HolderStatus,
    Phase,
    TaskStatus,
)
from counterfoil.ledger.steps import StepEnd
from counterfoil.ledger.tasks import NewTask
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal
from counterfoil.testing.faults import FaultKind

NAMES = ("a", "b", "c")
FAULTS = tuple(FaultKind)
RUN_STATUSES = tuple(status for status in ExecutionStatus if status != ExecutionStatus.SKIPPED)
OUTCOMES = tuple(AttemptOutcome)
PHASES = tuple(Phase)
FAIL_CLASSES = (None, *FailClass)
SOURCES = 4
"""One pick in four names the row's real status; the others guess, mostly wrong."""


class History:
    """Drives a ledger through its public functions, and keeps count of what it was answered."""

    def __init__(self, bench: Any, pick: Callable[[int], int]) -> None:
        self.bench, self.pick = bench, pick
        self.drivers: list[Driver] = []
        self.attempts: list[str] = []
        self.told: dict[str, bool] = {}
        self.answers: list[str] = []

    def act(self) -> None:
        acts = (
            self.create,
            self.move_run,
            self.move_run,
            self.take,
            self.add_task,
            self.move_task,
            self.move_task,
            self.lease,
            self.start_or_end,
            self.start_or_end,
            self.hand_over,
            self.judge,
            self.step,
            self.keep,
            self.hold,
            self.tell,
            self.fail,
        )
        acts[self.pick(len(acts))]()

    # What is drawn

    def of(self, values: Any) -> Any:
        return values[self.pick(len(values))]

    def driver(self) -> Driver:
        """One of all drivers that there ever were, so that many are stale."""
        return self.of(self.drivers) if self.drivers else Driver("run_none", "hd_1", 1)

    def do(self, work: Callable[[Unit], Any]) -> Any:
        """Do a unit with an entry of its own to count; None when it left nothing."""
        number = f"n{len(self.told)}"

        def counted(unit: Unit) -> Any:
            answer = work(unit)
            if not isinstance(answer, Refusal):
                self.bench.tell("count", number)(unit)
            return answer

        self.told[number] = False
        try:
            door = self.of((self.bench.submit, self.bench.writer.do))
            answer = door(counted)
        except StoreUnavailable:
            self.answers.append("unavailable")
            return None
        except StoreError:
            self.answers.append("error")
            return None
        if isinstance(answer, Refusal):
            self.answers.append(str(answer.code))
            return None
        self.answers.append("done")
        self.told[number] = True
        return answer

    # What is done

    def create(self) -> None:
        bench = self.bench
        key, value = self.of((None, None, "k")), self.of((1, "x" * 9_000))
        stored = bench.ledger.keep_exact(bench.ledger.prepare(value))
        art_id = bench.ids.new("art") if stored else None
        new = bench.new(run_key=key, value=value, input_artifact_id=art_id)

        def work(unit: Unit) -> Any:
            row = runs.create(unit, bench.scope, new)
            if stored and not isinstance(row, Refusal):
                artifacts.record(unit, bench.scope, row.id, stored, artifact_id=art_id)
            return row

        row = self.do(work)
        if row is not None:
            self.drivers.append(Driver(row.id, row.holder_id, row.fence))

    def row_status(self, read: Callable[[Any], Any], guess: Any) -> str:
        row = self.bench.read(read)
        return row.status if row is not None and self.pick(SOURCES) else str(guess)

    def move_run(self) -> None:
        driver, scope = self.driver(), self.bench.scope
        source = self.row_status(
            lambda connection: runs.get(connection, scope, driver.run_id), self.of(RUN_STATUSES)
        )
        target = self.of(RUN_STATUSES)
        result = self.of((None, self.bench.ledger.prepare({"r": 1})))
        self.do(
            lambda unit: runs.move(
                unit, scope, driver, source, target, cause="c", result=result, error_code="E"
            )
        )

    def take(self) -> None:
        driver, scope = self.driver(), self.bench.scope
        row = self.bench.read(lambda connection: runs.get(connection, scope, driver.run_id))
        if row is None:
            return
        taken = self.do(lambda unit: runs.take(unit, scope, row, self.of(("hd_2", "hd_3"))))
        if taken is not None:
            self.drivers.append(taken)

    def add_task(self) -> None:
        driver, scope = self.driver(), self.bench.scope
        new = [NewTask(self.of(NAMES), 0, "T", "s" * 64, ())]
        self.do(lambda unit: tasks.add(unit, scope, driver, new))

    def move_task(self) -> None:
        driver, name, scope = self.driver(), self.of(NAMES), self.bench.scope
        source = self.row_status(
            lambda connection: tasks.get(connection, scope, driver.run_id, name),
            self.of(tuple(TaskStatus)),
        )
        target, accepted = self.of(tuple(TaskStatus)), self.of((None, True, False))
        self.do(
            lambda unit: tasks.move(
                unit, scope, driver, name, source, target, accepted=accepted, candidate="c"
            )
        )

    def lease(self) -> None:
        driver, scope = self.driver(), self.bench.scope
        lease = Lease(
            self.bench.ids.new("at"),
            self.of(NAMES),
            self.of(PHASES),
            self.pick(3),
            "claude",
            "b" * 40,
            fence=1 + self.pick(2),
        )
        if self.do(lambda unit: attempts.lease(unit, scope, driver, lease)) is not None:
            self.attempts.append(lease.attempt_id)

    def attempt(self) -> Any:
        if not self.attempts:
            return None
        name, scope = self.of(self.attempts), self.bench.scope
        return self.bench.read(lambda connection: attempts.get(connection, scope, name))

    def start_or_end(self) -> None:
        driver, attempt, scope = self.driver(), self.attempt(), self.bench.scope
        if attempt is None:
            return
        if self.pick(2):
            self.do(lambda unit: attempts.start(unit, scope, driver, attempt, ["x"]))
            return
        how = End(
            self.of(OUTCOMES),
            "finished",
            error_class=self.of(("", "task")),
            candidate=self.of(("", "c" * 40)),
            duration_ms=self.of((None, 0, 7)),
        )
        self.do(lambda unit: attempts.end(unit, scope, driver, attempt, how))

    def hand_over(self) -> None:
        driver, attempt, scope = self.driver(), self.attempt(), self.bench.scope
        if attempt is not None:
            self.do(lambda unit: attempts.hand_over(unit, scope, driver, attempt))

    def judge(self) -> None:
        driver, attempt, scope = self.driver(), self.attempt(), self.bench.scope
        if attempt is None:
            return
        judged = Judged(
            self.of(NAMES), "g", "e", ("x",), ".", 0, None, fail_class=self.of(FAIL_CLASSES)
        )
        self.do(lambda unit: gates.record(unit, scope, driver, attempt, judged))

    def step(self) -> None:
        driver, scope, ledger = self.driver(), self.bench.scope, self.bench.ledger
        result = ledger.prepare(self.of((1, "x" * 9_000, float("nan"))))
        end = StepEnd(
            self.of(NAMES),
            "step",
            result,
            0,
            overflow=ledger.keep_exact(result),
            error_code=self.of(("", "ValueError")),
        )
        known = bool(self.pick(2))
        self.do(lambda unit: steps.record(unit, scope, driver, end, known=known))

    def keep(self) -> None:
        driver, scope = self.driver(), self.bench.scope
        stored = self.bench.ledger.keep(b"bytes", "log")
        fence = self.of((driver.fence, None))
        if self.drivers:
            self.do(lambda unit: artifacts.record(unit, scope, driver.run_id, stored, fence=fence))

    def hold(self) -> None:
        scope, name = self.bench.scope, self.of(("hd_1", "hd_2"))
        process = holders.Process(name, "process", "host", "boot", 1, "lock")
        self.of(
            (
                lambda: self.do(lambda unit: holders.register(unit, scope, process)),
                lambda: self.do(lambda unit: holders.renew(unit, scope, name)),
                lambda: self.do(
                    lambda unit: holders.finish(unit, scope, name, HolderStatus.RELEASED)
                ),
            )
        )()

    def tell(self) -> None:
        self.do(self.bench.tell(self.driver().run_id))

    def fail(self) -> None:
        """The store fails soon; in one case of eight the disk is full for a while."""
        kind = self.pick(len(FAULTS) + 1)
        if kind == len(FAULTS) and self.bench.store.engine != "sqlite":
            return
        if kind == len(FAULTS):
            self.bench.store.disk_full = not self.bench.store.disk_full
        else:
            self.bench.store.arm(FAULTS[kind], after=self.pick(12), times=1 + self.pick(2))


def check(history: History) -> None:
    """Journal, rows and answers agree."""
    bench = history.bench
    bench.store.disarm()
    assert bench.faults() == []
    with bench.store.snapshot() as connection:
        for head in verify.streams(connection, bench.scope):
            entries = list(journal.entries(connection, bench.scope, head.stream))
            assert [entry.seq for entry in entries] == list(range(1, head.seq + 1))
            folded = fold.fold((entry.seq, entry.moves) for entry in entries)
            assert folded.illegal == []
            assert {table for table, _key in folded.rows} <= set(MACHINES)
    counted = [entry.payload.split('"')[3] for entry in bench.entries("count")]
    assert counted == [number for number, done in history.told.items() if done]


@pytest.fixture(autouse=True)
def _back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "RECONNECT_SECONDS", 0.001)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(draws=st.lists(st.integers(0, 2**16 - 1), min_size=20, max_size=700))
def test_after_any_history_the_journal_explains_every_row(new_bench: Any, draws: list[int]) -> None:
    with TemporaryDirectory() as folder:
        workbench = new_bench(Path(folder))
        try:
            left = list(draws)
            history = History(workbench, lambda among: (left.pop() if left else 0) % among)
            while left:
                history.act()
            check(history)
        finally:
            workbench.store.disarm()
            workbench.close()


@pytest.mark.parametrize("seed", range(6))
def test_after_a_long_history_the_journal_explains_every_row(
    new_bench: Any, tmp_path: Path, seed: int
) -> None:
    workbench = new_bench(tmp_path)
    numbers = random.Random(seed)
    history = History(workbench, numbers.randrange)
    try:
        for _ in range(1_000):
            history.act()
        check(history)
    finally:
        workbench.store.disarm()
        workbench.close()
    seen = set(history.answers)
    assert {"done", "unavailable", "STALE_FENCE", "ILLEGAL_MOVE", "CONFLICT"} <= seen


def test_a_difference_is_told_in_both_directions() -> None:
    folded = fold.fold([(1, '[["runs",{"id":"r"},{"status":"queued","fence":1}]]')])
    row = dict.fromkeys(MACHINES["runs"].state) | {"id": "r", "status": "queued", "fence": 2}
    assert fold.differences(folded, "runs", [row]) == ["runs r: fence is 2, the journal says 1"]
    assert fold.differences(folded, "runs", []) == ["runs r is in the journal but not in its table"]
    assert fold.differences(fold.Folded(), "runs", [row]) == [
        "runs r is not told of in the journal"
    ]
