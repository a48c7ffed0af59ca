"""Durable steps: an operation inside a run whose result is recorded and never done twice."""

from dataclasses import dataclass
from typing import Any

from counterfoil.core.ids import STEP
from counterfoil.ledger import artifacts, events, journal, states, transitions
from counterfoil.ledger.artifacts import Stored
from counterfoil.ledger.exact import Exact
from counterfoil.ledger.queries import queries
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal, RefusalCode, Scope, StepRow
from counterfoil.ports.store import Connection

_SQL = queries("run_steps")


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended: a result (``overflow``: where a large one is stored), or an error."""

    key: str
    step_type: str
    result: Exact
    started_at: int
    overflow: Stored | None = None
    error_code: str = ""
    error_message: str = ""


def record(unit: Unit, scope: Scope, driver: Driver, end: StepEnd, *, known: bool) -> str | Refusal:
    """Record a step's end in one commit; returns the step's id.

    ``known``: the step has a row already (it failed before); it moves on through ``retrying``.
    ``STALE_FENCE`` when another driver has the run, ``CONFLICT`` when the step is recorded and
    not known to be.
    """
    before: StepRow | None = None
    if known:
        stale = journal.refuse_stale(unit, scope, driver.run_id, driver.fence)
        if stale is not None:
            return stale
        before = get(unit.connection, scope, driver.run_id, end.key)
    status = ExecutionStatus.FAILED if end.error_code else ExecutionStatus.SUCCEEDED
    columns = _columns(unit, end)
    if end.overflow is not None:
        kept = artifacts.record(unit, scope, driver.run_id, end.overflow, fence=driver.fence)
        if isinstance(kept, Refusal):
            return kept
        columns["result_artifact_id"] = kept
    if before is None:
        columns["status"] = str(status)
        recorded = _insert(unit, scope, driver, end, columns)
    else:
        recorded = _move_again(unit, scope, before, columns, status)
    if isinstance(recorded, Refusal):
        return recorded
    payload = {"step": end.key, "stepType": end.step_type, "resultSha256": end.result.sha256}
    if end.error_code:
        payload["errorCode"] = end.error_code
    told = journal.append(
        unit, scope, driver.run_id, events.STEP_RECORDED, payload, fence=driver.fence
    )
    return told if isinstance(told, Refusal) else recorded


def _columns(unit: Unit, end: StepEnd) -> dict[str, Any]:
    return {
        "output_summary": end.result.summary,
        "cut": int(end.result.cut),
        "result_json": end.result.inline,
        "result_artifact_id": None,
        "result_size": end.result.size,
        "result_sha256": end.result.sha256,
        "record_hash": end.result.sha256,
        "redacted_paths": end.result.redacted_paths,
        "error_code": end.error_code,
        "error_message": unit.text(end.error_message) if end.error_message else "",
        "started_at": end.started_at,
        "ended_at": unit.now,
    }


def _insert(
    unit: Unit, scope: Scope, driver: Driver, end: StepEnd, columns: dict[str, Any]
) -> str | Refusal:
    step_id = unit.ids.new(STEP)
    added = unit.one(
        _SQL["insert"],
        scope.params(
            id=step_id,
            run_id=driver.run_id,
            step_key=end.key,
            step_type=end.step_type,
            task_id=None,
            attempt_id=None,
            input_summary="",
            now=unit.now,
            **columns,
        ),
    )
    if added is None:
        return _recorded_already(unit, scope, driver, end)
    key = {"run_id": driver.run_id, "step_key": end.key}
    transitions.tell(unit, states.STEPS, key, columns)
    return step_id


def _recorded_already(unit: Unit, scope: Scope, driver: Driver, end: StepEnd) -> Refusal:
    """A stale driver hears of its fence, not of what the driver after it has written."""
    stale = journal.refuse_stale(unit, scope, driver.run_id, driver.fence)
    if stale is not None:
        return stale
    before = get(unit.connection, scope, driver.run_id, end.key)
    return Refusal(
        RefusalCode.CONFLICT,
        f"step {end.key} of {driver.run_id} is recorded already",
        before.status if before else "",
    )


def _move_again(
    unit: Unit, scope: Scope, before: StepRow, columns: dict[str, Any], status: ExecutionStatus
) -> str | Refusal:
    key = {"run_id": before.run_id, "step_key": before.step_key}
    path = (ExecutionStatus.RETRYING, ExecutionStatus.RUNNING, status)
    source = before.status
    for target in path:
        told = columns if target is status else {}
        moved = transitions.move(unit, scope, states.STEPS, key, source, target, **told)
        if isinstance(moved, Refusal):
            return moved
        source = target
    return before.id


def get(connection: Connection, scope: Scope, run_id: str, step_key: str) -> StepRow | None:
    row = connection.one(_SQL["get"], scope.params(run_id=run_id, step_key=step_key))
    return StepRow(*row) if row else None


def of_run(connection: Connection, scope: Scope, run_id: str) -> list[StepRow]:
    return [StepRow(*row) for row in connection.all(_SQL["of_run"], scope.params(run_id=run_id))]
