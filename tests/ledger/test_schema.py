"""The schema: fresh equals migrated, changes and newer versions are refused, many may boot."""

import hashlib
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from counterfoil.core.errors import MigrationRefused, StoreError
from counterfoil.ledger import schema
from counterfoil.ledger.schema import Migration
from counterfoil.ledger.values import ROWS
from counterfoil.ports.store import Store
from counterfoil.stores.sqlite import SqliteStore

SECOND = "CREATE TABLE second (id TEXT PRIMARY KEY);\nALTER TABLE runs ADD COLUMN later TEXT;"


def migration(name: str, sql: str) -> Migration:
    return Migration(name, sql, hashlib.sha256(sql.encode()).hexdigest())


@pytest.fixture
def store(open_store: Any, tmp_path: Path) -> Any:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


def described(store: Store) -> list[Any]:
    """The whole schema as the engine has it."""
    with store.snapshot() as connection:
        return [
            *connection.all("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")
        ]


def applied(store: Store) -> dict[str, str]:
    with store.snapshot() as connection:
        return dict(connection.all("SELECT key, value FROM meta ORDER BY key"))


def test_migrating_twice_applies_once(store: Store) -> None:
    names = [one.name for one in schema.migrations()]
    assert names == sorted(names) != []
    assert store.migrate() == names
    assert store.migrate() == []
    assert applied(store) == {f"migration/{one.name}": one.sha256 for one in schema.migrations()}


@pytest.mark.usefixtures("sqlite_only")
def test_a_fresh_database_equals_a_migrated_one(
    store: Store, open_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each release in turn, and all at once, give the same schema."""
    both = (*schema.migrations(), migration("9999_second", SECOND))
    for count in range(1, len(both) + 1):
        monkeypatch.setattr(schema, "migrations", lambda count=count: both[:count])
        assert store.migrate() == [both[count - 1].name]
    (tmp_path / "fresh").mkdir()
    fresh = open_store(tmp_path / "fresh")
    assert fresh.migrate() == [one.name for one in both]
    assert described(fresh) == described(store)
    assert applied(fresh) == applied(store)
    fresh.close()


@pytest.mark.usefixtures("sqlite_only")
def test_a_migration_that_fails_leaves_the_version_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.migrate()
    before = described(store)
    broken = migration(
        "9999_broken", "CREATE TABLE second (id TEXT);\nCREATE TABLE runs (id TEXT);"
    )
    both = (*schema.migrations(), broken)
    monkeypatch.setattr(schema, "migrations", lambda: both)
    with pytest.raises(StoreError, match="already exists"):
        store.migrate()
    assert described(store) == before
    assert "migration/9999_broken" not in applied(store)


def test_a_migration_that_was_changed_afterwards_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.migrate()
    first = schema.migrations()[0]
    changed = migration(first.name, first.sql + "\n-- edited")
    monkeypatch.setattr(schema, "migrations", lambda: (changed, *schema.migrations.__wrapped__()))
    monkeypatch.setattr(schema, "migrations", lambda: (changed,))
    with pytest.raises(MigrationRefused, match=f"{first.name} was changed"):
        store.migrate()


def test_a_database_of_a_newer_version_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = (*schema.migrations(), migration("9999_second", SECOND))
    with monkeypatch.context() as newer:
        newer.setattr(schema, "migrations", lambda: both)
        store.migrate()
    with pytest.raises(MigrationRefused, match="9999_second, which this version does not know"):
        store.migrate()


@pytest.mark.usefixtures("sqlite_only")
@pytest.mark.parametrize("table", ROWS)
def test_a_row_is_its_tables_columns_in_their_order(store: Store, table: str) -> None:
    store.migrate()
    with store.snapshot() as connection:
        columns = connection.all(f"PRAGMA table_info({table})")
    kinds = {"TEXT": "str", "BIGINT": "int"}
    found = [
        (name, kinds[kind] + ("" if needed or primary else " | None"))
        for _, name, kind, needed, _default, primary in columns
    ]
    declared = [(field.name, _spelled(field.type)) for field in fields(ROWS[table])]
    assert declared == found


def _spelled(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


BOOT = """
import sys
from pathlib import Path
from counterfoil.core.clock import SystemClock
from counterfoil.core.ids import SystemIds
from counterfoil.core.redaction import Redactor
from counterfoil.ledger import hashing
from counterfoil.ledger.writer import GroupWriter
from counterfoil.stores.sqlite import SqliteStore

print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore(Path(sys.argv[1]))
applied = store.migrate()
writer = GroupWriter(store, clock=SystemClock(), ids=SystemIds(), redactor=Redactor())
key = writer.submit(hashing.load_key).wait()
writer.close()
store.close()
print(len(applied), key.secret.hex())
"""


@pytest.mark.slow
def test_eight_processes_open_one_empty_database_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ledger.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", BOOT, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 8
    assert sorted(int(count) for count, _key in said) == [0] * 7 + [len(schema.migrations())]
    assert len({key for _count, key in said}) == 1
    store = SqliteStore(path)
    assert applied(store)
    store.close()
