"""What every room of the ledger passes around: the scope, the rows, a refusal.

A row is a frozen dataclass whose fields are its table's columns, in their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from counterfoil.core.errors import Conflict, IllegalMove, NotFound, Refused, StaleFence


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose rows: both columns lead every key and stand in every WHERE."""

    tenant_id: str = "local"
    workspace_id: str = "default"

    def params(self, **more: Any) -> dict[str, Any]:
        return {"tenant_id": self.tenant_id, "workspace_id": self.workspace_id, **more}


class RefusalCode(StrEnum):
    """The four ways in which the ledger says no."""

    NOT_FOUND = "NOT_FOUND"
    ILLEGAL_MOVE = "ILLEGAL_MOVE"
    CONFLICT = "CONFLICT"
    STALE_FENCE = "STALE_FENCE"


_ERRORS: Mapping[RefusalCode, type[Refused]] = {
    RefusalCode.NOT_FOUND: NotFound,
    RefusalCode.ILLEGAL_MOVE: IllegalMove,
    RefusalCode.CONFLICT: Conflict,
    RefusalCode.STALE_FENCE: StaleFence,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A named no. A unit that returns one leaves nothing behind."""

    code: RefusalCode
    message: str
    status: str = ""

    def error(self) -> Refused:
        """The same no as an exception, for callers that cannot go on."""
        return _ERRORS[self.code](self.message, details={"status": self.status})


@dataclass(frozen=True, slots=True)
class RunRow:
    id: str
    tenant_id: str
    workspace_id: str
    run_key: str | None
    request_id: str | None
    parent_run_id: str | None
    source_run_id: str | None
    lineage_root_id: str
    attempt_no: int
    subject_kind: str
    subject_id: str
    subject_version_id: str
    status: str
    cause: str
    holder_id: str
    fence: int
    input_summary: str
    input_cut: int
    input_json: str | None
    input_artifact_id: str | None
    input_size: int
    input_sha256: str
    input_hash: str
    input_hash_key: str
    redacted_paths: str
    output_summary: str
    output_cut: int
    result_json: str | None
    result_artifact_id: str | None
    result_size: int | None
    result_sha256: str
    error_code: str
    error_message: str
    created_at: int
    started_at: int | None
    ended_at: int | None
    updated_at: int


@dataclass(frozen=True, slots=True)
class StepRow:
    id: str
    tenant_id: str
    workspace_id: str
    run_id: str
    step_key: str
    step_type: str
    task_id: str | None
    attempt_id: str | None
    status: str
    input_summary: str
    output_summary: str
    cut: int
    result_json: str | None
    result_artifact_id: str | None
    result_size: int | None
    result_sha256: str
    record_hash: str
    redacted_paths: str
    error_code: str
    error_message: str
    created_at: int
    started_at: int | None
    ended_at: int | None
    updated_at: int


@dataclass(frozen=True, slots=True)
class TaskRow:
    tenant_id: str
    workspace_id: str
    run_id: str
    task_id: str
    position: int
    title: str
    spec_sha256: str
    status: str
    accepted: int
    reason: str
    candidate: str
    merged_commit: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class AttemptRow:
    id: str
    tenant_id: str
    workspace_id: str
    run_id: str
    task_id: str
    phase: str
    ordinal: int
    status: str
    outcome: str
    end_cause: str
    error_class: str
    message: str
    agent: str
    session: str
    holder_id: str
    fence: int
    base: str
    candidate: str
    tree: str
    folder: str
    worktree: str
    exit_json: str | None
    report_json: str | None
    duration_ms: int | None
    created_at: int
    started_at: int | None
    ended_at: int | None
    updated_at: int


@dataclass(frozen=True, slots=True)
class GateRow:
    id: str
    tenant_id: str
    workspace_id: str
    run_id: str
    task_id: str
    attempt_id: str
    tree: str
    gate: str
    environment: str
    result: str
    fail_class: str
    command: str
    cwd: str
    exit_code: int | None
    duration_ms: int | None
    fingerprint: str
    output_artifact_id: str | None
    created_at: int


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    id: str
    tenant_id: str
    workspace_id: str
    run_id: str
    step_id: str | None
    attempt_id: str | None
    type: str
    mime: str
    size_bytes: int
    sha256: str
    storage_key: str
    meta: str
    created_at: int


@dataclass(frozen=True, slots=True)
class HolderRow:
    id: str
    tenant_id: str
    workspace_id: str
    kind: str
    status: str
    host: str
    boot_id: str
    pid: int
    lock_path: str
    lease_expires_at: int
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One journal entry as stored. ``payload`` None: withheld by a journaled act."""

    tenant_id: str
    workspace_id: str
    stream: str
    seq: int
    kind: str
    at: int
    task_id: str | None
    attempt_id: str | None
    payload: str | None
    moves: str
    body_sha256: str
    hash: str


ROWS: Mapping[str, type[Any]] = {
    "runs": RunRow,
    "run_steps": StepRow,
    "plan_tasks": TaskRow,
    "attempts": AttemptRow,
    "gate_results": GateRow,
    "run_artifacts": ArtifactRow,
    "holders": HolderRow,
    "journal": EntryRow,
}
"""The dataclass that each table's rows become."""
