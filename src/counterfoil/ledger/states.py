"""Every status word, every allowed move, and the columns that the journal must explain.

The only room in which a status word is spelled out; everything else imports it. The diagrams
and tables in the docs are generated from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ExecutionStatus(StrEnum):
    """Where a run or a step stands (steps alone may be skipped)."""

    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    WAITING_INPUT = "waiting_input"
    WAITING_APPROVAL = "waiting_approval"
    PAUSED = "paused"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


class TaskStatus(StrEnum):
    """Where a task of a plan stands."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING_DECISION = "waiting_decision"
    BLOCKED = "blocked"
    MERGED = "merged"
    NO_CHANGE = "no_change"
    FAILED = "failed"
    CONFLICT = "conflict"
    CANCELED = "canceled"
    IMPORTED_DONE = "imported_done"


class AttemptStatus(StrEnum):
    """Where one leased execution of one phase stands."""

    LEASED = "leased"
    RUNNING = "running"
    PAUSED = "paused"
    ENDED = "ended"


class AttemptOutcome(StrEnum):
    """What an ended attempt came to."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    NO_CHANGE = "no_change"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """What an attempt does for its task."""

    IMPLEMENT = "implement"
    REVIEW = "review"
    FIX = "fix"
    MERGE = "merge"


class FailClass(StrEnum):
    """How a gate failed."""

    BUILD = "build"
    TYPECHECK = "typecheck"
    LINT = "lint"
    TEST = "test"
    TIMEOUT = "timeout"
    OTHER = "other"


class GateResult(StrEnum):
    """What a gate said of a tree."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"


class HolderStatus(StrEnum):
    """Whether a process still holds what it leased."""

    ALIVE = "alive"
    RELEASED = "released"
    LOST = "lost"


Moves = Mapping[StrEnum, frozenset[StrEnum]]

_E = ExecutionStatus
_ENDS = frozenset({_E.FAILED, _E.CANCELED, _E.EXPIRED})
_WAITS = frozenset({_E.WAITING_INPUT, _E.WAITING_APPROVAL, _E.PAUSED})

RUN_MOVES: Moves = {
    _E.QUEUED: frozenset({_E.PREPARING, _E.RUNNING}) | _ENDS,
    _E.PREPARING: frozenset({_E.RUNNING, _E.SUCCEEDED}) | _WAITS | _ENDS,
    _E.RUNNING: frozenset({_E.SUCCEEDED}) | _WAITS | _ENDS,
    _E.WAITING_INPUT: frozenset({_E.RUNNING}) | _ENDS,
    _E.WAITING_APPROVAL: frozenset({_E.RUNNING}) | _ENDS,
    _E.PAUSED: frozenset({_E.RUNNING, _E.SUCCEEDED}) | _ENDS,
    _E.RETRYING: frozenset({_E.QUEUED, _E.PREPARING, _E.RUNNING}) | _ENDS,
    _E.SUCCEEDED: frozenset(),
    _E.FAILED: frozenset({_E.RETRYING}),
    _E.CANCELED: frozenset({_E.RETRYING}),
    _E.EXPIRED: frozenset({_E.RETRYING}),
}

STEP_MOVES: Moves = {
    **RUN_MOVES,
    _E.QUEUED: RUN_MOVES[_E.QUEUED] | {_E.SKIPPED},
    _E.PREPARING: RUN_MOVES[_E.PREPARING] | {_E.SKIPPED},
    _E.SKIPPED: frozenset(),
}

_T = TaskStatus
TASK_MOVES: Moves = {
    _T.WAITING: frozenset({_T.READY, _T.BLOCKED, _T.CANCELED}),
    _T.READY: frozenset({_T.RUNNING, _T.BLOCKED, _T.PAUSED, _T.CANCELED}),
    _T.RUNNING: frozenset(
        {
            _T.READY,
            _T.PAUSED,
            _T.WAITING_DECISION,
            _T.MERGED,
            _T.NO_CHANGE,
            _T.FAILED,
            _T.CONFLICT,
            _T.CANCELED,
        }
    ),
    _T.PAUSED: frozenset({_T.READY, _T.RUNNING, _T.CANCELED}),
    _T.WAITING_DECISION: frozenset(
        {_T.READY, _T.RUNNING, _T.PAUSED, _T.NO_CHANGE, _T.FAILED, _T.CONFLICT, _T.CANCELED}
    ),
    _T.BLOCKED: frozenset({_T.WAITING, _T.CANCELED}),
    _T.MERGED: frozenset(),
    _T.NO_CHANGE: frozenset({_T.READY}),
    _T.FAILED: frozenset({_T.READY}),
    _T.CONFLICT: frozenset({_T.READY}),
    _T.CANCELED: frozenset(),
    _T.IMPORTED_DONE: frozenset(),
}

