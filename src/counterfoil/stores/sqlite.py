"""SQLite behind the store seam: one file, WAL, synced commits, processes in a queue.

SQLite's own lock is unfair between processes, so writers queue on a lock file beside the
database. Readers never queue.
"""

import fcntl
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import apsw

from counterfoil.core.errors import StoreError, StoreUnavailable
from counterfoil.ledger import schema
from counterfoil.ports.store import NO_PARAMS, Params, Row

_BUSY_MILLISECONDS = 10_000
_ONLY_HERE = re.compile(r"/\*sqlite (.*?)\*/", re.DOTALL)
_REFUSALS: tuple[type[apsw.Error], ...] = (
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ProtocolError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
    apsw.InterruptError,
    apsw.NoMemError,
    apsw.CorruptError,
    apsw.NotADBError,
)


@cache
def _own(sql: str) -> str:
    """The statement with the parts that are for this engine only."""
    return _ONLY_HERE.sub(r"\1", sql)


class SqliteConnection:
    """One connection; used by one thread at a time."""

    def __init__(self, path: Path, *, read_only: bool = False, synchronous: str = "FULL") -> None:
        with _translated(path):
            self._path = path
            self._connection = apsw.Connection(str(path))
            self._connection.set_busy_timeout(_BUSY_MILLISECONDS)
            for pragma in ("journal_mode=WAL", f"synchronous={synchronous}", "fullfsync=1"):
                self._connection.execute(f"PRAGMA {pragma}")
            if read_only:
                self._connection.execute("PRAGMA query_only=1")
            self._execute = self._connection.execute

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def begin(self) -> None:
        self.run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.run("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self.run("ROLLBACK")

    def savepoint(self) -> None:
        self.run("SAVEPOINT unit")

    def release(self) -> None:
        self.run("RELEASE unit")

    def rollback_to_savepoint(self) -> None:
        self.run("ROLLBACK TO unit; RELEASE unit")

    def run(self, sql: str, params: Params = NO_PARAMS) -> None:
        try:
            self._execute(_own(sql), params or None)
        except apsw.Error as error:
            raise _translate(error, self._path) from error

    def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        try:
            rows = self._execute(_own(sql), params or None).fetchall()
        except apsw.Error as error:
            raise _translate(error, self._path) from error
        return rows[0] if rows else None

    def all(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        try:
            return self._execute(_own(sql), params or None).fetchall()
        except apsw.Error as error:
            raise _translate(error, self._path) from error

    def close(self) -> None:
        self._connection.close()


class SqliteStore:
    """A ledger in one file. ``synchronous`` is SQLite's own word (FULL survives power loss)."""

    engine = "sqlite"

    def __init__(self, path: Path, *, synchronous: str = "FULL") -> None:
        self.path = path
        self._synchronous = synchronous
        self._readers: list[SqliteConnection] = []
        self._closed = False
        self._guard = threading.Lock()
        self._queue = _Queue(path)

    def connect(self) -> SqliteConnection:
        return SqliteConnection(self.path, synchronous=self._synchronous)

    @contextmanager
    def snapshot(self) -> Iterator[SqliteConnection]:
        """A reader that sees one state; it is kept for the next reader afterwards."""
        with self._guard:
            reader = self._readers.pop() if self._readers else None
        if reader is None:
            reader = SqliteConnection(self.path, read_only=True)
        try:
            reader.run("BEGIN")
            reader.one("SELECT 1 FROM meta LIMIT 1")
            yield reader
            reader.rollback()
        except BaseException:
            reader.close()
            raise
        with self._guard:
            if not self._closed:
                self._readers.append(reader)
                return
        reader.close()

    def queue(self) -> "_Queue":
        return self._queue

    def migrate(self) -> list[str]:
        with self.queue():
            self._make_file()
            connection = self.connect()
            try:
                return schema.migrate(connection)
            finally:
                connection.close()

    def close(self) -> None:
        """Close the kept readers and the queue's file."""
        with self._guard:
            self._closed = True
            while self._readers:
                self._readers.pop().close()
        self._queue.close()

    def _make_file(self) -> None:
        """Make a new database its owner's alone; SQLite gives its mode to the files beside it.

        A file that is there is never opened here: closing it would drop SQLite's own locks.
        """
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return
        except OSError as error:
            raise _folder_refused(self.path, error) from error


class _Queue:
    """Whose turn it is to write: between processes by a locked file, between threads by a lock.

    Threads of one process share the file's descriptor, and with it the file's lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._turn = threading.RLock()

    def __enter__(self) -> None:
        try:
            self._turn.acquire()
            if self._file is None:
                self._file = self._open()
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except BaseException as error:
            with suppress(RuntimeError):  # an interrupt may come before the turn is ours
                self._turn.release()
            if isinstance(error, OSError):
                raise _folder_refused(self._path, error) from error
            raise

    def __exit__(self, *_error: object) -> None:
        try:
            assert self._file is not None
            fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._turn.release()

    def close(self) -> None:
        with self._turn:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _folder_refused(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"the ledger's folder {path.parent} cannot be used: {error.strerror}",
        hint="make it writable or name another ledger",
    )


def _translate(error: apsw.Error, path: Path) -> StoreError:
    if isinstance(error, apsw.FullError):
        return StoreUnavailable(
            f"the disk of {path} is full", hint="free some space: the work goes on by itself"
        )
    if isinstance(error, _REFUSALS):
        return StoreUnavailable(f"{path}: {error}", hint="see that the file and disk are usable")
    return StoreError(f"{path}: {error}")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise _translate(error, path) from error
