"""Whatever is changed behind the ledger's back is found, and the row or entry is named."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.adapters.blobs import LocalBlobs
from counterfoil.core.errors import ValueRefused
from counterfoil.ledger import artifacts, attempts, gates, journal, runs, steps, tasks, verify
from counterfoil.ledger.attempts import End
from counterfoil.ledger.gates import Judged
from counterfoil.ledger.states import (
    MACHINES,
    AttemptOutcome,
    ExecutionStatus,
    FailClass,
    TaskStatus,
)
from counterfoil.ledger.steps import StepEnd
from counterfoil.ledger.values import ROWS, EntryRow, Scope
from counterfoil.ports.store import Store

LARGE = "x" * 20_000
STATE_COLUMNS = [
    (machine.table, column)
    for machine in MACHINES.values()
    for column in (*machine.key, *machine.state)
]


def fill(bench: Any) -> str:
    """A run with at least one row in every table, and a large input, result and step."""
    scope, ledger = bench.scope, bench.ledger
    prepared = ledger.prepare(LARGE)
    stored = ledger.keep_exact(prepared)
    row, driver = bench.run(value=LARGE, input_artifact_id="art_input", run_key="k")
    bench.do(
        lambda unit: artifacts.record(unit, scope, row.id, stored, fence=1, artifact_id="art_input")
    )
    bench.do(
        lambda unit: runs.move(unit, scope, driver, row.status, ExecutionStatus.RUNNING, cause="c")
    )
    for key, value in (("large", LARGE), ("small", 1)):
        result = ledger.prepare(value)
        end = StepEnd(key, "step", result, 0, overflow=ledger.keep_exact(result))
        bench.do(lambda unit, end=end: steps.record(unit, scope, driver, end, known=False))
    bench.add_tasks(driver, "a", "b")
    bench.do(
        lambda unit: tasks.move(
            unit, scope, driver, "a", TaskStatus.WAITING, TaskStatus.READY, candidate="c"
        )
    )
    attempt = bench.attempt(driver)
    how = End(
        AttemptOutcome.FAILED,
        "failed:task",
        error_class="task",
        candidate="c" * 40,
        tree="t" * 40,
        duration_ms=3,
    )
    ended = bench.do(lambda unit: attempts.end(unit, scope, driver, attempt, how))
    judged = Judged("t" * 40, "tests", "e", ("true",), ".", 1, 5, fail_class=FailClass.TEST)
    bench.do(lambda unit: gates.record(unit, scope, driver, ended, judged))
    return row.id


@pytest.fixture
def bench(open_bench: Callable[[], Any]) -> Any:
    workbench = open_bench()
    workbench.run_id = fill(workbench)
    return workbench


def tamper(store: Store, *statements: str, **params: Any) -> None:
    """Change the database as somebody would who holds its file."""
    connection = store.connect()
    for statement in statements:
        connection.run(statement, params)
    connection.close()


def whole_rows(bench: Any, table: str) -> list[Any]:
    return bench.read(lambda connection: [*connection.all(f"SELECT * FROM {table}")])


def test_a_ledger_that_nobody_touched_is_clean_and_every_table_is_in_it(bench: Any) -> None:
    assert bench.faults() == []
    (findings,) = bench.findings()
    assert findings.ok
    assert findings.stream == bench.run_id
    assert findings.entries == len(bench.entries(bench.run_id))
    assert findings.artifacts == 2
    assert findings.completeness == "no head was given: what was cut off the end cannot be seen"
    assert [table for table in MACHINES if not whole_rows(bench, table)] == []


# Rows


@pytest.mark.parametrize(("table", "column"), STATE_COLUMNS)
def test_a_changed_state_column_is_found_and_its_row_is_named(
    bench: Any, table: str, column: str
) -> None:
    machine = MACHINES[table]
    columns = ", ".join((*machine.key, column))
    row = bench.read(lambda connection: connection.one(f"SELECT {columns} FROM {table} LIMIT 1"))
    name = " ".join(map(str, (table, *row[:-1])))
    where = " AND ".join(f"{key} = :{key}" for key in machine.key)
    value = row[-1]
    changed: Any = value + 1 if isinstance(value, int) else f"{value}x"
    if column == "status":
        changed = str(next(one for one in machine.moves if one != value))
    tamper(
        bench.store,
        f"UPDATE {table} SET {column} = :changed WHERE {where}",
        changed=changed,
        **dict(zip(machine.key, row, strict=False)),
    )
    faults = bench.faults()
    assert [fault for fault in faults if name in fault], faults
    if column not in machine.key:
        assert [fault for fault in faults if f"{column} is {changed!r}" in fault], faults


@pytest.mark.parametrize("table", MACHINES)
def test_a_removed_row_is_found_and_named(bench: Any, table: str) -> None:
    key = MACHINES[table].key
    columns = ", ".join(key)
    row = bench.read(lambda connection: connection.one(f"SELECT {columns} FROM {table} LIMIT 1"))
    name = " ".join(map(str, (table, *row)))
    tamper(bench.store, f"DELETE FROM {table} WHERE {key[-1]} = :key", key=row[-1])
    assert f"{name} is in the journal but not in its table" in bench.faults()


@pytest.mark.parametrize("table", MACHINES)
@pytest.mark.parametrize("run_id", [None, "run_ghost"], ids=["in the run", "in no run"])
def test_an_inserted_row_is_found_and_named(bench: Any, table: str, run_id: str | None) -> None:
    machine = MACHINES[table]
    row = whole_rows(bench, table)[0]
    values = dict(zip(ROWS[table].__dataclass_fields__, row, strict=True))
    values[machine.key[-1]] = "forged"
    if "run_id" in values:
        values["run_id"] = run_id or values["run_id"]
        values |= {"ordinal": 9} if table == "attempts" else {}
    if table == "runs":
        values["run_key"] = None
    columns = ", ".join(values)
    slots = ", ".join(f":{name}" for name in values)
    tamper(bench.store, f"INSERT INTO {table} ({columns}) VALUES ({slots})", **values)
    faults = bench.faults()
    assert [fault for fault in faults if "forged is not told of in the journal" in fault], faults


@pytest.mark.parametrize(
    ("table", "column", "where"),
    [("run_steps", "result_json", "step_key = 'small'")],
)
@pytest.mark.parametrize("value", ["'2'", "NULL"])
def test_a_changed_or_removed_result_text_is_found(
    bench: Any, table: str, column: str, where: str, value: str
) -> None:
    tamper(bench.store, f"UPDATE {table} SET {column} = {value} WHERE {where}")
    assert bench.faults() == [
        f"run_steps {bench.run_id} small: result_json is not what its hash says"
    ]


@pytest.mark.parametrize("pointer", ["'art_input2'", "NULL"])
def test_a_pointer_that_leads_elsewhere_is_found(bench: Any, pointer: str) -> None:
    tamper(
        bench.store,
        f"UPDATE run_steps SET result_artifact_id = {pointer} WHERE step_key = 'large'",
        f"UPDATE runs SET input_artifact_id = {pointer}",
    )
    faults = bench.faults()
    assert [one for one in faults if f"runs {bench.run_id}: input_artifact_id is" in one], faults
    step = f"run_steps {bench.run_id} large: result_artifact_id is"
    assert [one for one in faults if step in one], faults


def test_a_status_word_that_does_not_exist_is_found_and_not_a_crash(bench: Any) -> None:
    tamper(bench.store, "UPDATE runs SET status = 'won'")
    assert [one for one in bench.faults() if "status is 'won'" in one]


# Entries


@pytest.mark.parametrize("column", [*EntryRow.__dataclass_fields__])
def test_a_changed_column_of_an_entry_is_found(bench: Any, column: str) -> None:
    """Each column of an entry in the middle, whose neighbours stay."""
    entry = bench.entries(bench.run_id)[5]
    value = getattr(entry, column)
    changed: Any = value + 1_000 if isinstance(value, int) else f"{value or ''}x"
    tamper(
        bench.store,
        f"UPDATE journal SET {column} = :changed WHERE stream = :stream AND seq = :seq",
        changed=changed,
        stream=bench.run_id,
        seq=entry.seq,
    )
    faults = bench.faults()
    assert [one for one in faults if bench.run_id in one and str(entry.seq) in one], faults


@pytest.mark.parametrize("column", ["task_id", "attempt_id"])
def test_nothing_and_an_empty_text_are_not_the_same(bench: Any, column: str) -> None:
    tamper(bench.store, f"UPDATE journal SET {column} = '' WHERE seq = 1")
    assert bench.faults() == [f"{bench.run_id}: the chain breaks at entry 1"]


@pytest.mark.parametrize(
    "text", ["", "not json", "7", "[7]", '[["nowhere",{},{}]]', '[["runs",{},{}]]']
)
def test_moves_that_cannot_be_read_are_found_and_not_a_crash(bench: Any, text: str) -> None:
    tamper(bench.store, "UPDATE journal SET moves = :text WHERE seq = 2", text=text)
    faults = bench.faults()
    assert f"{bench.run_id}: the chain breaks at entry 2" in faults
    assert [one for one in faults if "entry 2: its moves cannot be read" in one], faults


def test_a_move_that_the_table_has_not_is_found(bench: Any) -> None:
    """Also where chain, head and row agree with it: the journal itself cannot be so."""
    entry = next(one for one in bench.entries(bench.run_id) if one.kind == "run.status")
    assert '"status":"running"' in entry.moves
    rechain(bench, {entry.seq: {"moves": entry.moves.replace("running", "retrying")}})
    tamper(bench.store, "UPDATE runs SET status = 'retrying'")
    assert bench.faults() == [
        f"entry {entry.seq}: runs {bench.run_id} went from queued to retrying"
    ]


@pytest.mark.parametrize("which", [0, 5, -2], ids=["first", "middle", "last but one"])
def test_a_removed_entry_is_found(bench: Any, which: int) -> None:
    seq = bench.entries(bench.run_id)[which].seq
    tamper(bench.store, "DELETE FROM journal WHERE seq = :seq", seq=seq)
    faults = bench.faults()
    assert f"{bench.run_id}: entry {seq} is missing" in faults
    assert f"{bench.run_id}: the chain breaks at entry {seq + 1}" in faults


def test_a_removed_last_entry_is_found_by_the_head_row(bench: Any) -> None:
    last = bench.entries(bench.run_id)[-1].seq
    tamper(bench.store, "DELETE FROM journal WHERE seq = :seq", seq=last)
    assert [one for one in bench.faults() if f"the head row says {last}-" in one]


def test_an_inserted_entry_is_found(bench: Any) -> None:
    last = bench.entries(bench.run_id)[-1].seq
    tamper(
        bench.store,
        "INSERT INTO journal SELECT tenant_id, workspace_id, stream, :seq, kind, at, task_id, "
        "attempt_id, payload, moves, body_sha256, hash FROM journal WHERE seq = 1",
        seq=last + 1,
    )
    assert f"{bench.run_id}: the chain breaks at entry {last + 1}" in bench.faults()


def test_reordered_entries_are_found(bench: Any) -> None:
    tamper(
        bench.store,
        "UPDATE journal SET seq = -1 WHERE seq = 4",
        "UPDATE journal SET seq = 4 WHERE seq = 5",
        "UPDATE journal SET seq = 5 WHERE seq = -1",
    )
    faults = bench.faults()
    for seq in (4, 5):
        assert f"{bench.run_id}: the chain breaks at entry {seq}" in faults


def test_an_entry_moved_to_another_stream_is_found_in_both(bench: Any) -> None:
    tamper(bench.store, "UPDATE journal SET stream = 'other' WHERE seq = 3")
    faults = bench.faults()
    assert f"{bench.run_id}: entry 3 is missing" in faults
    assert "other: its head row is missing" in faults
    assert "other: the chain breaks at entry 3" in faults


# Heads


@pytest.mark.parametrize("change", ["seq = seq + 1", "seq = seq - 1", "hash = 'x'"])
def test_a_changed_head_row_is_found(bench: Any, change: str) -> None:
    tamper(bench.store, f"UPDATE run_heads SET {change}")
    assert [one for one in bench.faults() if f"{bench.run_id}: the head row says" in one]


def test_a_removed_head_row_is_found(bench: Any) -> None:
    tamper(bench.store, "DELETE FROM run_heads")
    assert bench.faults() == [f"{bench.run_id}: its head row is missing"]


def test_a_run_whose_journal_is_gone_altogether_is_found(bench: Any) -> None:
    tamper(bench.store, "DELETE FROM run_heads", "DELETE FROM journal")
    faults = bench.faults()
    assert f"{bench.run_id}: its head row is missing" in faults
    assert f"runs {bench.run_id} is not told of in the journal" in faults


def cut_off_the_last(bench: Any) -> str:
    """Cut the last entry off with its head, as somebody would who knows the format."""
    bench.submit(bench.tell(bench.run_id, "something to hide"))
    head = str(journal_head(bench))
    before = bench.entries(bench.run_id)[-2]
    tamper(
        bench.store,
        "DELETE FROM journal WHERE seq = :seq",
        "UPDATE run_heads SET seq = :seq - 1, hash = :hash",
        seq=before.seq + 1,
        hash=before.hash,
    )
    return head


def journal_head(bench: Any) -> journal.Cursor:
    (head,) = bench.read(lambda connection: list(journal.streams(connection, bench.scope)))
    return head


def test_a_truncated_chain_is_found_with_a_kept_head_and_only_with_one(bench: Any) -> None:
    head = cut_off_the_last(bench)
    assert bench.faults() == []
    (fault,) = bench.faults({bench.run_id: head})
    assert f"the kept head is {head}, the journal ends at" in fault


def test_a_chain_that_was_written_again_is_found_with_a_kept_head_and_only_with_one(
    bench: Any,
) -> None:
    head = str(journal_head(bench))
    rechain(bench, {3: {"at": 1}})
    assert bench.faults() == []
    (fault,) = bench.faults({bench.run_id: head})
    assert f"the kept head is {head}, the journal has" in fault


def test_a_kept_head_that_still_stands_says_up_to_where_it_is_complete(bench: Any) -> None:
    head = str(journal_head(bench))
    bench.submit(bench.tell(bench.run_id))
    (findings,) = bench.findings({bench.run_id: head})
    assert findings.ok
    assert findings.completeness == f"complete up to the kept head {head}"
    assert findings.head == str(journal_head(bench)) != head


@pytest.mark.parametrize("kept", ["x", "12", "-", "0-00000000", "x-1", "1-", "²-00000000"])
def test_what_is_no_head_is_refused(bench: Any, kept: str) -> None:
    with pytest.raises(ValueRefused, match="is not a head"):
        bench.faults({bench.run_id: kept})


def rechain(bench: Any, changes: dict[int, dict[str, Any]]) -> None:
    """Change entries and write the chain and the head again, as the one who holds all could."""
    previous = journal.genesis(bench.scope, bench.run_id)
    for entry in bench.entries(bench.run_id):
        values = {name: getattr(entry, name) for name in EntryRow.__dataclass_fields__}
        values |= changes.get(entry.seq, {})
        values["body_sha256"] = journal.body_hash(values["payload"])
        header = journal.header_of(EntryRow(**values))
        previous = values["hash"] = header.hash_after(previous)
        tamper(
            bench.store,
            "UPDATE journal SET kind = :kind, at = :at, moves = :moves, payload = :payload, "
            "body_sha256 = :body_sha256, hash = :hash WHERE stream = :stream AND seq = :seq",
            **values,
        )
    tamper(bench.store, "UPDATE run_heads SET hash = :hash", hash=previous)


# Artifacts


@pytest.fixture
def on_disk(bench: Any, tmp_path: Path) -> LocalBlobs:
    """The same artifacts as files."""
    blobs = LocalBlobs(tmp_path / "blobs")
    for data in bench.blobs.stored.values():
        blobs.put(data)
    blobs.put(b"others")
    bench.blobs = blobs
    assert bench.faults() == []
    return blobs


def swap(path: Path, other: Path) -> None:
    shutil.copy(other, path)


def truncate(path: Path, _other: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def remove(path: Path, _other: Path) -> None:
    path.unlink()


def link(path: Path, other: Path) -> None:
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("act", [swap, truncate, remove, link])
def test_an_artifact_whose_file_was_changed_is_found(
    bench: Any, on_disk: LocalBlobs, act: Callable[[Path, Path], None]
) -> None:
    row = bench.read(
        lambda connection: artifacts.get(connection, bench.scope, bench.run_id, "art_input")
    )
    other = on_disk.put(b"others")
    path = on_disk.path(row.sha256)
    path.chmod(0o600)
    act(path, on_disk.path(other))
    faults = bench.faults()
    assert [one for one in faults if one.startswith(f"art_input of {bench.run_id}: ")], faults


def test_an_artifact_in_memory_is_hashed_again_too(bench: Any) -> None:
    sha256 = next(iter(bench.blobs.stored))
    bench.blobs.stored[sha256] = b"others"
    assert [one for one in bench.faults() if sha256 in one]


# Scopes


def test_another_workspace_is_verified_apart(bench: Any) -> None:
    tamper(bench.store, "UPDATE runs SET status = 'failed'")
    with bench.store.snapshot() as connection:
        assert list(verify.streams(connection, Scope("other"))) == []
