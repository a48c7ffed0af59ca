"""Tasks of a plan: where each stands and why."""

from collections.abc import Iterable
from dataclasses import dataclass

from counterfoil.ledger import events, journal, states, transitions
from counterfoil.ledger.queries import queries
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import TaskStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal, Scope, TaskRow
from counterfoil.ports.store import Connection

_SQL = queries("plan_tasks")


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task as the plan has it; ``spec_sha256`` is the hash of its line as recorded."""

    task_id: str
    position: int
    title: str
    spec_sha256: str
    depends_on: tuple[str, ...]


def add(unit: Unit, scope: Scope, driver: Driver, tasks: Iterable[NewTask]) -> Refusal | None:
    """Add tasks that wait. Each has an entry of its own."""
    stale = journal.refuse_stale(unit, scope, driver.run_id, driver.fence)
    if stale is not None:
        return stale
    for task in tasks:
        values = {
            "run_id": driver.run_id,
            "task_id": task.task_id,
            "position": task.position,
            "title": unit.text(task.title),
            "spec_sha256": task.spec_sha256,
            "status": str(TaskStatus.WAITING),
            "accepted": 0,
            "reason": "",
        }
        unit.run(_SQL["insert"], scope.params(**values, now=unit.now))
        key = {"run_id": driver.run_id, "task_id": task.task_id}
        transitions.tell(unit, states.TASKS, key, values)
        told = journal.append(
            unit,
            scope,
            driver.run_id,
            events.TASK_ADDED,
            {"task": task.task_id, "title": values["title"], "dependsOn": list(task.depends_on)},
            task_id=task.task_id,
            fence=driver.fence,
        )
        if isinstance(told, Refusal):
            return told
    return None


def move(
    unit: Unit,
    scope: Scope,
    driver: Driver,
    task_id: str,
    source: str,
    target: TaskStatus,
    *,
    reason: str = "",
    accepted: bool | None = None,
    candidate: str | None = None,
    merged_commit: str | None = None,
) -> TaskRow | Refusal:
    """Move a task and journal it. ``reason``: one sentence for whoever asks why."""
    reason = unit.text(reason)
    row = transitions.move(
        unit,
        scope,
        states.TASKS,
        {"run_id": driver.run_id, "task_id": task_id},
        source,
        target,
        reason=reason,
        accepted=None if accepted is None else int(accepted),
        candidate=candidate,
        merged_commit=merged_commit,
    )
    if isinstance(row, Refusal):
        return row
    payload = {"task": task_id, "from": str(source), "to": str(target)}
    if reason:
        payload["reason"] = reason
    told = journal.append(
        unit,
        scope,
        driver.run_id,
        events.TASK_STATUS,
        payload,
        task_id=task_id,
        fence=driver.fence,
    )
    return told if isinstance(told, Refusal) else TaskRow(*row)


def get(connection: Connection, scope: Scope, run_id: str, task_id: str) -> TaskRow | None:
    row = connection.one(_SQL["get"], scope.params(run_id=run_id, task_id=task_id))
    return TaskRow(*row) if row else None


def of_run(connection: Connection, scope: Scope, run_id: str) -> list[TaskRow]:
    return [TaskRow(*row) for row in connection.all(_SQL["of_run"], scope.params(run_id=run_id))]
