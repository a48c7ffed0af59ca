"""A store that fails on schedule: what engines, disks and networks do, at a call that is named.

``FaultyStore`` wraps any store and is one itself. Its faults are real where they can be: a
transaction that the engine ends is rolled back, a full disk is SQLite's own refusal, a lost
reply leaves a dead connection. Readers (``snapshot``) and migrations see no faults.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum

from counterfoil.core.errors import StoreUnavailable
from counterfoil.ports.store import NO_PARAMS, CommitReplyLost, Connection, Params, Row, Store

OnCommit = Callable[[int, str], None]
"""Called with the number of the commit, from 1, and ``before`` or ``after``."""

_MOST_PAGES = 2**32 - 2


class FaultKind(StrEnum):
    """What goes wrong."""

    ENGINE_ENDS_TRANSACTION = "engine_ends_transaction"
    STATEMENT_REFUSED = "statement_refused"
    CONNECTION_DIES = "connection_dies"
    BEGIN_REFUSED = "begin_refused"
    COMMIT_FAILS = "commit_fails"
    COMMITTED_REPLY_LOST = "committed_reply_lost"
    NOT_COMMITTED_REPLY_LOST = "not_committed_reply_lost"
    CONNECT_REFUSED = "connect_refused"


class _Call(StrEnum):
    CONNECT = "connect"
    BEGIN = "begin"
    STATEMENT = "statement"
    COMMIT = "commit"


_STRUCK: dict[FaultKind, _Call] = {
    FaultKind.ENGINE_ENDS_TRANSACTION: _Call.STATEMENT,
    FaultKind.STATEMENT_REFUSED: _Call.STATEMENT,
    FaultKind.CONNECTION_DIES: _Call.STATEMENT,
    FaultKind.BEGIN_REFUSED: _Call.BEGIN,
    FaultKind.COMMIT_FAILS: _Call.COMMIT,
    FaultKind.COMMITTED_REPLY_LOST: _Call.COMMIT,
    FaultKind.NOT_COMMITTED_REPLY_LOST: _Call.COMMIT,
    FaultKind.CONNECT_REFUSED: _Call.CONNECT,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: it strikes ``times`` calls of its kind after ``after`` of them went well.

    Statements, savepoints included, and commits are counted from when the fault is armed.
    """

    kind: FaultKind
    after: int = 0
    times: int = 1


@dataclass(slots=True)
class _Armed:
    fault: Fault
    passed: int = 0
    struck: int = 0

    def strikes(self) -> bool:
        """True when it is this call's turn."""
        if self.passed < self.fault.after:
            self.passed += 1
            return False
        self.struck += 1
        return True

    @property
    def spent(self) -> bool:
        return self.struck >= self.fault.times


class FaultyStore:
    """A store whose writing connections fail as armed, and that counts what became durable.

    ``on_commit`` may end the process: the crash tests kill it before and after each commit.
    """

    def __init__(
        self, inner: Store, faults: Iterable[Fault] = (), *, on_commit: OnCommit | None = None
    ) -> None:
        self.engine = inner.engine
        self.inner = inner
        self.commits = 0
        self.on_commit = on_commit
        self.struck: list[FaultKind] = []
        self.disk_full = False
        self._armed: list[_Armed] = [_Armed(fault) for fault in faults]
        self._guard = threading.Lock()

    def arm(self, kind: FaultKind, *, after: int = 0, times: int = 1) -> None:
        """Add a fault that counts from now on."""
        with self._guard:
            self._armed.append(_Armed(Fault(kind, after, times)))

    def disarm(self) -> None:
        """Drop the faults that have not struck, and free the disk."""
        with self._guard:
            self._armed.clear()
        self.disk_full = False

    def fill_disk(self) -> None:
        """From the next transaction on the file cannot grow (SQLite only)."""
        if self.engine != "sqlite":
            raise ValueError(f"the disk of {self.engine} cannot be filled from here")
        self.disk_full = True

    def free_disk(self) -> None:
        self.disk_full = False

    def connect(self) -> Connection:
        if self.strike(_Call.CONNECT):
            raise StoreUnavailable("the store refuses connections")
        return FaultyConnection(self, self.inner.connect())

    def snapshot(self) -> AbstractContextManager[Connection]:
        return self.inner.snapshot()

    def queue(self) -> AbstractContextManager[None]:
        return self.inner.queue()

    def migrate(self) -> list[str]:
        return self.inner.migrate()

    def close(self) -> None:
        self.inner.close()

    def strike(self, call: _Call) -> FaultKind | None:
        """The fault that strikes this call; several that are due strike one call each."""
        with self._guard:
            for armed in self._armed:
                kind = armed.fault.kind
                if _STRUCK[kind] is call and armed.strikes():
                    if armed.spent:
                        self._armed.remove(armed)
                    self.struck.append(kind)
                    return kind
        return None

    def count(self) -> int:
        with self._guard:
            self.commits += 1
            return self.commits


