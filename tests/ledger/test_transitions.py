"""Every allowed move works, every other one is refused by name, and a race has one winner."""

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.ledger import attempts, runs, states, steps, tasks, transitions
from counterfoil.ledger.queries import queries
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import ExecutionStatus, Machine, TaskStatus
from counterfoil.ledger.steps import StepEnd
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal, Scope

E = ExecutionStatus
MACHINES = (states.RUNS, states.STEPS, states.TASKS, states.ATTEMPTS)


def one_of(bench: Any, machine: Machine) -> tuple[Driver, dict[str, str]]:
    """A run with one row of the machine's table, and that row's key."""
    driver = bench.running()
    if machine is states.RUNS:
        return driver, {"id": driver.run_id}
    if machine is states.TASKS:
        bench.add_tasks(driver, "a")
        return driver, {"run_id": driver.run_id, "task_id": "a"}
    if machine is states.ATTEMPTS:
        return driver, {"id": bench.attempt(driver).id}
    end = StepEnd("s", "step", bench.ledger.prepare(1), 0)
    bench.do(lambda unit: steps.record(unit, bench.scope, driver, end, known=False))
    return driver, {"run_id": driver.run_id, "step_key": "s"}


def put(bench: Any, machine: Machine, key: dict[str, str], status: str) -> None:
    where = " AND ".join(f"{name} = :{name}" for name in key)
    bench.submit(
        lambda unit: unit.run(
            f"UPDATE {machine.table} SET status = :status WHERE {where}", {**key, "status": status}
        )
    )


def status_of(bench: Any, machine: Machine, key: dict[str, str]) -> str:
    where = " AND ".join(f"{name} = :{name}" for name in key)
    row = bench.read(
        lambda connection: connection.one(f"SELECT status FROM {machine.table} WHERE {where}", key)
    )
    return str(row[0])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.table)
def test_every_allowed_move_works_and_every_other_is_an_illegal_move(
    bench: Any, machine: Machine
) -> None:
    driver, key = one_of(bench, machine)

    def attempt(unit: Unit, source: str, target: str) -> Any:
        row = transitions.move(unit, bench.scope, machine, key, source, target)
        told = bench.tell(driver.run_id)(unit)
        return row if isinstance(row, Refusal) else told

    for source, target in itertools.product(machine.moves, repeat=2):
        put(bench, machine, key, str(source))
        answer = bench.submit(lambda unit, s=source, t=target: attempt(unit, str(s), str(t)))
        if target in machine.moves[source]:
            assert not isinstance(answer, Refusal), (source, target, answer)
            assert status_of(bench, machine, key) == target
        else:
            assert answer.code == "ILLEGAL_MOVE", (source, target, answer)
            assert answer.status == source
            assert status_of(bench, machine, key) == source


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.table)
def test_a_row_that_stands_elsewhere_is_a_conflict_that_says_where(
    bench: Any, machine: Machine
) -> None:
    _driver, key = one_of(bench, machine)
    source = next(status for status in machine.moves if machine.moves[status])
    elsewhere = next(status for status in machine.moves if status is not source)
    put(bench, machine, key, str(elsewhere))
    target = next(iter(machine.moves[source]))
    answer = bench.submit(
        lambda unit: transitions.move(unit, bench.scope, machine, key, source, target)
    )
    assert (answer.code, answer.status) == ("CONFLICT", elsewhere)
    assert status_of(bench, machine, key) == elsewhere


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.table)
def test_a_row_that_is_not_there_is_not_found(bench: Any, machine: Machine) -> None:
    _driver, key = one_of(bench, machine)
    gone = {name: f"{value}x" for name, value in key.items()}
    source = next(status for status in machine.moves if machine.moves[status])
    target = next(iter(machine.moves[source]))
    assert (
        bench.refused(
            lambda unit: transitions.move(unit, bench.scope, machine, gone, source, target)
        )
        == "NOT_FOUND"
    )


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.table)
@pytest.mark.parametrize("foreign", [Scope("other", "default"), Scope("local", "other")])
def test_a_row_of_another_scope_is_not_found(bench: Any, machine: Machine, foreign: Scope) -> None:
    _driver, key = one_of(bench, machine)
    source = status_of(bench, machine, key)
    if not machine.moves[machine.status(source)]:
        source = str(next(status for status in machine.moves if machine.moves[status]))
        put(bench, machine, key, source)
    target = next(iter(machine.moves[machine.status(source)]))
    assert (
        bench.refused(lambda unit: transitions.move(unit, foreign, machine, key, source, target))
        == "NOT_FOUND"
    )
    assert status_of(bench, machine, key) == source


@pytest.mark.parametrize("machine", [states.RUNS, states.ATTEMPTS], ids=lambda one: one.table)
def test_an_older_or_a_newer_fence_is_stale(bench: Any, machine: Machine) -> None:
    _driver, key = one_of(bench, machine)
    source = status_of(bench, machine, key)
    target = next(iter(machine.moves[machine.status(source)]))
    for fence in (0, 2):
        assert (
            bench.refused(
                lambda unit, held=fence: transitions.move(
                    unit, bench.scope, machine, key, source, target, fence=held
                )
            )
            == "STALE_FENCE"
        )
    assert status_of(bench, machine, key) == source


def test_a_stale_fence_goes_before_a_conflict(bench: Any) -> None:
    driver = bench.running()
    stale = Driver(driver.run_id, driver.holder_id, driver.fence + 1)
    assert (
        bench.refused(lambda unit: runs.move(unit, bench.scope, stale, E.PAUSED, E.RUNNING))
        == "STALE_FENCE"
    )


