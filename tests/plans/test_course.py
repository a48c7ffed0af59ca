"""What comes next for a task, as a table over its recorded attempts and gate results."""

from dataclasses import replace

import pytest

from counterfoil.ledger.states import (
    AttemptOutcome,
    AttemptStatus,
    GateResult,
    Phase,
    TaskStatus,
)
from counterfoil.ledger.values import AttemptRow, GateRow
from counterfoil.plans.course import (
    EndCause,
    EndTask,
    Finish,
    GateAndMerge,
    Implement,
    next_move,
)
from counterfoil.plans.model import OnNoChange, Task

COMMAND = Task("t", "t", run=("true",))
PROMPT = Task("t", "t", prompt="do it")


def attempt(
    ordinal: int,
    outcome: AttemptOutcome | str = "",
    *,
    cause: str = EndCause.FINISHED,
    error: str = "",
    message: str = "",
    phase: Phase = Phase.IMPLEMENT,
) -> AttemptRow:
    return AttemptRow(
        id=f"at_{phase}_{ordinal}",
        tenant_id="local",
        workspace_id="default",
        run_id="run_1",
        task_id="t",
        phase=phase,
        ordinal=ordinal,
        status=AttemptStatus.ENDED if outcome else AttemptStatus.RUNNING,
        outcome=str(outcome),
        end_cause=str(cause) if outcome else "",
        error_class=error,
        message=message,
        agent="command",
        session="",
        holder_id="hd_1",
        fence=1,
        base="b",
        candidate="c" if outcome == AttemptOutcome.SUCCEEDED else "",
        tree="",
        folder="",
        worktree="",
        exit_json=None,
        report_json=None,
        duration_ms=None,
        created_at=ordinal,
        started_at=None,
        ended_at=None,
        updated_at=ordinal,
    )


def gate(of: AttemptRow, result: GateResult, fingerprint: str = "f") -> GateRow:
    return GateRow(
        id=f"gr_{of.id}",
        tenant_id="local",
        workspace_id="default",
        run_id="run_1",
        task_id="t",
        attempt_id=of.id,
        tree="tree",
        gate="tests",
        environment="e",
        result=result,
        fail_class="test" if result is GateResult.FAIL else "",
        command="[]",
        cwd=".",
        exit_code=1,
        duration_ms=1,
        fingerprint=fingerprint,
        output_artifact_id=None,
        created_at=1,
    )


SUCCEEDED, FAILED = AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED
NO_CHANGE, UNKNOWN = AttemptOutcome.NO_CHANGE, AttemptOutcome.UNKNOWN


def test_a_task_without_attempts_gets_its_first() -> None:
    assert next_move(COMMAND, [], []) == Implement(1)


@pytest.mark.parametrize("phase", [Phase.IMPLEMENT, Phase.MERGE])
def test_an_open_attempt_is_finished_before_anything_else(phase: Phase) -> None:
    done, open_one = attempt(1, SUCCEEDED), attempt(2, phase=phase)
    assert next_move(COMMAND, [done, open_one], []) == Finish(open_one)


def test_a_success_goes_to_the_gates_and_the_queue() -> None:
    done = attempt(1, SUCCEEDED)
    assert next_move(COMMAND, [done], [gate(done, GateResult.PASS)]) == GateAndMerge(done)


def test_a_failed_gate_is_one_retry_in_the_same_worktree_with_its_output() -> None:
    done = attempt(1, SUCCEEDED)
    failed = gate(done, GateResult.FAIL)
    assert next_move(COMMAND, [done], [failed]) == Implement(2, done, failed)


def test_a_gate_that_fails_again_ends_the_task() -> None:
    first, second = attempt(1, SUCCEEDED), attempt(2, SUCCEEDED)
    gates = [gate(first, GateResult.FAIL, "a"), gate(second, GateResult.FAIL, "b")]
    move = next_move(COMMAND, [first, second], gates)
    assert isinstance(move, EndTask)
    assert move.status is TaskStatus.FAILED
    assert "tests failed (test)" in move.reason