_A = AttemptStatus
ATTEMPT_MOVES: Moves = {
    _A.LEASED: frozenset({_A.RUNNING, _A.ENDED}),
    _A.RUNNING: frozenset({_A.PAUSED, _A.ENDED}),
    _A.PAUSED: frozenset({_A.RUNNING, _A.ENDED}),
    _A.ENDED: frozenset(),
}

_H = HolderStatus
HOLDER_MOVES: Moves = {
    _H.ALIVE: frozenset({_H.RELEASED, _H.LOST}),
    _H.RELEASED: frozenset(),
    _H.LOST: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Machine:
    """One table's states: its name, its moves, and the columns that verify folds.

    ``key`` names the columns that identify a row within its scope; ``state`` the columns whose
    every value must follow from the journal.
    """

    table: str
    key: tuple[str, ...]
    state: tuple[str, ...]
    moves: Moves

    def allows(self, source: str, target: str) -> bool:
        return target in self.moves.get(self.status(source), frozenset())

    def status(self, word: str) -> StrEnum:
        """The status of this machine that a word names. Raises ``ValueError``."""
        for status in self.moves:
            if status == word:
                return status
        raise ValueError(f"{word!r} is not a status of {self.table}")

    def final(self, word: str) -> bool:
        """True when nothing can be reached from here."""
        return not self.moves[self.status(word)]


RUNS = Machine(
    "runs",
    ("id",),
    (
        "status",
        "cause",
        "holder_id",
        "fence",
        "run_key",
        "subject_kind",
        "subject_id",
        "subject_version_id",
        "input_sha256",
        "input_hash",
        "input_hash_key",
        "input_artifact_id",
        "result_sha256",
        "result_artifact_id",
        "parent_run_id",
        "source_run_id",
        "lineage_root_id",
        "attempt_no",
        "error_code",
        "error_message",
    ),
    RUN_MOVES,
)
STEPS = Machine(
    "run_steps",
    ("run_id", "step_key"),
    ("status", "record_hash", "result_sha256", "result_artifact_id", "error_code"),
    STEP_MOVES,
)
TASKS = Machine(
    "plan_tasks",
    ("run_id", "task_id"),
    ("status", "accepted", "reason", "title", "spec_sha256", "candidate", "merged_commit"),
    TASK_MOVES,
)
ATTEMPTS = Machine(
    "attempts",
    ("id",),
    (
        "status",
        "task_id",
        "phase",
        "ordinal",
        "agent",
        "session",
        "fence",
        "holder_id",
        "base",
        "folder",
        "worktree",
        "outcome",
        "end_cause",
        "error_class",
        "message",
        "candidate",
        "tree",
        "duration_ms",
    ),
    ATTEMPT_MOVES,
)

GATES = Machine(
    "gate_results",
    ("id",),
    (
        "task_id",
        "attempt_id",
        "tree",
        "gate",
        "environment",
        "result",
        "fail_class",
        "command",
        "cwd",
        "exit_code",
        "duration_ms",
        "fingerprint",
        "output_artifact_id",
    ),
    {},
)
ARTIFACTS = Machine(
    "run_artifacts",
    ("id",),
    ("attempt_id", "type", "mime", "size_bytes", "sha256", "storage_key", "meta"),
    {},
)

MACHINES: Mapping[str, Machine] = {
    machine.table: machine for machine in (RUNS, STEPS, TASKS, ATTEMPTS, GATES, ARTIFACTS)
}
"""All tables whose state columns the journal explains, by name."""

RUN_ENDS = frozenset(
    status for status in RUN_MOVES if status in _ENDS or status is ExecutionStatus.SUCCEEDED
)
TASK_ENDS = frozenset(
    {_T.MERGED, _T.NO_CHANGE, _T.FAILED, _T.CONFLICT, _T.CANCELED, _T.IMPORTED_DONE}
)
