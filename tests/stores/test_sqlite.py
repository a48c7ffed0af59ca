"""SQLite as a store: processes take turns, readers see one state, and refusals have names."""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.core.errors import StoreError, StoreUnavailable
from counterfoil.ledger import journal
from counterfoil.ledger.values import Scope
from counterfoil.stores import sqlite
from counterfoil.stores.sqlite import SqliteStore

PUT = "INSERT INTO meta (key, value) VALUES (:key, :value)"
COUNT = "SELECT count(*) FROM meta WHERE key LIKE 'k%'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, synchronous="OFF")
    opened.migrate()
    yield opened
    opened.close()


def put(connection: Any, key: str, value: str = "v") -> None:
    connection.run(PUT, {"key": key, "value": value})


def count(store: SqliteStore) -> int:
    with store.snapshot() as connection:
        return int(connection.one(COUNT)[0])


# Transactions and savepoints


def test_a_transaction_is_all_or_nothing(store: SqliteStore) -> None:
    connection = store.connect()
    assert not connection.in_transaction
    connection.begin()
    assert connection.in_transaction
    put(connection, "k1")
    connection.rollback()
    assert (connection.in_transaction, count(store)) == (False, 0)
    connection.begin()
    put(connection, "k1")
    connection.commit()
    assert (connection.in_transaction, count(store)) == (False, 1)
    connection.rollback()
    connection.close()


def test_a_savepoint_is_undone_alone(store: SqliteStore) -> None:
    connection = store.connect()
    connection.begin()
    for number, keep in enumerate((True, False, True)):
        connection.savepoint()
        put(connection, f"k{number}")
        if keep:
            connection.release()
        else:
            connection.rollback_to_savepoint()
    assert connection.in_transaction
    connection.commit()
    found = [row[0] for row in connection.all("SELECT key FROM meta WHERE key LIKE 'k%'")]
    connection.close()
    assert found == ["k0", "k2"]


def test_one_is_the_first_row_or_none(store: SqliteStore) -> None:
    with store.snapshot() as connection:
        assert connection.one("SELECT 1 WHERE 1 = :n", {"n": 2}) is None
        assert connection.one("SELECT 1 UNION SELECT 2 ORDER BY 1") == (1,)


def test_what_is_for_this_engine_only_is_run(store: SqliteStore) -> None:
    with store.snapshot() as connection:
        assert connection.one("SELECT 1 /*sqlite + 1 */") == (2,)
        assert connection.one("SELECT 1 /* sqlite + 1 */") == (1,)


def test_commits_are_synced_to_the_disk_by_default(path: Path) -> None:
    store = SqliteStore(path)
    store.migrate()
    connection = store.connect()
    asked = [
        connection.one(f"PRAGMA {name}")[0] for name in ("journal_mode", "synchronous", "fullfsync")
    ]
    connection.close()
    store.close()
    assert asked == ["wal", 2, 1]


# Readers


def test_a_snapshot_is_stable_while_others_write(store: SqliteStore) -> None:
    writer = store.connect()
    put(writer, "k1")
    with store.snapshot() as before:
        put(writer, "k2")
        assert before.one(COUNT) == (1,)
        put(writer, "k3")
        assert before.one(COUNT) == (1,)
        with store.snapshot() as now:
            assert now.one(COUNT) == (3,)
    assert count(store) == 3
    writer.close()


def test_a_snapshot_is_stable_from_its_beginning_and_not_from_its_first_question(
    store: SqliteStore,
) -> None:
    writer = store.connect()
    with store.snapshot() as connection:
        put(writer, "k1")
        assert connection.one(COUNT) == (0,)
    writer.close()


