"""The narrow seam to a database: begin, run, one, all. It knows no word of the domain."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Protocol

Params = Mapping[str, Any]
NO_PARAMS: Params = MappingProxyType({})
Row = tuple[Any, ...]


class Connection(Protocol):
    """One connection. SQL carries ``:name`` parameters on every engine.

    Raises ``StoreUnavailable`` when the engine or the disk refuses; ``in_transaction`` then
    tells whether the engine ended the transaction.
    """

    @property
    def in_transaction(self) -> bool: ...

    def begin(self) -> None:
        """Open a write transaction (SQLite: immediate)."""
        ...

    def commit(self) -> None:
        """Make the transaction durable; raises ``CommitReplyLost`` when the reply was lost."""
        ...

    def rollback(self) -> None:
        """Undo the open transaction; a no-op when the engine has ended it already."""
        ...

    def savepoint(self) -> None: ...

    def release(self) -> None: ...

    def rollback_to_savepoint(self) -> None:
        """Undo back to the savepoint and drop it."""
        ...

    def run(self, sql: str, params: Params = NO_PARAMS) -> None: ...

    def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None: ...

    def all(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]: ...

    def close(self) -> None: ...


class CommitReplyLost(Exception):
    """COMMIT was sent and nobody knows whether it took effect."""


class Store(Protocol):
    """A database that hands out connections."""

    engine: str

    def connect(self) -> Connection:
        """A connection for the writer."""
        ...

    def snapshot(self) -> AbstractContextManager[Connection]:
        """A read-only connection in which every read sees the same state."""
        ...

    def queue(self) -> AbstractContextManager[None]:
        """Wait for this process's turn to write, where processes share a file."""
        ...

    def migrate(self) -> list[str]:
        """Bring the schema up to date under a lock; returns the names that were applied."""
        ...

    def close(self) -> None:
        """Close what the store keeps open; its writer is closed before."""
        ...
