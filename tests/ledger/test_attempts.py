"""Attempts: a row before anything exists, one end with all that it tells, and the right fence."""

import json
from decimal import Decimal
from typing import Any

import pytest

from counterfoil.core.errors import StoreError
from counterfoil.ledger import artifacts, attempts, events, gates, runs
from counterfoil.ledger.attempts import End, Lease
from counterfoil.ledger.gates import Judged
from counterfoil.ledger.states import AttemptOutcome, Phase
from counterfoil.ports.agent import Report
from counterfoil.ports.executor import ExitCause, ExitRecord, ProcessNote


def taken(bench: Any, driver: Any) -> Any:
    return bench.do(
        lambda unit: runs.take(
            unit, bench.scope, runs.get(unit.connection, bench.scope, driver.run_id), "hd_2"
        )
    )


def started(bench: Any, driver: Any) -> Any:
    attempt = bench.attempt(driver)
    return bench.do(
        lambda unit: attempts.start(unit, bench.scope, driver, attempt, ["claude", "-p"])
    )


def end(bench: Any, driver: Any, attempt: Any, how: End) -> Any:
    return bench.submit(lambda unit: attempts.end(unit, bench.scope, driver, attempt, how))


def told(bench: Any, driver: Any, last: int) -> list[tuple[str, dict[str, Any]]]:
    entries = bench.entries(driver.run_id)[-last:]
    return [(entry.kind, json.loads(entry.payload)) for entry in entries]


def test_a_lease_is_told_as_one_dispatch_before_anything_exists(bench: Any) -> None:
    driver = bench.running()
    attempt = bench.attempt(driver)
    assert (attempt.status, attempt.holder_id, attempt.fence) == ("leased", "hd_1", 1)
    assert (attempt.started_at, attempt.ended_at, attempt.outcome) == (None, None, "")
    ((kind, payload),) = told(bench, driver, 1)
    assert kind == "task.dispatch"
    assert payload == {
        "task": "a",
        "attemptId": attempt.id,
        "phase": "implement",
        "ordinal": 1,
        "agent": "claude",
        "base": "b" * 40,
        "fence": 1,
    }
    entry = bench.entries(driver.run_id)[-1]
    assert (entry.task_id, entry.attempt_id) == ("a", attempt.id)


def test_a_phase_has_each_ordinal_once(bench: Any) -> None:
    driver = bench.running()
    bench.attempt(driver)
    with pytest.raises(StoreError, match="UNIQUE"):
        bench.attempt(driver)
    bench.attempt(driver, ordinal=2)
    bench.attempt(driver, phase=Phase.REVIEW)
    rows = bench.read(lambda connection: attempts.of_run(connection, bench.scope, driver.run_id))
    assert [(row.phase, row.ordinal) for row in rows] == [
        ("implement", 1),
        ("implement", 2),
        ("review", 1),
    ]
    assert bench.faults() == []


def test_the_order_is_that_of_the_leases_also_when_the_clock_steps_back(bench: Any) -> None:
    driver = bench.running()
    for ordinal in range(1, 4):
        attempt = bench.attempt(driver, ordinal=ordinal)
        judged = Judged("t", str(ordinal), "e", ("true",), ".", 0, 1)
        stored = bench.ledger.keep(str(ordinal).encode(), "log")
        for record in (
            lambda unit, a=attempt, j=judged: gates.record(unit, bench.scope, driver, a, j),
            lambda unit, s=stored: artifacts.record(unit, bench.scope, driver.run_id, s),
        ):
            bench.do(record)
        bench.clock.set_wall(bench.clock.now_us() - 60_000_000)
    read = bench.read
    tried = read(lambda connection: attempts.of_run(connection, bench.scope, driver.run_id))
    judged_ones = read(lambda connection: gates.of_run(connection, bench.scope, driver.run_id))
    kept = read(lambda connection: artifacts.of_run(connection, bench.scope, driver.run_id))
    assert [row.ordinal for row in tried] == [1, 2, 3]
    assert [row.gate for row in judged_ones] == ["1", "2", "3"]
    assert [bench.blobs.get(row.sha256) for row in kept] == [b"1", b"2", b"3"]
    assert bench.faults() == []


def test_a_stale_driver_leases_nothing_also_where_the_next_one_has(bench: Any) -> None:
    late = bench.running()
    bench.attempt(taken(bench, late))
    lease = Lease("at_x", "a", Phase.IMPLEMENT, 1, "claude", "b")
    assert (
        bench.refused(lambda unit: attempts.lease(unit, bench.scope, late, lease)) == "STALE_FENCE"
    )
    assert bench.faults() == []


def test_an_end_tells_done_and_what_was_measured_and_one_duration(bench: Any) -> None:
    driver = bench.running()
    attempt = started(bench, driver)
    assert attempt.started_at == bench.clock.now_us()
    note = ProcessNote(7, "sleep 60", "marked")
    how = End(
        AttemptOutcome.SUCCEEDED,
        "finished",
        exit=ExitRecord(1, ExitCause.EXITED, 0, None, 1, 2, 3, ended=(note,)),
        report=Report(session="s-1", model="m"),
        candidate="c" * 40,
        tree="t" * 40,
        duration_ms=3,
        notes=("odd",),
        payloads=(
            (
                events.TASK_DIFF,
                {"filesTouched": ["a.py"], "insertions": 1, "deletions": 0},
            ),
        ),
    )
    row = end(bench, driver, attempt, how)
    assert (row.status, row.outcome, row.end_cause) == ("ended", "succeeded", "finished")
    assert (row.session, row.candidate, row.duration_ms) == ("s-1", "c" * 40, 3)
    assert json.loads(row.exit_json)["exit_code"] == 0
    assert json.loads(row.report_json)["session"] == "s-1"
    about = {"task": "a", "attemptId": attempt.id}
    assert told(bench, driver, 3) == [
        (
            "dispatch.done",
            about
            | {
                "phase": "implement",
                "outcome": "succeeded",
                "endCause": "finished",
                "session": "s-1",
                "exitCode": 0,
                "signal": None,
                "endedProcesses": ["7 sleep 60"],
                "notes": ["odd"],
            },
        ),
        ("task.diff", about | {"filesTouched": ["a.py"], "insertions": 1, "deletions": 0}),
        ("task.duration", about | {"phase": "implement", "durationMs": 3}),
    ]
    assert bench.faults() == []


