"""Runs: created, driven under a fence, taken over, found, and ended."""

import json
from typing import Any

import pytest

from counterfoil.ledger import runs, states
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.values import Scope

E = ExecutionStatus


def get(bench: Any, run_id: str, scope: Scope | None = None) -> Any:
    return bench.read(lambda connection: runs.get(connection, scope or bench.scope, run_id))


def test_a_new_run_is_queued_under_fence_one_and_its_first_entry_says_so(bench: Any) -> None:
    row, _driver = bench.run(run_key="k", request_id="r", value={"password": "p", "n": 1})
    assert (row.status, row.fence, row.attempt_no) == ("queued", 1, 1)
    assert row.lineage_root_id == row.id
    assert row.created_at == bench.clock.now_us()
    assert (row.started_at, row.ended_at) == (None, None)
    assert json.loads(row.input_json) == {"n": 1, "password": "[REDACTED]"}
    assert row.redacted_paths == '["/password"]'
    (entry,) = bench.entries(row.id)
    assert (entry.kind, entry.seq) == ("run.created", 1)
    assert json.loads(entry.payload) == {
        "subjectKind": "agent",
        "subjectId": "a",
        "inputSha256": row.input_sha256,
        "runKey": "k",
    }


def test_an_input_that_is_stored_nowhere_is_a_programming_error(bench: Any) -> None:
    with pytest.raises(ValueError, match="is not stored"):
        bench.run(value="x" * 9_000)


@pytest.mark.parametrize("end", sorted(states.RUN_ENDS))
def test_a_key_is_free_again_once_its_run_has_ended(bench: Any, end: E) -> None:
    driver = bench.running(run_key="k")
    assert (
        bench.refused(lambda unit: runs.create(unit, bench.scope, bench.new(run_key="k")))
        == "CONFLICT"
    )
    bench.do(lambda unit: runs.move(unit, bench.scope, driver, E.RUNNING, end))
    second, _driver = bench.run(run_key="k")
    found = bench.read(lambda connection: runs.open_with_key(connection, bench.scope, "k"))
    assert found.id == second.id != driver.run_id


def test_a_key_belongs_to_its_workspace(bench: Any) -> None:
    bench.run(run_key="k")
    other = Scope("local", "other")
    row = bench.do(lambda unit: runs.create(unit, other, bench.new(run_key="k")))
    assert row.workspace_id == "other"
    assert get(bench, row.id) is None


def test_re_executions_of_one_run_count_on_in_their_lineage(bench: Any) -> None:
    first, _ = bench.run()
    second, _ = bench.run(source=first)
    third, _ = bench.run(source=first)
    fourth, _ = bench.run(source=second)
    rows = (first, second, third, fourth)
    assert [row.attempt_no for row in rows] == [1, 2, 3, 4]
    assert {row.lineage_root_id for row in rows} == {first.id}
    assert [row.source_run_id for row in rows] == [None, first.id, first.id, second.id]


def test_a_child_shares_its_parents_lineage_and_counts_for_itself(bench: Any) -> None:
    parent, _ = bench.run()
    child, _ = bench.run(parent=parent)
    assert (child.parent_run_id, child.lineage_root_id) == (parent.id, parent.id)
    assert child.attempt_no == 1
    assert bench.faults() == []


def test_the_driver_before_is_refused_once_the_run_was_taken(bench: Any) -> None:
    row, driver = bench.run()
    taken = bench.do(lambda unit: runs.take(unit, bench.scope, row, "hd_2"))
    assert taken == Driver(row.id, "hd_2", 2)
    assert bench.refused(lambda unit: runs.take(unit, bench.scope, row, "hd_3")) == "CONFLICT"
    assert (
        bench.refused(lambda unit: runs.move(unit, bench.scope, driver, E.QUEUED, E.RUNNING))
        == "STALE_FENCE"
    )
    moved = bench.do(lambda unit: runs.move(unit, bench.scope, taken, E.QUEUED, E.RUNNING))
    assert (moved.holder_id, moved.fence) == ("hd_2", 2)
    entry = bench.entries(row.id)[1]
    assert (entry.kind, json.loads(entry.payload)) == (
        "run.driver",
        {"holder": "hd_2", "fence": 2, "takenFrom": "hd_1"},
    )
    assert bench.faults() == []