def test_the_same_failure_twice_ends_the_task_whatever_its_budget() -> None:
    patient = replace(COMMAND, retries=9)
    first, second = attempt(1, SUCCEEDED), attempt(2, SUCCEEDED)
    same = [gate(first, GateResult.FAIL), gate(second, GateResult.FAIL)]
    move = next_move(patient, [first, second], same)
    assert isinstance(move, EndTask)
    assert "the same way twice" in move.reason
    other = [gate(first, GateResult.FAIL, "a"), gate(second, GateResult.FAIL, "b")]
    assert isinstance(next_move(patient, [first, second], other), Implement)


def test_a_failed_merge_changes_nothing_about_what_is_due() -> None:
    done = attempt(1, SUCCEEDED)
    moved = attempt(1, FAILED, cause="ref_moved", phase=Phase.MERGE)
    assert next_move(COMMAND, [done, moved], []) == GateAndMerge(done)


@pytest.mark.parametrize("cause", [EndCause.SHUTDOWN, EndCause.NEVER_STARTED])
def test_what_was_not_the_tasks_fault_spends_no_retry(cause: EndCause) -> None:
    attempts = [attempt(number, FAILED, cause=cause) for number in (1, 2, 3)]
    assert next_move(COMMAND, attempts, []) == Implement(4)


def test_trouble_of_the_surroundings_spends_no_retry() -> None:
    attempts = [
        attempt(number, FAILED, cause="failed:rate_limit", error="rate_limit")
        for number in (1, 2, 3)
    ]
    assert next_move(PROMPT, attempts, []) == Implement(4)


def test_a_failure_of_the_task_is_retried_and_then_ends_it() -> None:
    first = attempt(1, FAILED, cause="failed:exit", error="exit", message="code 1")
    assert next_move(COMMAND, [first], []) == Implement(2, first)
    second = attempt(2, FAILED, cause="failed:exit", error="exit", message="code 2")
    assert next_move(COMMAND, [first, second], []) == EndTask(
        TaskStatus.FAILED, "tried 2 times: code 2"
    )
    once = replace(COMMAND, retries=0)
    assert next_move(once, [first], []) == EndTask(TaskStatus.FAILED, "tried once: code 1")


def test_an_attempt_whose_keeper_was_lost_is_made_again_in_a_fresh_worktree() -> None:
    lost = attempt(1, UNKNOWN, cause=EndCause.KEEPER_LOST)
    assert next_move(COMMAND, [lost], []) == Implement(2)


def test_a_command_without_a_change_is_accepted() -> None:
    move = next_move(COMMAND, [attempt(1, NO_CHANGE)], [])
    assert isinstance(move, EndTask)
    assert (move.status, move.accepted) == (TaskStatus.NO_CHANGE, True)


@pytest.mark.parametrize(
    ("rule", "status", "accepted"),
    [
        (OnNoChange.ACCEPT, TaskStatus.NO_CHANGE, True),
        (OnNoChange.ASK, TaskStatus.NO_CHANGE, False),
        (OnNoChange.FAIL, TaskStatus.FAILED, False),
    ],
)
def test_a_prompt_without_a_change_is_judged_by_its_rule(
    rule: OnNoChange, status: TaskStatus, accepted: bool
) -> None:
    move = next_move(replace(PROMPT, on_no_change=rule), [attempt(1, NO_CHANGE)], [])
    assert isinstance(move, EndTask)
    assert (move.status, move.accepted) == (status, accepted)


def test_a_retry_that_changes_nothing_does_not_turn_a_failed_gate_into_no_change() -> None:
    first, second = attempt(1, SUCCEEDED), attempt(2, NO_CHANGE)
    move = next_move(COMMAND, [first, second], [gate(first, GateResult.FAIL)])
    assert isinstance(move, EndTask)
    assert move.status is TaskStatus.FAILED
    assert "still fails" in move.reason


def test_a_gate_failed_in_the_queue_after_it_had_passed_counts() -> None:
    done = attempt(1, SUCCEEDED)
    gates = [gate(done, GateResult.PASS), gate(done, GateResult.FAIL)]
    assert next_move(COMMAND, [done], gates) == Implement(2, done, gates[1])


def test_a_retry_after_a_harmless_end_goes_on_from_the_run_branch() -> None:
    first = attempt(1, SUCCEEDED)
    stopped = attempt(2, FAILED, cause=EndCause.SHUTDOWN)
    failed = gate(first, GateResult.FAIL)
    assert next_move(COMMAND, [first, stopped], [failed]) == Implement(3, first, failed)
