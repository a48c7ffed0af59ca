"""Use cases that look at runs: which there are, where one stands, what it said and landed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counterfoil.app import wiring
from counterfoil.app.house import House
from counterfoil.app.plan_inputs import BRANCHES, RunInput, plan_of
from counterfoil.core.errors import Conflict, NotFound, PlanInvalid, UsageError
from counterfoil.ledger import artifacts, attempts, events, gates, journal, runs, tasks
from counterfoil.ledger.record import expect
from counterfoil.ledger.states import RUN_ENDS, ExecutionStatus, TaskStatus
from counterfoil.ledger.values import (
    ArtifactRow,
    AttemptRow,
    EntryRow,
    GateRow,
    RunRow,
    TaskRow,
)
from counterfoil.plans.folders import RunFolder
from counterfoil.plans.readiness import Board, TaskState


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as the ledger has it.

    ``waits`` tells for each open task what it waits for; ``branch`` is the run branch;
    ``worktrees`` are the kept ones by task.
    """

    run: RunRow
    tasks: tuple[TaskRow, ...]
    attempts: tuple[AttemptRow, ...]
    gates: tuple[GateRow, ...]
    branch: str
    repository: Path
    worktrees: dict[str, Path] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)


def has_ended(run: RunRow) -> bool:
    """True when the run has come to an end; a paused one has not."""
    return run.status in RUN_ENDS


def find(house: House, name: str) -> RunRow:
    """A run by id, by the beginning of its id, or ``last``. Raises ``NotFound``, ``Conflict``."""
    ledger = house.ledger
    if name == "last":
        newest = list_runs(house, 1)
        if not newest:
            raise NotFound("there is no run yet", hint="counterfoil run PLAN")
        return newest[0]
    return expect(ledger.read(lambda connection: runs.find(connection, ledger.scope, name)))


def list_runs(house: House, most: int) -> list[RunRow]:
    """The newest runs, newest first."""
    ledger = house.ledger
    return ledger.read(lambda connection: runs.newest(connection, ledger.scope, most))


def view(house: House, run_name: str) -> RunView:
    """One run with its tasks, attempts and gates, of one snapshot."""
    run = find(house, run_name)
    given = RunInput.of(house, run)
    ledger = house.ledger
    found, tried, judged = ledger.read(
        lambda connection: (
            tuple(tasks.of_run(connection, ledger.scope, run.id)),
            tuple(attempts.of_run(connection, ledger.scope, run.id)),
            tuple(gates.of_run(connection, ledger.scope, run.id)),
        )
    )
    folder = RunFolder(wiring.run_folder(house.settings, run.id))
    kept = {row.task_id: folder.worktree(row.task_id) for row in found}
    return RunView(
        run=run,
        tasks=found,
        attempts=tried,
        gates=judged,
        branch=f"counterfoil/{run.id}",
        repository=Path(given.repository),
        worktrees={task_id: path for task_id, path in kept.items() if path.is_dir()},
        waits=_waits(house, given, run, found),
    )


def _waits(
    house: House, given: RunInput, run: RunRow, found: tuple[TaskRow, ...]
) -> dict[str, str]:
    """Why each open task is not at work; nothing for a run that has ended."""
    if has_ended(run) or not found:
        return {}
    try:
        plan = plan_of(house, given)
    except (Conflict, PlanInvalid):
        return {}
    states = [TaskState(row.task_id, TaskStatus(row.status), bool(row.accepted)) for row in found]
    running = {row.task_id for row in found if row.status == TaskStatus.RUNNING}
    claims = {task.id: task.files for task in plan.tasks if task.id in running}
    parked = run.error_message or run.cause if run.status == ExecutionStatus.PAUSED else ""
    waits = Board(plan.tasks, states).waits(claims, parked=parked)
    return {task_id: wait.text for task_id, wait in waits.items() if task_id not in running}


def entries(house: House, run_name: str, since: int, task: str | None, most: int) -> list[EntryRow]:
    """Journal entries after ``since``, in order; of one task when it is named."""
    run, ledger = find(house, run_name), house.ledger

    def read(connection: Any) -> list[EntryRow]:
        found: list[EntryRow] = []
        for entry in journal.entries(connection, ledger.scope, run.id, since=since):
            if task is None or entry.task_id == task:
                found.append(entry)
                if len(found) == most:
                    break
        return found

    return ledger.read(read)


def attempt_output(house: House, run_name: str, name: str) -> bytes:
    """What an attempt and its gates wrote, redacted: of the one named, or a task's newest.

    Raises ``NotFound``.
    """
    run, ledger = find(house, run_name), house.ledger
    tried, kept = ledger.read(
        lambda connection: (
            attempts.of_run(connection, ledger.scope, run.id),
            artifacts.of_run(connection, ledger.scope, run.id),
        )
    )
    matching = [one.id for one in tried if name in (one.id, one.task_id)]
    told = {one.attempt_id for one in kept if one.type == "log"}
    newest = next((one for one in reversed(matching) if one in told), None)
    logs = [one for one in kept if newest and one.type == "log" and one.attempt_id == newest]
    if not matching:
        raise NotFound(f"{run.id} has no task or attempt {name!r}")
    return b"".join(_output_of(house, log) for log in logs)


def _output_of(house: House, log: ArtifactRow) -> bytes:
    return house.ledger.blobs.get(log.sha256)


def land(house: House, run_name: str, into: str | None) -> tuple[str, str, str]:
    """Merge a run's branch into a branch; returns (branch, its commit before, after).

    ``into``: by default the branch that was checked out at launch. Raises ``Conflict`` for a
    run that has not succeeded, ``RefMoved`` and ``RepositoryRefused`` when git stands in the way.
    """
    run, ledger = find(house, run_name), house.ledger
    if run.status != ExecutionStatus.SUCCEEDED and into is None:
        raise Conflict(
            f"{run.id} is {run.status}, not succeeded",
            hint=f"look at it, then name the branch: counterfoil runs land {run.id} --into BRANCH",
        )
    given = RunInput.of(house, run)
    branch = into or given.branch
    if branch is None:
        raise UsageError(
            f"{run.id} was launched from a detached HEAD", hint="name a branch with --into"
        )
    workspace = wiring.open_workspace(house.settings, Path(given.repository))
    old, commit = (
        workspace.resolve(f"refs/heads/{branch}"),
        workspace.resolve(f"{BRANCHES}{run.id}"),
    )
    if old is None or commit is None:
        missing = branch if old is None else f"counterfoil/{run.id}"
        raise NotFound(f"there is no branch {missing} in {workspace.root}")
    new = workspace.land(branch, commit, f"Land {run.subject_id}\n\nCounterfoil-Run: {run.id}")
    payload = {"branch": branch, "old": old, "new": new}
    ledger.do(lambda unit: journal.append(unit, ledger.scope, run.id, events.RUN_LANDED, payload))
    return branch, old, new