def test_start_and_end_are_told_by_the_target(bench: Any) -> None:
    _row, driver = bench.run()
    bench.clock.advance(1)
    bench.do(lambda unit: runs.move(unit, bench.scope, driver, E.QUEUED, E.RUNNING))
    started = bench.clock.now_us()
    bench.clock.advance(1)
    bench.do(lambda unit: runs.move(unit, bench.scope, driver, E.RUNNING, E.PAUSED))
    bench.do(lambda unit: runs.move(unit, bench.scope, driver, E.PAUSED, E.RUNNING))
    result = bench.ledger.prepare({"answer": 42})
    ended = bench.do(
        lambda unit: runs.move(
            unit,
            bench.scope,
            driver,
            E.RUNNING,
            E.FAILED,
            cause="disk",
            message="no space",
            resets_at=7,
            result=result,
            error_code="FULL",
        )
    )
    assert (ended.started_at, ended.ended_at) == (started, bench.clock.now_us())
    assert (ended.cause, ended.error_code, ended.error_message) == ("disk", "FULL", "no space")
    assert (ended.result_json, ended.result_sha256) == (result.inline, result.sha256)
    assert json.loads(bench.entries(driver.run_id)[-1].payload) == {
        "from": "running",
        "to": "failed",
        "cause": "disk",
        "message": "no space",
        "resetsAt": 7,
    }
    assert bench.faults() == []


def test_a_message_that_no_engine_can_keep_still_ends_the_run(bench: Any) -> None:
    driver = bench.running()
    ended = bench.do(
        lambda unit: runs.move(
            unit, bench.scope, driver, E.RUNNING, E.FAILED, message="half \ud800, none \0"
        )
    )
    assert ended.error_message == "half \\ud800, none \\u0000"
    payload = json.loads(bench.entries(driver.run_id)[-1].payload)
    assert payload["message"] == ended.error_message
    assert bench.faults() == []


def test_a_result_is_recorded_as_it_was_hashed(bench: Any) -> None:
    """Redaction of the finished text would find what it does not find in the value."""
    bench.redactor.register("AAAAAAAAAAAA")
    driver = bench.running()
    result = bench.ledger.prepare({"data": b"\0\0\0\0\0\0\0\0\0", "text": "plain"})
    assert "AAAAAAAAAAAA" in result.inline
    ended = bench.do(
        lambda unit: runs.move(unit, bench.scope, driver, E.RUNNING, E.SUCCEEDED, result=result)
    )
    assert ended.result_json == result.inline
    assert bench.faults() == []


def test_a_run_is_found_by_its_id_or_an_unambiguous_beginning(bench: Any) -> None:
    first, _ = bench.run()
    assert find(bench, first.id).id == first.id
    assert find(bench, first.id[:9]).id == first.id
    second, _ = bench.run()
    assert find(bench, second.id).id == second.id
    assert find(bench, "run_").code == "CONFLICT"
    for name in ("", "%", "_un", "RUN_", "run-", first.id + "0", f"{first.id[:-1]}_"):
        assert find(bench, name).code == "NOT_FOUND", name


def find(bench: Any, name: str) -> Any:
    return bench.read(lambda connection: runs.find(connection, bench.scope, name))


@pytest.mark.parametrize("step", [1_000_000, 0])
def test_the_newest_come_first_and_of_this_workspace_only(bench: Any, step: int) -> None:
    rows = []
    for _ in range(3):
        bench.clock.set_wall(bench.clock.now_us() + step)
        rows.append(bench.run()[0].id)
    bench.do(lambda unit: runs.create(unit, Scope("other"), bench.new()))
    found = bench.read(lambda connection: runs.newest(connection, bench.scope, 2))
    assert [row.id for row in found] == [rows[2], rows[1]]
