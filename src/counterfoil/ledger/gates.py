"""Gate results: what a gate said of a tree, in an environment. A tree is judged once."""

from dataclasses import dataclass
from typing import Any

from counterfoil.core import codec
from counterfoil.core.ids import GATE_RESULT
from counterfoil.ledger import attempts, events, journal, states, transitions
from counterfoil.ledger.queries import queries
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import FailClass, GateResult
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import AttemptRow, GateRow, Refusal, Scope
from counterfoil.ports.store import Connection

_SQL = queries("gate_results")


@dataclass(frozen=True, slots=True)
class Judged:
    """One gate's word on one tree. ``fail_class`` None: it passed."""

    tree: str
    gate: str
    environment: str
    command: tuple[str, ...]
    cwd: str
    exit_code: int | None
    duration_ms: int | None
    fail_class: FailClass | None = None
    message: str = ""
    fingerprint: str = ""
    reused: bool = False


def record(
    unit: Unit,
    scope: Scope,
    driver: Driver,
    attempt: AttemptRow,
    judged: Judged,
    *,
    output_artifact_id: str | None = None,
) -> GateRow | Refusal:
    """Record what a gate said of the attempt's candidate.

    A reused pass has an entry of its own and no second row.
    """
    refused = attempts.of_another_run(driver, attempt) or journal.refuse_stale(
        unit, scope, driver.run_id, driver.fence
    )
    if refused is not None:
        return refused
    result = GateResult.PASS if judged.fail_class is None else GateResult.FAIL
    values = {
        "id": unit.ids.new(GATE_RESULT),
        "run_id": driver.run_id,
        "task_id": attempt.task_id,
        "attempt_id": attempt.id,
        "tree": judged.tree,
        "gate": judged.gate,
        "environment": judged.environment,
        "result": str(result),
        "fail_class": str(judged.fail_class or ""),
        "command": codec.encode(unit.redactor.value(list(judged.command))[0]),
        "cwd": unit.text(judged.cwd),
        "exit_code": judged.exit_code,
        "duration_ms": judged.duration_ms,
        "fingerprint": judged.fingerprint,
        "output_artifact_id": output_artifact_id,
    }
    if not judged.reused:
        unit.run(_SQL["insert"], scope.params(**values, now=unit.now))
        transitions.tell(unit, states.GATES, {"id": values["id"]}, values)
    told = journal.append(
        unit,
        scope,
        driver.run_id,
        events.GATE_PASS if judged.fail_class is None else events.GATE_FAIL,
        _payload(attempt, judged, output_artifact_id),
        task_id=attempt.task_id,
        attempt_id=attempt.id,
        fence=driver.fence,
    )
    if isinstance(told, Refusal):
        return told
    return GateRow(**scope.params(**values, created_at=unit.now))


def _payload(attempt: AttemptRow, judged: Judged, artifact_id: str | None) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "task": attempt.task_id,
        "attemptId": attempt.id,
        "gate": judged.gate,
        "tree": judged.tree,
        "command": list(judged.command),
        "cwd": judged.cwd,
        "durationMs": judged.duration_ms,
    }
    if judged.fail_class is None:
        return payload | ({"reused": True} if judged.reused else {})
    payload |= {
        "message": judged.message,
        "failClass": str(judged.fail_class),
        "exitCode": judged.exit_code,
    }
    return payload | ({"artifact": artifact_id} if artifact_id else {})


def passed(
    connection: Connection, scope: Scope, run_id: str, tree: str, gate: str, environment: str
) -> GateRow | None:
    """The pass that this tree already has from this gate in this environment, if any."""
    row = connection.one(
        _SQL["passed"],
        scope.params(run_id=run_id, tree=tree, gate=gate, environment=environment),
    )
    return GateRow(*row) if row else None


def of_run(connection: Connection, scope: Scope, run_id: str) -> list[GateRow]:
    return [GateRow(*row) for row in connection.all(_SQL["of_run"], scope.params(run_id=run_id))]
