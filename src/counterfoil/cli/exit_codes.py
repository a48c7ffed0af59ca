"""The one table of exit codes: what each means, and which one an error or a run ends with."""

from collections.abc import Mapping
from enum import IntEnum

from counterfoil.core.errors import CounterfoilError
from counterfoil.ledger.states import ExecutionStatus


class Exit(IntEnum):
    """What the command's process ends with."""

    OK = 0
    FOUND = 1
    USAGE = 2
    PAUSED = 3
    REFUSED = 4
    SURROUNDINGS = 5
    STORE = 6
    INTERNAL = 70
    INTERRUPTED = 130
    NO_READER = 141
    LEFT = 143


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "done; a run succeeded; a check found nothing",
    Exit.FOUND: "the run failed, or a check, verify or doctor found something",
    Exit.USAGE: "the command, a setting or the plan cannot be used as it is",
    Exit.PAUSED: "the run is paused and can be resumed",
    Exit.REFUSED: "the ledger refused: not found, a conflict, not possible in this state",
    Exit.SURROUNDINGS: "the repository, git, the agent's program or its keeper refused",
    Exit.STORE: "the ledger cannot be used, or is not what was recorded",
    Exit.INTERNAL: "an error of Counterfoil itself",
    Exit.INTERRUPTED: "interrupted by Ctrl-C; a run is paused and keeps its work",
    Exit.NO_READER: "nobody reads the output any more",
    Exit.LEFT: "ended by SIGTERM; the agents of a run go on and wait for `runs recover`",
}

BY_ERROR: Mapping[str, Exit] = {
    "INTERNAL": Exit.INTERNAL,
    "USAGE": Exit.USAGE,
    "PLAN_INVALID": Exit.USAGE,
    "SETTING_INVALID": Exit.USAGE,
    "VALUE_REFUSED": Exit.USAGE,
    "REFUSED": Exit.REFUSED,
    "NOT_FOUND": Exit.REFUSED,
    "ILLEGAL_MOVE": Exit.REFUSED,
    "CONFLICT": Exit.REFUSED,
    "STALE_FENCE": Exit.REFUSED,
    "WORKSPACE_ERROR": Exit.SURROUNDINGS,
    "REPOSITORY_REFUSED": Exit.SURROUNDINGS,
    "REF_MOVED": Exit.SURROUNDINGS,
    "GIT_FAILED": Exit.SURROUNDINGS,
    "EXECUTOR_FAILED": Exit.SURROUNDINGS,
    "AGENT_UNAVAILABLE": Exit.SURROUNDINGS,
    "STORE_ERROR": Exit.STORE,
    "STORE_UNAVAILABLE": Exit.STORE,
    "MIGRATION_REFUSED": Exit.STORE,
    "INTEGRITY_FAULT": Exit.STORE,
    "ARTIFACT_CORRUPT": Exit.STORE,
}
"""Every error code of the tree; a test keeps it complete."""

BY_STATUS: Mapping[ExecutionStatus, Exit] = {
    ExecutionStatus.SUCCEEDED: Exit.OK,
    ExecutionStatus.SKIPPED: Exit.OK,
    ExecutionStatus.FAILED: Exit.FOUND,
    ExecutionStatus.CANCELED: Exit.FOUND,
    ExecutionStatus.EXPIRED: Exit.FOUND,
    ExecutionStatus.PAUSED: Exit.PAUSED,
    ExecutionStatus.WAITING_INPUT: Exit.PAUSED,
    ExecutionStatus.WAITING_APPROVAL: Exit.PAUSED,
    ExecutionStatus.RETRYING: Exit.PAUSED,
    ExecutionStatus.QUEUED: Exit.LEFT,
    ExecutionStatus.PREPARING: Exit.LEFT,
    ExecutionStatus.RUNNING: Exit.LEFT,
}
"""How a command that drove a run ends, by where it left the run."""


def of_error(error: CounterfoilError) -> Exit:
    return BY_ERROR.get(error.code, Exit.INTERNAL)


def of_run(status: str, *, interrupted: bool = False) -> Exit:
    """``interrupted``: by Ctrl-C; it counts only when the run was paused by it."""
    code = BY_STATUS[ExecutionStatus(status)]
    return Exit.INTERRUPTED if interrupted and code is Exit.PAUSED else code
