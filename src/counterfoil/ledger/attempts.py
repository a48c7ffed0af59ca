"""Attempts: one leased execution of one phase of a task, under a fence."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from counterfoil.core import codec
from counterfoil.ledger import events, journal, states, transitions
from counterfoil.ledger.events import EventKind
from counterfoil.ledger.queries import queries
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import AttemptOutcome, AttemptStatus, Phase
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import AttemptRow, Refusal, RefusalCode, Scope
from counterfoil.ports.agent import Report
from counterfoil.ports.executor import ExitRecord
from counterfoil.ports.store import Connection

_SQL = queries("attempts")


@dataclass(frozen=True, slots=True)
class Lease:
    """What an attempt is leased with. Its id is minted before, with the attempt context."""

    attempt_id: str
    task_id: str
    phase: Phase
    ordinal: int
    agent: str
    base: str
    fence: int = 1
    candidate: str = ""
    folder: str = ""
    worktree: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended: the verdict, and the facts it was drawn from.

    ``payloads`` are further entries of the same transaction (usage, diff), as (kind, payload).
    """

    outcome: AttemptOutcome
    end_cause: str
    message: str = ""
    error_class: str = ""
    exit: ExitRecord | None = None
    report: Report | None = None
    candidate: str = ""
    tree: str = ""
    duration_ms: int | None = None
    duration_reason: str = ""
    notes: tuple[str, ...] = ()
    payloads: tuple[tuple[EventKind, dict[str, Any]], ...] = ()


def lease(unit: Unit, scope: Scope, driver: Driver, new: Lease) -> AttemptRow | Refusal:
    """Lease an attempt: its row is there before anything of it exists."""
    stale = journal.refuse_stale(unit, scope, driver.run_id, driver.fence)
    if stale is not None:
        return stale
    values = {
        "id": new.attempt_id,
        "run_id": driver.run_id,
        "task_id": new.task_id,
        "phase": str(new.phase),
        "ordinal": new.ordinal,
        "status": str(AttemptStatus.LEASED),
        "agent": new.agent,
        "holder_id": driver.holder_id,
        "fence": new.fence,
        "base": new.base,
        "candidate": new.candidate,
        "folder": new.folder,
        "worktree": new.worktree,
    }
    unit.run(_SQL["insert"], scope.params(**values, now=unit.now))
    transitions.tell(unit, states.ATTEMPTS, {"id": new.attempt_id}, values)
    payload = {
        "task": new.task_id,
        "attemptId": new.attempt_id,
        "phase": str(new.phase),
        "ordinal": new.ordinal,
        "agent": new.agent,
        "base": new.base,
        "fence": new.fence,
    }
    told = _append(unit, scope, driver, events.TASK_DISPATCH, payload)
    if isinstance(told, Refusal):
        return told
    row = get(unit.connection, scope, new.attempt_id)
    assert row is not None
    return row


def start(
    unit: Unit,
    scope: Scope,
    driver: Driver,
    attempt: AttemptRow,
    command: Sequence[str] = (),
) -> AttemptRow | Refusal:
    """The attempt's process runs under its keeper; ``command``: its argv."""
    if (foreign := of_another_run(driver, attempt)) is not None:
        return foreign
    row = transitions.move(
        unit,
        scope,
        states.ATTEMPTS,
        {"id": attempt.id},
        AttemptStatus.LEASED,
        AttemptStatus.RUNNING,
        fence=attempt.fence,
        started_at=unit.now,
    )
    if isinstance(row, Refusal):
        return row
    payload: dict[str, Any] = {
        "task": attempt.task_id,
        "attemptId": attempt.id,
        "phase": attempt.phase,
    }
    if command:
        payload["command"] = list(command)
    told = _append(unit, scope, driver, events.DISPATCH_START, payload)
    return told if isinstance(told, Refusal) else AttemptRow(*row)


def hand_over(
    unit: Unit, scope: Scope, driver: Driver, attempt: AttemptRow
) -> AttemptRow | Refusal:
    """A new driver adopts a living attempt: same id, same fence, another holder."""
    if (foreign := of_another_run(driver, attempt)) is not None:
        return foreign
    row = unit.one(
        _SQL["hand_over"],
        scope.params(
            id=attempt.id,
            holder_id=driver.holder_id,
            source=attempt.status,
            fence=attempt.fence,
            now=unit.now,
        ),
    )
    if row is None:
        return Refusal(
            RefusalCode.CONFLICT, f"attempt {attempt.id} moved on while it was handed over"
        )
    transitions.tell(unit, states.ATTEMPTS, {"id": attempt.id}, {"holder_id": driver.holder_id})
    payload = {
        "task": attempt.task_id,
        "attemptId": attempt.id,
        "holder": driver.holder_id,
    }
    told = _append(unit, scope, driver, events.DISPATCH_ADOPTED, payload)
    return told if isinstance(told, Refusal) else AttemptRow(*row)


