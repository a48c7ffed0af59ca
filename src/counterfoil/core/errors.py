"""One tree of errors with stable codes.

::

    CounterfoilError
    ├── UsageError                what the caller gave cannot be used
    │   ├── PlanInvalid           PLAN_INVALID
    │   ├── SettingInvalid        SETTING_INVALID
    │   └── ValueRefused          VALUE_REFUSED
    ├── Refused                   the ledger's named refusals
    │   ├── NotFound              NOT_FOUND
    │   ├── IllegalMove           ILLEGAL_MOVE
    │   ├── Conflict              CONFLICT
    │   └── StaleFence            STALE_FENCE
    ├── StoreError                the database or the disk
    │   ├── StoreUnavailable      STORE_UNAVAILABLE
    │   └── MigrationRefused      MIGRATION_REFUSED
    ├── IntegrityFault            bytes or chains that are not what was recorded
    │   └── ArtifactCorrupt       ARTIFACT_CORRUPT
    ├── WorkspaceError            git and the working tree
    │   ├── RepositoryRefused     REPOSITORY_REFUSED
    │   ├── RefMoved              REF_MOVED
    │   └── GitFailed             GIT_FAILED
    ├── ExecutorError             EXECUTOR_FAILED: a keeper could not do its work
    └── AgentUnavailable          AGENT_UNAVAILABLE: the agent's program is not there
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class CounterfoilError(Exception):
    """A sentence for people, a stable code for programs, a hint that names the way out.

    ``details`` carry only values that are safe to show. The driver's own exception is the
    ``__cause__``.
    """

    code: ClassVar[str] = "INTERNAL"

    def __init__(
        self, message: str, *, hint: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})


class UsageError(CounterfoilError):
    """What was given cannot be used."""

    code = "USAGE"


class PlanInvalid(UsageError):
    """The plan has faults; all of them are listed, with line and column."""

    code = "PLAN_INVALID"


class SettingInvalid(UsageError):
    """A setting has a value that it cannot have."""

    code = "SETTING_INVALID"


class ValueRefused(UsageError):
    """A value or an option cannot be taken as it is."""

    code = "VALUE_REFUSED"


class Refused(CounterfoilError):
    """The ledger said no."""

    code = "REFUSED"


class NotFound(Refused):
    """There is no such thing in this workspace."""

    code = "NOT_FOUND"


class IllegalMove(Refused):
    """The table of moves has no such arrow."""

    code = "ILLEGAL_MOVE"


class Conflict(Refused):
    """It stands elsewhere by now, or somebody else has it."""

    code = "CONFLICT"


class StaleFence(Refused):
    """The writer was taken over: a newer fence holds."""

    code = "STALE_FENCE"


class StoreError(CounterfoilError):
    """The database refused."""

    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    """Nothing can be recorded now: the disk is full, or the file cannot be used."""

    code = "STORE_UNAVAILABLE"


class MigrationRefused(StoreError):
    """The schema of the ledger and this version do not fit."""

    code = "MIGRATION_REFUSED"


class IntegrityFault(CounterfoilError):
    """What is there is not what was recorded."""

    code = "INTEGRITY_FAULT"


class ArtifactCorrupt(IntegrityFault):
    """An artifact's bytes are not what their hash says."""

    code = "ARTIFACT_CORRUPT"


class WorkspaceError(CounterfoilError):
    """The repository or a worktree stands in the way."""

    code = "WORKSPACE_ERROR"


class RepositoryRefused(WorkspaceError):
    """The repository cannot be worked on as it is."""

    code = "REPOSITORY_REFUSED"


class RefMoved(WorkspaceError):
    """A branch stands elsewhere than it was when the work began."""

    code = "REF_MOVED"


class GitFailed(WorkspaceError):
    """A git command failed; its end is quoted."""

    code = "GIT_FAILED"


class ExecutorError(CounterfoilError):
    """A keeper could not do its work."""

    code = "EXECUTOR_FAILED"


class AgentUnavailable(CounterfoilError):
    """The agent's program is not installed."""

    code = "AGENT_UNAVAILABLE"
