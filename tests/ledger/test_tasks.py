"""Tasks of a plan: added once, moved under the driver's fence, told with their reason."""

import json
from typing import Any

from counterfoil.ledger import runs, tasks
from counterfoil.ledger.states import TaskStatus
from counterfoil.ledger.tasks import NewTask

T = TaskStatus


def taken(bench: Any, driver: Any) -> Any:
    return bench.do(
        lambda unit: runs.take(
            unit, bench.scope, runs.get(unit.connection, bench.scope, driver.run_id), "hd_2"
        )
    )


def move(bench: Any, driver: Any, source: T, target: T, **more: Any) -> Any:
    return bench.submit(
        lambda unit: tasks.move(unit, bench.scope, driver, "a", source, target, **more)
    )


def test_each_task_waits_and_has_an_entry_of_its_own(bench: Any) -> None:
    driver = bench.running()
    new = [NewTask("b", 0, "Do b", "0" * 64, ()), NewTask("a", 1, "Do a", "1" * 64, ("b",))]
    bench.do(lambda unit: tasks.add(unit, bench.scope, driver, new))
    rows = bench.read(lambda connection: tasks.of_run(connection, bench.scope, driver.run_id))
    assert [(row.task_id, row.status, row.accepted) for row in rows] == [
        ("b", "waiting", 0),
        ("a", "waiting", 0),
    ]
    entry = bench.entries(driver.run_id)[-1]
    assert (entry.kind, entry.task_id) == ("task.added", "a")
    assert json.loads(entry.payload) == {"task": "a", "title": "Do a", "dependsOn": ["b"]}


def test_a_stale_driver_adds_nothing_also_where_the_tasks_are_there(bench: Any) -> None:
    late = bench.running()
    bench.add_tasks(taken(bench, late), "a")
    new = [NewTask("a", 0, "Do a", "0" * 64, ())]
    assert bench.refused(lambda unit: tasks.add(unit, bench.scope, late, new)) == "STALE_FENCE"
    assert bench.faults() == []


def test_a_stale_driver_moves_no_task(bench: Any) -> None:
    late = bench.running()
    bench.add_tasks(late, "a")
    present = taken(bench, late)
    assert move(bench, late, T.WAITING, T.READY).code == "STALE_FENCE"
    assert move(bench, present, T.WAITING, T.READY).status == T.READY
    assert bench.faults() == []


def test_a_move_tells_why_and_sets_what_was_given_only(bench: Any) -> None:
    bench.redactor.register("hunter2-hunter2")
    driver = bench.running()
    bench.add_tasks(driver, "a")
    move(bench, driver, T.WAITING, T.READY)
    row = move(bench, driver, T.READY, T.RUNNING, reason="hunter2-hunter2 \0", candidate="c")
    assert (row.reason, row.candidate) == ("[REDACTED:secret] \\u0000", "c")
    row = move(bench, driver, T.RUNNING, T.NO_CHANGE, accepted=True)
    assert (row.reason, row.candidate, row.accepted) == ("", "c", 1)
    payloads = [json.loads(entry.payload) for entry in bench.entries(driver.run_id)[-2:]]
    assert payloads == [
        {"task": "a", "from": "ready", "to": "running", "reason": "[REDACTED:secret] \\u0000"},
        {"task": "a", "from": "running", "to": "no_change"},
    ]
    assert bench.faults() == []


def test_a_title_is_redacted_in_its_row_too(bench: Any) -> None:
    bench.redactor.register("hunter2-hunter2")
    driver = bench.running()
    new = [NewTask("a", 0, "Use hunter2-hunter2", "0" * 64, ())]
    bench.do(lambda unit: tasks.add(unit, bench.scope, driver, new))
    row = bench.read(lambda connection: tasks.get(connection, bench.scope, driver.run_id, "a"))
    assert row.title == "Use [REDACTED:secret]"
