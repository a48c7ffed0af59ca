"""What comes next for a task: a pure function of its recorded attempts and gate results.

The same function says it after every step and after a crash, so recovery has no road of its
own: it settles what was open and asks again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from counterfoil.ledger.states import AttemptOutcome, AttemptStatus, GateResult, Phase, TaskStatus
from counterfoil.ledger.values import AttemptRow, GateRow
from counterfoil.plans.model import OnNoChange, Task
from counterfoil.ports.agent import ErrorClass


class EndCause(StrEnum):
    """Why an attempt ended, beside ``failed:<class>``."""

    FINISHED = "finished"
    SHUTDOWN = "shutdown"
    KILLED = "killed"
    LEASE_LOST = "lease_lost"
    KEEPER_LOST = "keeper_lost"
    NEVER_STARTED = "never_started"
    CONFLICT = "conflict"


FAILED_PREFIX = "failed:"
_NOT_THE_TASKS = frozenset({EndCause.SHUTDOWN, EndCause.KILLED, EndCause.NEVER_STARTED})


@dataclass(frozen=True, slots=True)
class Implement:
    """Lease another implement attempt.

    ``after``: the attempt in whose worktree it goes on, with that attempt's failure at hand
    and all the work so far as its candidate; None: from the run branch, in a fresh worktree.
    """

    ordinal: int
    after: AttemptRow | None = None
    failed_gate: GateRow | None = None


@dataclass(frozen=True, slots=True)
class GateAndMerge:
    """The attempt's candidate goes through the gates and the merge queue."""

    attempt: AttemptRow


@dataclass(frozen=True, slots=True)
class Finish:
    """The attempt is still open: wait for it, then settle it."""

    attempt: AttemptRow


@dataclass(frozen=True, slots=True)
class EndTask:
    """Nothing more is tried."""

    status: TaskStatus
    reason: str
    accepted: bool = False


Next = Implement | GateAndMerge | Finish | EndTask


def next_move(task: Task, attempts: Sequence[AttemptRow], gates: Sequence[GateRow]) -> Next:
    """What a task needs now. ``attempts`` and ``gates`` are the task's own, oldest first."""
    for attempt in attempts:
        if attempt.status != AttemptStatus.ENDED:
            return Finish(attempt)
    implements = [attempt for attempt in attempts if attempt.phase == Phase.IMPLEMENT]
    if not implements:
        return Implement(1)
    ordinal = implements[-1].ordinal + 1
    spent = [attempt for attempt in implements if _spends_a_try(attempt)]
    if not spent:
        return Implement(ordinal)
    last = spent[-1]
    match AttemptOutcome(last.outcome):
        case AttemptOutcome.SUCCEEDED:
            failed = _failed_gate(last, gates)
            if failed is None:
                return GateAndMerge(last)
            return _retry(task, spent, gates, ordinal, failed)
        case AttemptOutcome.NO_CHANGE:
            return _no_change(task, spent, gates, ordinal)
        case AttemptOutcome.FAILED | AttemptOutcome.UNKNOWN:
            return _retry(task, spent, gates, ordinal, None)


def newest_work(attempts: Sequence[AttemptRow]) -> str:
    """The commit with all that a task's attempts have left to go on from; empty: nothing.

    An attempt goes on from what those before it left, unless one of them lost its keeper.
    """
    work = ""
    for attempt in attempts:
        if attempt.phase == Phase.IMPLEMENT and _spends_a_try(attempt):
            lost = attempt.end_cause == EndCause.KEEPER_LOST
            work = "" if lost else attempt.candidate or work
    return work


def _spends_a_try(attempt: AttemptRow) -> bool:
    """False for what was not the task's doing: a stop, a crash before it, its surroundings."""
    if attempt.end_cause in _NOT_THE_TASKS:
        return False
    return not (attempt.error_class and ErrorClass(attempt.error_class).of_surroundings)


def _failed_gate(attempt: AttemptRow, gates: Sequence[GateRow]) -> GateRow | None:
    failed = [
        gate for gate in gates if gate.attempt_id == attempt.id and gate.result == GateResult.FAIL
    ]
    return failed[-1] if failed else None


def _retry(
    task: Task,
    spent: Sequence[AttemptRow],
    gates: Sequence[GateRow],
    ordinal: int,
    failed: GateRow | None,
) -> Next:
    last = spent[-1]
    reason = _reason(last, failed)
    if len(spent) > task.retries:
        tried = "once" if len(spent) == 1 else f"{len(spent)} times"
        return EndTask(TaskStatus.FAILED, f"tried {tried}: {reason}")
    if _repeats(spent, gates) and len(spent) > 1:
        return EndTask(TaskStatus.FAILED, f"failed the same way twice: {reason}")
    if last.end_cause == EndCause.KEEPER_LOST:
        return Implement(ordinal, None, failed)
    return Implement(ordinal, replace(last, candidate=newest_work(spent)), failed)


def _reason(last: AttemptRow, failed: GateRow | None) -> str:
    if failed is not None:
        return f"gate {failed.gate} failed ({failed.fail_class})"
    return last.message or f"the attempt ended {last.outcome}"


def _repeats(spent: Sequence[AttemptRow], gates: Sequence[GateRow]) -> bool:
    """True when the two last failures carry the same fingerprint."""
    prints = []
    for attempt in spent[-2:]:
        failed = _failed_gate(attempt, gates)
        prints.append(failed.fingerprint if failed else f"{attempt.error_class} {attempt.message}")
    return len(prints) == 2 and prints[0] == prints[1] and prints[0] != " "


def _no_change(
    task: Task, spent: Sequence[AttemptRow], gates: Sequence[GateRow], ordinal: int
) -> Next:
    """It added nothing: to what the attempts before it left, or at all."""
    own = _failed_gate(spent[-1], gates)
    if own is not None:
        return _retry(task, spent, gates, ordinal, own)
    work = newest_work(spent)
    judged = [_failed_gate(one, gates) for one in spent if work and one.candidate == work]
    failed = next((gate for gate in judged if gate is not None), None)
    if failed is not None:
        return EndTask(
            TaskStatus.FAILED, f"the retry changed nothing: gate {failed.gate} still fails"
        )
    if work:
        return GateAndMerge(replace(spent[-1], candidate=work))
    if task.is_command or task.on_no_change is OnNoChange.ACCEPT:
        return EndTask(TaskStatus.NO_CHANGE, "it changed nothing, as it may", accepted=True)
    if task.on_no_change is OnNoChange.FAIL:
        return EndTask(TaskStatus.FAILED, "it changed nothing")
    return EndTask(TaskStatus.NO_CHANGE, "it changed nothing, and nobody has accepted that")
