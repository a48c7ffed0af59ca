"""The faulty store strikes the call that was named, really, once, and counts what is durable."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.core.errors import StoreUnavailable
from counterfoil.ports.store import CommitReplyLost
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.faults import Fault, FaultKind, FaultyStore

PUT = "INSERT INTO meta (key, value) VALUES (:key, '')"
KEYS = "SELECT key FROM meta WHERE key LIKE 'k%' ORDER BY key"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FaultyStore]:
    opened = FaultyStore(SqliteStore(tmp_path / "ledger.db", synchronous="OFF"))
    opened.migrate()
    yield opened
    opened.close()


def put(connection: Any, key: str) -> None:
    connection.run(PUT, {"key": key})


def keys(store: FaultyStore) -> list[str]:
    with store.snapshot() as connection:
        return [row[0] for row in connection.all(KEYS)]


def write(store: FaultyStore, key: str) -> None:
    connection = store.connect()
    try:
        connection.begin()
        put(connection, key)
        connection.commit()
    finally:
        connection.close()


def test_without_a_fault_it_is_the_store_it_wraps(store: FaultyStore) -> None:
    write(store, "k1")
    assert (keys(store), store.commits, store.struck) == (["k1"], 1, [])
    assert store.engine == "sqlite"


def test_a_fault_strikes_after_so_many_calls_and_so_many_times(store: FaultyStore) -> None:
    store.arm(FaultKind.STATEMENT_REFUSED, after=1, times=2)
    connection = store.connect()
    connection.begin()
    put(connection, "k1")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="refused a statement"):
            put(connection, "k2")
    assert connection.in_transaction
    put(connection, "k3")
    connection.commit()
    connection.close()
    assert keys(store) == ["k1", "k3"]
    assert store.struck == [FaultKind.STATEMENT_REFUSED] * 2


@pytest.mark.parametrize("kind", [FaultKind.ENGINE_ENDS_TRANSACTION, FaultKind.CONNECTION_DIES])
def test_a_transaction_that_is_ended_is_really_gone(store: FaultyStore, kind: FaultKind) -> None:
    store.arm(kind, after=1)
    connection = store.connect()
    connection.begin()
    put(connection, "k1")
    with pytest.raises(StoreUnavailable):
        put(connection, "k2")
    assert not connection.in_transaction
    assert keys(store) == []
    if kind is FaultKind.ENGINE_ENDS_TRANSACTION:
        connection.rollback()
        connection.begin()
        connection.rollback()
    else:
        for call in (connection.begin, connection.rollback, connection.commit):
            with pytest.raises(StoreUnavailable, match="dead"):
                call()
    connection.close()


@pytest.mark.parametrize(
    ("kind", "error", "there"),
    [
        (FaultKind.COMMIT_FAILS, StoreUnavailable, []),
        (FaultKind.NOT_COMMITTED_REPLY_LOST, CommitReplyLost, []),
        (FaultKind.COMMITTED_REPLY_LOST, CommitReplyLost, ["k1"]),
    ],
)
def test_a_commit_fails_or_its_reply_is_lost_either_way(
    store: FaultyStore, kind: FaultKind, error: type[Exception], there: list[str]
) -> None:
    store.arm(kind)
    with pytest.raises(error):
        write(store, "k1")
    assert keys(store) == there
    write(store, "k2")
    assert keys(store) == [*there, "k2"]


def test_beginning_and_connecting_are_refused(store: FaultyStore) -> None:
    store.arm(FaultKind.CONNECT_REFUSED, times=2)
    store.arm(FaultKind.BEGIN_REFUSED)
    for words in ("refuses connections", "refuses connections", "takes no transaction"):
        with pytest.raises(StoreUnavailable, match=words):
            write(store, "k1")
    write(store, "k1")


def test_faults_may_be_given_at_once_and_dropped(tmp_path: Path) -> None:
    inner = SqliteStore(tmp_path / "ledger.db", synchronous="OFF")
    store = FaultyStore(inner, [Fault(FaultKind.BEGIN_REFUSED, times=100)])
    store.migrate()
    with pytest.raises(StoreUnavailable):
        write(store, "k1")
    store.disarm()
    write(store, "k1")
    store.close()


def test_the_disk_is_really_full_until_it_is_freed(store: FaultyStore) -> None:
    connection = store.connect()
    store.fill_disk()
    connection.begin()
    with pytest.raises(StoreUnavailable, match=r"the disk of .* is full"):
        put(connection, "k" * 100_000)
    connection.rollback()
    store.free_disk()
    connection.begin()
    put(connection, "k" * 100_000)
    connection.commit()
    connection.close()
    assert len(keys(store)) == 1


def test_each_commit_is_told_before_and_after_it_is_durable(store: FaultyStore) -> None:
    seen: list[tuple[int, str, int]] = []
    store.on_commit = lambda number, when: seen.append((number, when, len(keys(store))))
    write(store, "k1")
    store.arm(FaultKind.COMMIT_FAILS)
    with pytest.raises(StoreUnavailable):
        write(store, "k2")
    assert seen == [(1, "before", 0), (1, "after", 1), (2, "before", 1)]


KILLED = """
import os, signal, sys
from pathlib import Path
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.faults import FaultyStore

def strike(number, when):
    if (number, when) == (2, sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

store = FaultyStore(SqliteStore(Path(sys.argv[1])), on_commit=strike)
store.migrate()
connection = store.connect()
for key in ("k1", "k2", "k3"):
    connection.begin()
    connection.run("INSERT INTO meta (key, value) VALUES (:key, '')", {"key": key})
    connection.commit()
"""


@pytest.mark.parametrize(("when", "there"), [("before", ["k1"]), ("after", ["k1", "k2"])])
def test_a_process_is_killed_right_before_or_after_a_commit(
    tmp_path: Path, when: str, there: list[str]
) -> None:
    path = tmp_path / "ledger.db"
    ended = subprocess.run([sys.executable, "-c", KILLED, path, when], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    store = FaultyStore(SqliteStore(path))
    assert keys(store) == there
    store.close()
