"""Where to go from here: the one command that a run's state asks for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterfoil.cli.commands import Commands
from counterfoil.ledger.states import (
    RUN_ENDS,
    AttemptOutcome,
    ExecutionStatus,
    GateResult,
    TaskStatus,
)

if TYPE_CHECKING:
    from counterfoil.app.run_views import RunView

_WITHOUT_DRIVER = frozenset(
    {ExecutionStatus.QUEUED, ExecutionStatus.PREPARING, ExecutionStatus.RUNNING}
)
_TROUBLED = frozenset({TaskStatus.FAILED, TaskStatus.CONFLICT, TaskStatus.NO_CHANGE})


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do and the command that does it."""

    meaning: str
    command: str


def next_step(view: "RunView", commands: Commands) -> NextStep:
    """The step for a run that nobody drives any more."""
    run = view.run
    status = ExecutionStatus(run.status)
    if status in _WITHOUT_DRIVER:
        return NextStep("take the run up again", commands.recover(run.id))
    if status not in RUN_ENDS:
        return NextStep("go on with the run", commands.resume(run.id))
    if status is ExecutionStatus.SUCCEEDED:
        if any(task.status == TaskStatus.MERGED for task in view.tasks):
            return NextStep("merge the run branch into the base branch", commands.land(run.id))
        return NextStep("look at the run; it changed nothing", commands.show(run.id))
    troubled = first_troubled(view)
    if troubled is None:
        return NextStep("look at the run", commands.show(run.id))
    return NextStep("see what failed", commands.show(run.id, troubled))


def first_troubled(view: "RunView") -> str | None:
    """The first task, in plan order, that did not come to what its dependents need."""
    for task in view.tasks:
        if task.status in _TROUBLED and not task.accepted:
            return task.task_id
    return None


def log_command(view: "RunView", commands: Commands) -> str:
    """The command that shows the log that somebody will want to read first."""
    task_id = first_troubled(view)
    for gate in reversed(view.gates):
        if gate.task_id == task_id and gate.result == GateResult.FAIL:
            return commands.attempt_output(view.run.id, gate.attempt_id)
    attempted = {attempt.task_id for attempt in view.attempts}
    if task_id not in attempted:
        task_id = _worst(view) or (view.attempts[-1].task_id if view.attempts else None)
    if task_id is None:
        return commands.events(view.run.id)
    return commands.output(view.run.id, task_id)


def _worst(view: "RunView") -> str | None:
    bad = (AttemptOutcome.FAILED, AttemptOutcome.UNKNOWN)
    return next((one.task_id for one in reversed(view.attempts) if one.outcome in bad), None)
