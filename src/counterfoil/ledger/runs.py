"""Runs: one execution of a subject, driven by one process at a time under a fence."""

from dataclasses import dataclass
from typing import Any

from counterfoil.core.ids import RUN
from counterfoil.ledger import events, journal, states, transitions
from counterfoil.ledger.exact import Exact
from counterfoil.ledger.queries import queries
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal, RefusalCode, RunRow, Scope
from counterfoil.ports.store import Connection

_SQL = queries("runs")


@dataclass(frozen=True, slots=True)
class NewRun:
    """What a run is created from. ``input_artifact_id`` is set when the input is not inline."""

    subject_kind: str
    subject_id: str
    input: Exact
    input_hash: str
    input_hash_key: str
    holder_id: str
    subject_version_id: str = ""
    run_key: str | None = None
    request_id: str | None = None
    source: RunRow | None = None
    parent: RunRow | None = None
    input_artifact_id: str | None = None


@dataclass(frozen=True, slots=True)
class Driver:
    """Who may write for a run: every unit of the driver carries its fence."""

    run_id: str
    holder_id: str
    fence: int


def create(unit: Unit, scope: Scope, new: NewRun) -> RunRow | Refusal:
    """A queued run, driven by ``new.holder_id`` under fence 1.

    ``CONFLICT`` when an unfinished run has the same key. Raises ``ValueError`` for an input that
    is neither inline nor stored.
    """
    if new.input.inline is None and new.input_artifact_id is None:
        raise ValueError("the run's input is too large for its row and is not stored")
    open_one = open_with_key(unit.connection, scope, new.run_key) if new.run_key else None
    if open_one is not None:
        return Refusal(
            RefusalCode.CONFLICT, f"{open_one.id} has the key {new.run_key!r} and is not finished"
        )
    run_id = unit.ids.new(RUN)
    lineage_root_id = _lineage_root(run_id, new)
    values = {
        "id": run_id,
        "run_key": new.run_key,
        "request_id": new.request_id,
        "parent_run_id": new.parent.id if new.parent else None,
        "source_run_id": new.source.id if new.source else None,
        "lineage_root_id": lineage_root_id,
        "attempt_no": _attempt_no(unit, scope, lineage_root_id) if new.source else 1,
        "subject_kind": new.subject_kind,
        "subject_id": new.subject_id,
        "subject_version_id": new.subject_version_id,
        "status": str(ExecutionStatus.QUEUED),
        "holder_id": new.holder_id,
        "fence": 1,
        "input_summary": new.input.summary,
        "input_cut": int(new.input.cut),
        "input_json": new.input.inline,
        "input_artifact_id": new.input_artifact_id,
        "input_size": new.input.size,
        "input_sha256": new.input.sha256,
        "input_hash": new.input_hash,
        "input_hash_key": new.input_hash_key,
        "redacted_paths": new.input.redacted_paths,
    }
    unit.run(_SQL["insert"], scope.params(**values, now=unit.now))
    journal.hand_out(unit, scope, run_id, 1)
    transitions.tell(unit, states.RUNS, {"id": run_id}, values)
    payload = {
        "subjectKind": new.subject_kind,
        "subjectId": new.subject_id,
        "inputSha256": new.input.sha256,
        "runKey": new.run_key,
        "sourceRunId": values["source_run_id"],
        "parentRunId": values["parent_run_id"],
    }
    told = {name: value for name, value in payload.items() if value is not None}
    journal.append(unit, scope, run_id, events.RUN_CREATED, told)
    created = get(unit.connection, scope, run_id)
    assert created is not None
    return created


def _lineage_root(run_id: str, new: NewRun) -> str:
    origin = new.source or new.parent
    return origin.lineage_root_id if origin else run_id


def _attempt_no(unit: Unit, scope: Scope, lineage_root_id: str) -> int:
    """One more than the highest of the lineage: two re-executions of one run differ."""
    row = unit.one(_SQL["last_of_lineage"], scope.params(lineage_root_id=lineage_root_id))
    assert row is not None
    return int(row[0]) + 1