def test_readers_and_a_writer_do_not_wait_for_one_another(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no patience at all: whoever had to wait would be refused."""
    monkeypatch.setattr(sqlite, "_BUSY_MILLISECONDS", 0)
    writer = store.connect()
    with store.snapshot() as reader:
        writer.begin()
        put(writer, "k1")
        assert reader.one(COUNT) == (0,)
        assert count(store) == 0
        writer.commit()
        assert reader.one(COUNT) == (0,)
    assert count(store) == 1
    writer.close()


def test_a_reader_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(StoreError), store.snapshot() as connection:
        put(connection, "k1")
    assert count(store) == 0


def test_a_reader_is_kept_for_the_next_and_dropped_after_a_failure(store: SqliteStore) -> None:
    with store.snapshot() as first:
        pass
    with store.snapshot() as second:
        assert second is first
        with store.snapshot() as third:
            assert third is not first
    with pytest.raises(ZeroDivisionError), store.snapshot():
        raise ZeroDivisionError
    with store.snapshot() as after:
        assert after in (first, third)
    assert len(store._readers) == 1


def test_a_reader_that_outlives_its_store_is_closed(path: Path) -> None:
    store = SqliteStore(path)
    store.migrate()
    with store.snapshot():
        store.close()
    assert store._readers == []


# Processes


@pytest.mark.slow
def test_two_processes_on_one_file_both_progress(
    store: SqliteStore, start_writer: Callable[..., Any]
) -> None:
    processes = [start_writer(name, 200, 1) for name in ("one", "two")]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=120)
    assert [process.returncode for process in processes] == [0, 0]
    with store.snapshot() as connection:
        for name in ("one", "two"):
            entries = list(journal.entries(connection, Scope(), name))
            assert [entry.seq for entry in entries] == list(range(1, 201))


@pytest.mark.slow
def test_a_process_with_a_long_queue_does_not_starve_one_with_a_short_one(
    store: SqliteStore, start_writer: Callable[..., Any]
) -> None:
    busy, modest = start_writer("busy", 20_000, 1_000), start_writer("modest", 10, 1)
    for process in (busy, modest):
        process.stdin.write("go\n")
        process.stdin.flush()
    modest.communicate(timeout=120)
    with store.snapshot() as connection:
        heads = {head.stream: head.seq for head in journal.streams(connection, Scope())}
    assert modest.returncode == 0
    assert heads["modest"] == 10
    assert heads.get("busy", 0) < 20_000, "the modest one was served only when all was done"


def test_the_queue_is_held_against_others_and_given_back(store: SqliteStore, path: Path) -> None:
    other = os.open(f"{path}.lock", os.O_RDWR)
    with store.queue(), pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def test_the_queue_is_given_back_after_a_failure(store: SqliteStore, path: Path) -> None:
    with pytest.raises(ZeroDivisionError), store.queue():
        raise ZeroDivisionError
    other = os.open(f"{path}.lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def test_threads_of_one_process_take_turns_too(store: SqliteStore) -> None:
    inside: list[int] = []
    most: list[int] = []

    def turn() -> None:
        for _ in range(50):
            with store.queue():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=turn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(most), max(most)) == (200, 1)


def test_threads_that_migrate_one_store_at_once_apply_once(path: Path) -> None:
    store = SqliteStore(path, synchronous="OFF")
    start, applied = threading.Barrier(4), []

    def migrate() -> None:
        start.wait(30)
        applied.append(store.migrate())

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    store.close()
    assert sorted(len(names) for names in applied)[:3] == [0, 0, 0]
    assert len(applied) == 4


# Refusals


def test_a_full_disk_says_so_and_space_heals_it(store: SqliteStore) -> None:
    connection = store.connect()
    pages = connection.one("PRAGMA page_count")[0]
    connection.one(f"PRAGMA max_page_count={pages}")
    connection.begin()
    with pytest.raises(StoreUnavailable, match=r"the disk of .*ledger\.db is full") as full:
        put(connection, "k1", "x" * 100_000)
    assert "free some space" in full.value.hint
    assert isinstance(full.value.__cause__, Exception)
    connection.rollback()
    assert count(store) == 0
    connection.one(f"PRAGMA max_page_count={pages + 1_000}")
    put(connection, "k1", "x" * 50_000)
    connection.close()
    assert count(store) == 1


def test_a_folder_that_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = SqliteStore(tmp_path / "file" / "ledger.db")
    with pytest.raises(StoreUnavailable, match=r"folder .*file cannot be used") as refused:
        store.migrate()
    assert "make it writable" in refused.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.raises(StoreUnavailable, match="closed cannot be used: Permission denied"):
        SqliteStore(folder / "ledger.db").migrate()


def test_a_folder_in_place_of_the_file_is_refused_by_name(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreUnavailable, match=r"ledger\.db"):
        SqliteStore(path).migrate()


@pytest.mark.parametrize(
    "content", [b"I am a letter to my grandmother\n" * 40, b"\0" * 4096], ids=["letter", "zeros"]
)
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable, match=r"ledger\.db"):
        store.migrate()
    store.close()
    assert path.read_bytes() == content


def test_somebody_who_holds_the_database_for_too_long_is_a_refusal(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = store.connect()
    holder.begin()
    monkeypatch.setattr(sqlite, "_BUSY_MILLISECONDS", 1)
    waiter = store.connect()
    with pytest.raises(StoreUnavailable):
        waiter.begin()
    assert not waiter.in_transaction
    holder.rollback()
    waiter.begin()
    waiter.rollback()
    for connection in (holder, waiter):
        connection.close()


def test_a_statement_that_is_wrong_is_an_error_and_no_reason_to_wait(store: SqliteStore) -> None:
    connection = store.connect()
    put(connection, "k1")
    for sql in ("SELECT * FROM nowhere", PUT):
        with pytest.raises(StoreError) as wrong:
            connection.all(sql, {"key": "k1", "value": "v"})
        assert not isinstance(wrong.value, StoreUnavailable)
    connection.close()


def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "deep" / "ledger.db")
    store.migrate()
    connection = store.connect()
    put(connection, "k1")
    found = [tmp_path / "deep", *(tmp_path / "deep").iterdir()]
    assert len(found) == 5
    assert [one.name for one in found if one.stat().st_mode & 0o077] == []
    connection.close()
    store.close()
