"""The journal: gapless whatever happens, chained as documented, in order for every reader."""

import hashlib
import json
import threading
from typing import Any

import pytest

from counterfoil.core.errors import ValueRefused
from counterfoil.ledger import events, journal, runs, states, transitions
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal, Scope

KIND = events.RUN_DIAGNOSTIC


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Undone(Exception):
    pass


def test_sequences_are_gapless_under_eight_threads_and_rollbacks(bench: Any) -> None:
    def undone(stream: str) -> Any:
        def work(unit: Unit) -> None:
            bench.tell(stream, "gone")(unit)
            raise Undone

        return work

    def write(number: int) -> None:
        for turn in range(15):
            stream = f"s{(number + turn) % 2}"
            if turn % 3 == 2:
                with pytest.raises(Undone):
                    bench.submit(undone(stream))
            else:
                bench.submit(bench.tell(stream, f"{number} {turn}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    told = []
    for stream in ("s0", "s1"):
        entries = bench.entries(stream)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        told += [json.loads(entry.payload)["message"] for entry in entries]
    assert sorted(told) == sorted(f"{n} {t}" for n in range(8) for t in range(15) if t % 3 != 2)
    assert bench.faults() == []


def test_a_reader_never_passes_a_gap_that_fills_later(open_bench: Any) -> None:
    benches = [open_bench(), open_bench()]
    done = threading.Event()

    def write(bench: Any) -> None:
        for _ in range(40):
            bench.submit(bench.tell("s"))

    def read() -> None:
        since = 0
        while not done.is_set() or since < 80:
            with benches[0].store.snapshot() as connection:
                entries = journal.entries(connection, Scope(), "s", since=since)
                found = [entry.seq for entry in entries]
            seen.extend(found)
            since = found[-1] if found else since

    seen: list[int] = []
    reader = threading.Thread(target=read, daemon=True)
    writers = [threading.Thread(target=write, args=(bench,)) for bench in benches]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join(60)
    done.set()
    reader.join(60)
    assert seen == list(range(1, 81))


def test_the_chain_is_what_the_design_says(bench: Any) -> None:
    """Computed here a second time: a chain that was written must stay readable for ever."""
    driver = bench.running()
    bench.add_tasks(driver, "a")
    bench.attempt(driver)
    previous = sha256(f"local\ndefault\n{driver.run_id}")
    for entry in bench.entries(driver.run_id):
        about = json.dumps([entry.task_id, entry.attempt_id], separators=(",", ":"))
        body = sha256(entry.payload)
        assert entry.body_sha256 == body
        header = f"{entry.seq}\n{entry.kind}\n{entry.at}\n{about}\n{entry.moves}\n{body}"
        previous = sha256(f"{previous}\n{header}")
        assert entry.hash == previous


def test_a_chain_is_bound_to_its_scope_and_stream() -> None:
    firsts = {
        journal.genesis(Scope(), "s"),
        journal.genesis(Scope(), "t"),
        journal.genesis(Scope("other"), "s"),
        journal.genesis(Scope("local", "other"), "s"),
    }
    assert len(firsts) == 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((None, None), ("", None)),
        ((None, None), (None, "")),
        (("a\nb", "c"), ("a", "b\nc")),
        (("a", None), (None, "a")),
    ],
)
def test_no_two_headers_share_a_hash_by_their_shape(one: Any, other: Any) -> None:
    first, second = (journal.Header(1, "k", 1, *owner, "[]", "{}") for owner in (one, other))
    assert first.hash_after("") != second.hash_after("")


def test_streams_of_one_name_in_two_scopes_are_two(bench: Any) -> None:
    other = Scope("other")
    payload = {"message": "m", "where": "w"}
    bench.submit(bench.tell("s"))
    cursor = bench.submit(lambda unit: journal.append(unit, other, "s", KIND, payload))
    assert cursor.seq == 1
    assert len(bench.entries("s")) == 1


def test_a_cursor_names_the_entry_and_eight_digits_of_its_hash(bench: Any) -> None:
    cursor = bench.submit(bench.tell("s"))
    (entry,) = bench.entries("s")
    assert str(cursor) == f"1-{entry.hash[:8]}"
    assert bench.read(lambda connection: journal.holds(connection, Scope(), cursor))
    forged = journal.Cursor("s", 1, "0" * 64)
    assert not bench.read(lambda connection: journal.holds(connection, Scope(), forged))
    later = journal.Cursor("s", 2, cursor.hash)
    assert not bench.read(lambda connection: journal.holds(connection, Scope(), later))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7])