class FaultyConnection:
    """One connection of a ``FaultyStore``."""

    def __init__(self, store: FaultyStore, inner: Connection) -> None:
        self._store = store
        self._inner = inner
        self._dead = False
        self._limited = False

    @property
    def in_transaction(self) -> bool:
        return not self._dead and self._inner.in_transaction

    def begin(self) -> None:
        self._alive()
        self._size_disk()
        if self._store.strike(_Call.BEGIN):
            raise StoreUnavailable("the store takes no transaction now")
        self._inner.begin()

    def commit(self) -> None:
        self._alive()
        number = self._store.count()
        self._tell(number, "before")
        kind = self._store.strike(_Call.COMMIT)
        if kind in (FaultKind.COMMIT_FAILS, FaultKind.NOT_COMMITTED_REPLY_LOST):
            self._inner.rollback()
        else:
            self._inner.commit()
            self._tell(number, "after")
        if kind is FaultKind.COMMIT_FAILS:
            raise StoreUnavailable("the commit failed and was rolled back")
        if kind is not None:
            self._die()
            raise CommitReplyLost("the reply to a commit was lost")

    def rollback(self) -> None:
        self._alive()
        self._inner.rollback()

    def savepoint(self) -> None:
        self._statement()
        self._inner.savepoint()

    def release(self) -> None:
        self._statement()
        self._inner.release()

    def rollback_to_savepoint(self) -> None:
        self._statement()
        self._inner.rollback_to_savepoint()

    def run(self, sql: str, params: Params = NO_PARAMS) -> None:
        self._statement()
        self._inner.run(sql, params)

    def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        self._statement()
        return self._inner.one(sql, params)

    def all(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        self._statement()
        return self._inner.all(sql, params)

    def close(self) -> None:
        self._inner.close()

    def _statement(self) -> None:
        self._alive()
        kind = self._store.strike(_Call.STATEMENT)
        if kind is FaultKind.ENGINE_ENDS_TRANSACTION:
            self._inner.rollback()
            raise StoreUnavailable("the engine ended the transaction")
        if kind is FaultKind.STATEMENT_REFUSED:
            raise StoreUnavailable("the engine refused a statement")
        if kind is FaultKind.CONNECTION_DIES:
            self._die()
            raise StoreUnavailable("the connection died")

    def _alive(self) -> None:
        if self._dead:
            raise StoreUnavailable("the connection is dead")

    def _die(self) -> None:
        self._inner.rollback()
        self._inner.close()
        self._dead = True

    def _tell(self, number: int, when: str) -> None:
        if self._store.on_commit is not None:
            self._store.on_commit(number, when)

    def _size_disk(self) -> None:
        """The limit is a connection's own in SQLite, so it is set here, between transactions."""
        if self._store.disk_full == self._limited:
            return
        self._limited = self._store.disk_full
        row = self._inner.one("PRAGMA page_count")
        assert row is not None
        pages = row[0] if self._limited else _MOST_PAGES
        self._inner.one(f"PRAGMA max_page_count={pages}")