def get(connection: Connection, scope: Scope, run_id: str) -> RunRow | None:
    row = connection.one(_SQL["get"], scope.params(id=run_id))
    return RunRow(*row) if row else None


def find(connection: Connection, scope: Scope, name: str) -> RunRow | Refusal:
    """The run whose id is, or unambiguously begins with, ``name``."""
    rows = connection.all(_SQL["with_prefix"], scope.params(prefix=name)) if name else []
    exact = [row for row in rows if row[0] == name]
    if exact or len(rows) == 1:
        return RunRow(*(exact or rows)[0])
    if rows:
        return Refusal(RefusalCode.CONFLICT, f"more than one run begins with {name!r}")
    return Refusal(RefusalCode.NOT_FOUND, f"there is no run {name!r} in this workspace")


def open_with_key(connection: Connection, scope: Scope, run_key: str) -> RunRow | None:
    row = connection.one(_SQL["open_with_key"], scope.params(run_key=run_key))
    return RunRow(*row) if row else None


def newest(connection: Connection, scope: Scope, most: int) -> list[RunRow]:
    rows = connection.all(_SQL["newest"], scope.params(most=most))
    return [RunRow(*row) for row in rows]


def take(unit: Unit, scope: Scope, run: RunRow, holder_id: str) -> Driver | Refusal:
    """Take the run from the driver it had when ``run`` was read, under a new fence.

    The caller has proof that the driver before is gone. ``CONFLICT`` when somebody was faster.
    """
    row = unit.one(
        _SQL["take"],
        scope.params(id=run.id, holder_id=holder_id, seen=run.fence, now=unit.now),
    )
    if row is None:
        return Refusal(RefusalCode.CONFLICT, f"another process has just taken {run.id}")
    taken = RunRow(*row)
    journal.hand_out(unit, scope, run.id, taken.fence)
    transitions.tell(
        unit, states.RUNS, {"id": run.id}, {"holder_id": holder_id, "fence": taken.fence}
    )
    payload = {"holder": holder_id, "fence": taken.fence}
    if run.holder_id:
        payload["takenFrom"] = run.holder_id
    journal.append(unit, scope, run.id, events.RUN_DRIVER, payload)
    return Driver(run.id, holder_id, taken.fence)


def move(
    unit: Unit,
    scope: Scope,
    driver: Driver,
    source: str,
    target: ExecutionStatus,
    *,
    cause: str = "",
    message: str = "",
    resets_at: int | None = None,
    result: Exact | None = None,
    result_artifact_id: str | None = None,
    error_code: str | None = None,
) -> RunRow | Refusal:
    """Move the run; ends, and their times, follow from the target."""
    cause, message = unit.text(cause), unit.text(message)
    columns: dict[str, Any] = {"cause": cause, "error_message": message}
    if result is not None:
        columns |= {
            "output_summary": result.summary,
            "output_cut": int(result.cut),
            "result_json": result.inline,
            "result_artifact_id": result_artifact_id,
            "result_size": result.size,
            "result_sha256": result.sha256,
        }
    if error_code is not None:
        columns["error_code"] = error_code
    if target is ExecutionStatus.RUNNING:
        columns["started_at"] = unit.now
    if target in states.RUN_ENDS:
        columns["ended_at"] = unit.now
    row = transitions.move(
        unit,
        scope,
        states.RUNS,
        {"id": driver.run_id},
        source,
        target,
        fence=driver.fence,
        **columns,
    )
    if isinstance(row, Refusal):
        return row
    payload: dict[str, Any] = {"from": str(source), "to": str(target)}
    if cause:
        payload["cause"] = cause
    if message:
        payload["message"] = message
    if resets_at is not None:
        payload["resetsAt"] = resets_at
    told = journal.append(
        unit, scope, driver.run_id, events.RUN_STATUS, payload, fence=driver.fence
    )
    return told if isinstance(told, Refusal) else RunRow(*row)