def test_a_refused_move_is_not_told_and_leaves_nothing(bench: Any) -> None:
    driver = bench.running()
    before = bench.entries(driver.run_id)
    bench.refused(lambda unit: runs.move(unit, bench.scope, driver, E.PAUSED, E.RUNNING))
    assert bench.entries(driver.run_id) == before
    assert bench.faults() == []


def test_a_column_that_no_move_can_change_is_a_programming_error(bench: Any) -> None:
    driver = bench.running()
    with pytest.raises(TypeError, match="runs has no changeable column subject_id"):
        bench.submit(
            lambda unit: transitions.move(
                unit,
                bench.scope,
                states.RUNS,
                {"id": driver.run_id},
                E.RUNNING,
                E.PAUSED,
                subject_id="b",
            )
        )


def test_the_changeable_columns_are_those_of_the_statement() -> None:
    for table, columns in transitions._CHANGEABLE.items():
        statement = queries(table)["move"]
        assert [name for name in columns if f"    {name} = " not in statement] == []
        assigned = statement.split("SET")[1].split("WHERE")[0].count(" = ")
        assert assigned == len(columns) + 2, table


def test_texts_that_are_moved_are_redacted_but_exact_ones_are_left_alone(bench: Any) -> None:
    bench.redactor.register("hunter2-hunter2")
    driver = bench.running()
    bench.do(
        lambda unit: runs.move(
            unit, bench.scope, driver, E.RUNNING, E.PAUSED, message="it is hunter2-hunter2"
        )
    )
    row = bench.read(lambda connection: runs.get(connection, bench.scope, driver.run_id))
    assert row.error_message == "it is [REDACTED:secret]"


def both(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """What two threads answer that start at one moment."""
    start, answers = threading.Barrier(2), []

    def go(work: Callable[[], Any]) -> None:
        start.wait(30)
        answers.append(work())

    threads = [threading.Thread(target=go, args=(work,)) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


@pytest.mark.parametrize("shared", [True, False], ids=["one writer", "two writers"])
def test_of_two_racing_movers_exactly_one_wins(open_bench: Any, shared: bool) -> None:
    bench = open_bench()
    other = bench if shared else open_bench()
    for _ in range(8):
        driver = bench.running()

        def mover(at: Any, target: E, driver: Driver = driver) -> Callable[[], Any]:
            return lambda: at.submit(
                lambda unit: runs.move(unit, at.scope, driver, E.RUNNING, target)
            )

        answers = both(mover(bench, E.SUCCEEDED), mover(other, E.FAILED))
        lost = [answer for answer in answers if isinstance(answer, Refusal)]
        assert [str(refusal.code) for refusal in lost] == ["CONFLICT"]
        (won,) = [answer for answer in answers if not isinstance(answer, Refusal)]
        with bench.store.snapshot() as connection:
            kept = runs.get(connection, bench.scope, won.id)
        assert kept.status == won.status == lost[0].status
        assert [one.kind for one in bench.entries(won.id)].count("run.status") == 2
    assert bench.faults() == []


MOVER = """
import sys
from pathlib import Path
from counterfoil.core.clock import SystemClock
from counterfoil.core.ids import SystemIds
from counterfoil.core.redaction import Redactor
from counterfoil.ledger import tasks
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import TaskStatus
from counterfoil.ledger.values import Refusal, Scope
from counterfoil.ledger.writer import GroupWriter
from counterfoil.stores.sqlite import SqliteStore

path, run_id, target, count = sys.argv[1:]
store = SqliteStore(Path(path), synchronous="OFF")
writer = GroupWriter(store, clock=SystemClock(), ids=SystemIds(), redactor=Redactor())
driver = Driver(run_id, "hd_1", 1)
print("ready", flush=True)
sys.stdin.readline()
won = []
for number in range(int(count)):
    answer = writer.submit(
        lambda unit: tasks.move(unit, Scope(), driver, f"t{number}", "waiting", TaskStatus(target))
    ).wait()
    if not isinstance(answer, Refusal):
        won.append(answer.task_id)
    elif answer.code != "CONFLICT":
        raise SystemExit(str(answer))
writer.close()
print(*won)
"""


@pytest.mark.usefixtures("sqlite_only")
def test_of_two_racing_processes_exactly_one_wins_each_task(bench: Any, tmp_path: Path) -> None:
    driver = bench.running()
    names = [f"t{number}" for number in range(40)]
    bench.add_tasks(driver, *names)
    movers = [
        subprocess.Popen(
            [sys.executable, "-c", MOVER, tmp_path / "ledger.db", driver.run_id, target, "40"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for target in ("ready", "canceled")
    ]
    for mover in movers:
        assert mover.stdout.readline() == "ready\n"
    won = [mover.communicate("go\n", timeout=60)[0].split() for mover in movers]
    assert [mover.returncode for mover in movers] == [0, 0]
    assert sorted(won[0] + won[1]) == sorted(names)
    rows = bench.read(lambda connection: tasks.of_run(connection, bench.scope, driver.run_id))
    assert {row.task_id for row in rows if row.status == TaskStatus.READY} == set(won[0])
    assert bench.faults() == []


def test_an_attempt_that_was_handed_over_answers_to_its_own_fence(bench: Any) -> None:
    driver = bench.running()
    attempt = bench.attempt(driver)
    taken = bench.do(
        lambda unit: runs.take(
            unit, bench.scope, runs.get(unit.connection, bench.scope, driver.run_id), "hd_2"
        )
    )
    adopted = bench.do(lambda unit: attempts.hand_over(unit, bench.scope, taken, attempt))
    assert (
        bench.refused(lambda unit: attempts.start(unit, bench.scope, driver, attempt))
        == "STALE_FENCE"
    )
    started = bench.do(lambda unit: attempts.start(unit, bench.scope, taken, adopted))
    assert (started.status, started.holder_id, started.fence) == ("running", "hd_2", 1)
    assert bench.faults() == []