def test_a_duration_that_nobody_measured_is_null_with_a_reason(bench: Any) -> None:
    driver = bench.running()
    attempt = started(bench, driver)
    how = End(AttemptOutcome.UNKNOWN, "lease_lost", duration_reason="the keeper died")
    assert end(bench, driver, attempt, how).duration_ms is None
    assert told(bench, driver, 1)[0][1]["reason"] == "the keeper died"
    assert told(bench, driver, 1)[0][1]["durationMs"] is None


def test_an_attempt_ends_once(bench: Any) -> None:
    driver = bench.running()
    attempt = started(bench, driver)
    first = end(bench, driver, attempt, End(AttemptOutcome.SUCCEEDED, "finished"))
    late = end(bench, driver, attempt, End(AttemptOutcome.FAILED, "killed"))
    again = end(bench, driver, first, End(AttemptOutcome.FAILED, "killed"))
    assert (late.code, again.code) == ("CONFLICT", "ILLEGAL_MOVE")
    kinds = [entry.kind for entry in bench.entries(driver.run_id)]
    assert (kinds.count("dispatch.done"), kinds.count("task.duration")) == (1, 1)
    assert bench.faults() == []


def test_an_end_whose_further_entry_is_refused_leaves_nothing(bench: Any) -> None:
    late = bench.running()
    attempt = started(bench, late)
    taken(bench, late)
    before = bench.entries(late.run_id)
    how = End(AttemptOutcome.SUCCEEDED, "finished")
    assert end(bench, late, attempt, how).code == "STALE_FENCE"
    assert bench.entries(late.run_id) == before
    row = bench.read(lambda connection: attempts.get(connection, bench.scope, attempt.id))
    assert row.status == "running"


def test_an_adopted_attempt_keeps_its_id_and_fence(bench: Any) -> None:
    driver = bench.running()
    attempt = started(bench, driver)
    present = taken(bench, driver)
    adopted = bench.do(lambda unit: attempts.hand_over(unit, bench.scope, present, attempt))
    assert (adopted.id, adopted.fence, adopted.holder_id) == (attempt.id, 1, "hd_2")
    assert told(bench, driver, 1)[0][0] == "dispatch.adopted"
    end(bench, present, adopted, End(AttemptOutcome.SUCCEEDED, "finished"))
    assert (
        bench.refused(lambda unit: attempts.hand_over(unit, bench.scope, present, adopted))
        == "CONFLICT"
    )
    assert bench.faults() == []


def test_an_end_is_recorded_whatever_the_agent_said(bench: Any) -> None:
    bench.redactor.register("hunter2-hunter2")
    driver = bench.running()
    attempt = started(bench, driver)
    how = End(
        AttemptOutcome.FAILED,
        "failed:task",
        message="hunter2-hunter2 \ud800 \0",
        error_class="task",
        report=Report(session="s\0", message="\udfff hunter2-hunter2", unread_lines=2**60),
    )
    row = end(bench, driver, attempt, how)
    assert row.message == "[REDACTED:secret] \\ud800 \\u0000"
    assert "hunter2" not in row.report_json
    assert told(bench, driver, 2)[0][1]["message"] == row.message
    assert bench.faults() == []


def test_amounts_are_told_exactly(bench: Any) -> None:
    driver = bench.running()
    attempt = started(bench, driver)
    usage = {
        "model": None,
        "inputTokens": 1,
        "outputTokens": 0,
        "cacheReadTokens": None,
        "cacheWriteTokens": None,
        "cost": str(Decimal("0.10")),
        "currency": "USD",
        "costSource": "reported",
    }
    bench.do(
        lambda unit: attempts.tell(
            unit, bench.scope, driver, attempt, events.TASK_USAGE, dict(usage)
        )
    )
    ((_, payload),) = told(bench, driver, 1)
    assert payload == {"task": "a", "attemptId": attempt.id, **usage}


def test_the_driver_of_another_run_has_no_say_in_an_attempt(bench: Any) -> None:
    driver, other = bench.running(), bench.running()
    leased = bench.attempt(driver)
    judged = Judged("t", "g", "e", ("true",), ".", 0, 1)
    for work in (
        lambda unit: attempts.start(unit, bench.scope, other, leased),
        lambda unit: attempts.hand_over(unit, bench.scope, other, leased),
        lambda unit: attempts.end(
            unit, bench.scope, other, leased, End(AttemptOutcome.FAILED, "killed")
        ),
        lambda unit: gates.record(unit, bench.scope, other, leased, judged),
    ):
        assert bench.refused(work) == "NOT_FOUND"
    assert len(bench.entries(other.run_id)) == 2
    assert bench.faults() == []
