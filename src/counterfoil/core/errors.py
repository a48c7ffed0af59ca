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
    │   ├── ArtifactCorrupt       ARTIFACT_CORRUPT
    │   └── LedgerAltered         LEDGER_ALTERED
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
    code = "USAGE"


class PlanInvalid(UsageError):
    code = "PLAN_INVALID"


class SettingInvalid(UsageError):
    code = "SETTING_INVALID"


class ValueRefused(UsageError):
    code = "VALUE_REFUSED"


class Refused(CounterfoilError):
    code = "REFUSED"


class NotFound(Refused):
    code = "NOT_FOUND"


class IllegalMove(Refused):
    code = "ILLEGAL_MOVE"


class Conflict(Refused):
    code = "CONFLICT"


class StaleFence(Refused):
    code = "STALE_FENCE"


class StoreError(CounterfoilError):
    code = "STORE_ERROR"


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class MigrationRefused(StoreError):
    code = "MIGRATION_REFUSED"


class IntegrityFault(CounterfoilError):
    code = "INTEGRITY_FAULT"


class ArtifactCorrupt(IntegrityFault):
    code = "ARTIFACT_CORRUPT"


class LedgerAltered(IntegrityFault):
    code = "LEDGER_ALTERED"


class WorkspaceError(CounterfoilError):
    code = "WORKSPACE_ERROR"


class RepositoryRefused(WorkspaceError):
    code = "REPOSITORY_REFUSED"


class RefMoved(WorkspaceError):
    code = "REF_MOVED"


class GitFailed(WorkspaceError):
    code = "GIT_FAILED"


class ExecutorError(CounterfoilError):
    code = "EXECUTOR_FAILED"


class AgentUnavailable(CounterfoilError):
    code = "AGENT_UNAVAILABLE"
