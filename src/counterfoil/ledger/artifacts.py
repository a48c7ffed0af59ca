"""Artifacts: which bytes belong to a run, by their hash. The bytes are stored before the row."""

from dataclasses import dataclass, field
from typing import Any

from counterfoil.core import codec
from counterfoil.core.ids import ARTIFACT
from counterfoil.ledger import events, journal, states, transitions
from counterfoil.ledger.queries import queries
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import ArtifactRow, Refusal, Scope
from counterfoil.ports.store import Connection

_SQL = queries("run_artifacts")


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes that are in the artifact store already."""

    sha256: str
    size_bytes: int
    type: str
    mime: str = "application/octet-stream"
    meta: dict[str, Any] = field(default_factory=dict)


def record(
    unit: Unit,
    scope: Scope,
    run_id: str,
    stored: Stored,
    *,
    task_id: str | None = None,
    attempt_id: str | None = None,
    fence: int | None = None,
    artifact_id: str | None = None,
) -> str | Refusal:
    """Have the run own these bytes; returns the artifact's id, which may be minted before."""
    if fence is not None and (stale := journal.refuse_stale(unit, scope, run_id, fence)):
        return stale
    artifact_id = artifact_id or unit.ids.new(ARTIFACT)
    values = {
        "id": artifact_id,
        "run_id": run_id,
        "step_id": None,
        "attempt_id": attempt_id,
        "type": stored.type,
        "mime": stored.mime,
        "size_bytes": stored.size_bytes,
        "sha256": stored.sha256,
        "storage_key": f"sha256/{stored.sha256}",
        "meta": codec.encode(unit.redactor.value(stored.meta)[0]),
    }
    unit.run(_SQL["insert"], scope.params(**values, now=unit.now))
    transitions.tell(unit, states.ARTIFACTS, {"id": artifact_id}, values)
    payload = {
        "artifact": artifact_id,
        "sha256": stored.sha256,
        "sizeBytes": stored.size_bytes,
        "type": stored.type,
    }
    told = journal.append(
        unit,
        scope,
        run_id,
        events.ARTIFACT_RECORDED,
        payload,
        task_id=task_id,
        attempt_id=attempt_id,
        fence=fence,
    )
    return told if isinstance(told, Refusal) else artifact_id


def get(connection: Connection, scope: Scope, run_id: str, artifact_id: str) -> ArtifactRow | None:
    row = connection.one(_SQL["get"], scope.params(run_id=run_id, id=artifact_id))
    return ArtifactRow(*row) if row else None


def of_run(connection: Connection, scope: Scope, run_id: str) -> list[ArtifactRow]:
    rows = connection.all(_SQL["of_run"], scope.params(run_id=run_id))
    return [ArtifactRow(*row) for row in rows]