def end(
    unit: Unit, scope: Scope, driver: Driver, attempt: AttemptRow, how: End
) -> AttemptRow | Refusal:
    """End the attempt: dispatch.done, usage, its one duration and its diff in one commit."""
    if (foreign := of_another_run(driver, attempt)) is not None:
        return foreign
    how = replace(how, message=unit.text(how.message), error_class=unit.text(how.error_class))
    row = transitions.move(
        unit,
        scope,
        states.ATTEMPTS,
        {"id": attempt.id},
        attempt.status,
        AttemptStatus.ENDED,
        fence=attempt.fence,
        outcome=str(how.outcome),
        end_cause=how.end_cause,
        error_class=how.error_class,
        message=how.message,
        session=how.report.session if how.report else None,
        candidate=how.candidate or None,
        tree=how.tree or None,
        exit_json=codec.encode_safely(asdict(how.exit)) if how.exit else None,
        report_json=codec.encode_safely(asdict(how.report)) if how.report else None,
        duration_ms=how.duration_ms,
        ended_at=unit.now,
    )
    if isinstance(row, Refusal):
        return row
    done = _append(unit, scope, driver, events.DISPATCH_DONE, _done(attempt, how))
    if isinstance(done, Refusal):
        return done
    duration: dict[str, Any] = {
        "task": attempt.task_id,
        "attemptId": attempt.id,
        "phase": attempt.phase,
        "durationMs": how.duration_ms,
    }
    if how.duration_ms is None:
        duration["reason"] = how.duration_reason or "nobody could measure it"
    for kind, payload in (*how.payloads, (events.TASK_DURATION, duration)):
        told = tell(unit, scope, driver, attempt, kind, payload)
        if isinstance(told, Refusal):
            return told
    return AttemptRow(*row)


def tell(
    unit: Unit,
    scope: Scope,
    driver: Driver,
    attempt: AttemptRow,
    kind: EventKind,
    payload: dict[str, Any],
) -> journal.Cursor | Refusal:
    """Append an entry about an attempt, stamped with its task and its id."""
    stamped = {"task": attempt.task_id, "attemptId": attempt.id, **payload}
    return _append(unit, scope, driver, kind, stamped)


def of_another_run(driver: Driver, attempt: AttemptRow) -> Refusal | None:
    """The refusal when the driver's run is not the attempt's: its journal must not tell of it."""
    if attempt.run_id == driver.run_id:
        return None
    return Refusal(
        RefusalCode.NOT_FOUND, f"attempt {attempt.id} is not of {driver.run_id}", attempt.status
    )


def _done(attempt: AttemptRow, how: End) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "task": attempt.task_id,
        "attemptId": attempt.id,
        "phase": attempt.phase,
        "outcome": str(how.outcome),
        "endCause": how.end_cause,
    }
    optional = {
        "message": how.message,
        "errorClass": how.error_class,
        "session": how.report.session if how.report else None,
        "notes": list(how.notes),
    }
    if how.exit is not None:
        payload["exitCode"] = how.exit.exit_code
        payload["signal"] = how.exit.signal
        optional["endedProcesses"] = [f"{note.pid} {note.command}" for note in how.exit.ended]
        optional["survivors"] = [f"{note.pid} {note.command}" for note in how.exit.survivors]
    return payload | {name: value for name, value in optional.items() if value}


def _append(
    unit: Unit, scope: Scope, driver: Driver, kind: EventKind, payload: dict[str, Any]
) -> journal.Cursor | Refusal:
    return journal.append(
        unit,
        scope,
        driver.run_id,
        kind,
        payload,
        task_id=payload["task"],
        attempt_id=payload["attemptId"],
        fence=driver.fence,
    )


def get(connection: Connection, scope: Scope, attempt_id: str) -> AttemptRow | None:
    row = connection.one(_SQL["get"], scope.params(id=attempt_id))
    return AttemptRow(*row) if row else None


def of_run(connection: Connection, scope: Scope, run_id: str) -> list[AttemptRow]:
    rows = connection.all(_SQL["of_run"], scope.params(run_id=run_id))
    return [AttemptRow(*row) for row in rows]