def test_entries_and_streams_are_read_in_pages(
    bench: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "PAGE", 3)
    for number in range(count):
        bench.submit(bench.tell("s"))
        bench.submit(bench.tell(f"t{number}"))
    assert [entry.seq for entry in bench.entries("s")] == list(range(1, count + 1))
    found = bench.read(lambda connection: list(journal.streams(connection, Scope())))
    assert [head.stream for head in found] == ["s"] * (count > 0) + [f"t{n}" for n in range(count)]


def test_reading_goes_on_after_a_sequence_number(bench: Any) -> None:
    for _ in range(5):
        bench.submit(bench.tell("s"))
    after = bench.read(
        lambda connection: [e.seq for e in journal.entries(connection, Scope(), "s", since=3)]
    )
    assert after == [4, 5]


def test_a_body_that_was_taken_out_is_found_and_the_chain_still_stands(bench: Any) -> None:
    for name in "abc":
        bench.submit(bench.tell("s", name))
    bench.submit(
        lambda unit: unit.run("UPDATE journal SET payload = NULL WHERE seq = :seq", {"seq": 2})
    )
    (findings,) = bench.findings()
    assert findings.entries == 3
    assert findings.faults == ["s: the body of entry 2 was taken out, and no entry says why"]


# Fences


def taken(bench: Any, driver: Driver) -> Driver:
    return bench.do(
        lambda unit: runs.take(
            unit, bench.scope, runs.get(unit.connection, bench.scope, driver.run_id), "hd_2"
        )
    )


def told(bench: Any, driver: Driver) -> Any:
    return lambda unit: journal.append(
        unit, bench.scope, driver.run_id, KIND, {"message": "m", "where": "w"}, fence=driver.fence
    )


def test_a_stale_driver_is_refused_and_leaves_nothing(bench: Any) -> None:
    driver = bench.running()
    newer = taken(bench, driver)
    before = bench.entries(driver.run_id)
    assert bench.refused(told(bench, driver)) == "STALE_FENCE"
    assert bench.entries(driver.run_id) == before
    assert bench.do(told(bench, newer)).seq == len(before) + 1


def test_a_driver_of_no_run_is_told_so(bench: Any) -> None:
    assert bench.refused(told(bench, Driver("run_none", "hd_1", 1))) == "NOT_FOUND"


def test_a_run_is_created_moved_and_taken_in_one_unit(bench: Any) -> None:
    def work(unit: Unit) -> Any:
        row = runs.create(unit, bench.scope, bench.new())
        first = Driver(row.id, row.holder_id, row.fence)
        moved = runs.move(unit, bench.scope, first, row.status, states.ExecutionStatus.RUNNING)
        assert not isinstance(moved, Refusal), moved
        second = runs.take(unit, bench.scope, moved, "hd_2")
        assert isinstance(told(bench, first)(unit), Refusal)
        return told(bench, second)(unit)

    assert bench.do(work).seq == 4
    assert bench.faults() == []


# Payloads


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        ({"message": "m"}, "lacks where"),
        ({"message": "m", "where": "w", "more": 1}, "unknown field more"),
        ({"message": 1, "where": "w"}, "message must be string"),
        ({"message": None, "where": "w"}, "message must be string"),
    ],
)
def test_a_payload_of_another_shape_is_refused_and_leaves_nothing(
    bench: Any, payload: dict[str, Any], fault: str
) -> None:
    with pytest.raises(ValueRefused, match=fault):
        bench.submit(lambda unit: journal.append(unit, bench.scope, "s", KIND, payload))
    assert bench.entries("s") == []


def test_a_boolean_is_no_integer_in_a_payload() -> None:
    with pytest.raises(ValueRefused, match="stalledMs must be integer"):
        events.RUN_UNSTALLED.check({"stalledMs": True})
    events.RUN_UNSTALLED.check({"stalledMs": 1})


def test_secrets_do_not_reach_a_payload(bench: Any) -> None:
    bench.redactor.register("hunter2-hunter2")
    bench.submit(bench.tell("s", "it is hunter2-hunter2"))
    assert json.loads(bench.entries("s")[0].payload)["message"] == "it is [REDACTED:secret]"


def test_moves_ride_on_the_next_entry_only(bench: Any) -> None:
    def work(unit: Unit) -> None:
        transitions.tell(unit, states.RUNS, {"id": "x"}, {"status": "queued", "cause": None})
        bench.tell("s")(unit)
        bench.tell("s")(unit)

    bench.submit(work)
    first, second = (json.loads(entry.moves) for entry in bench.entries("s"))
    assert first == [["runs", {"id": "x"}, {"status": "queued"}]]
    assert second == []


def test_the_registry_of_kinds_names_each_once() -> None:
    declared = [one for one in vars(events).values() if isinstance(one, events.EventKind)]
    assert {kind.name for kind in declared} == set(events.KINDS)
    assert len(declared) == len(events.KINDS)
