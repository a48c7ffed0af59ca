"""The group writer: savepoints, nobody answered too early, and what each fault leaves behind."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from counterfoil.core.errors import CounterfoilError, StoreError, StoreUnavailable
from counterfoil.ledger import journal, states, tasks, transitions, writer
from counterfoil.ledger.queries import queries
from counterfoil.ledger.states import TaskStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal, RefusalCode
from counterfoil.testing.faults import FaultKind

STATEMENTS_OF_ONE = 5
"""A unit that appends: savepoint, head, entry, head, release."""


def messages(bench: Any, stream: str = "s") -> list[str]:
    return [entry.payload.split('"')[3] for entry in bench.entries(stream)]


def hand_in_three(bench: Any, *, stream: str = "s") -> list[Any]:
    """Three units that become one group."""
    with bench.held():
        return [bench.writer.submit(bench.tell(stream, name)) for name in "abc"]


def put_meta(key: str) -> Callable[[Unit], str]:
    """An idempotent unit without an entry."""

    def work(unit: Unit) -> str:
        unit.run(queries("meta")["put"], {"key": key, "value": "there"})
        return "put"

    return work


def meta(bench: Any, key: str) -> Any:
    row = bench.read(lambda connection: connection.one(queries("meta")["get"], {"key": key}))
    return row and row[0]


# Groups and savepoints


def test_units_that_wait_together_are_one_commit(bench: Any) -> None:
    pending = hand_in_three(bench)
    assert [one.wait().seq for one in pending] == [1, 2, 3]
    assert bench.store.commits == 2


def test_a_group_has_a_limit(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MOST_IN_A_GROUP", 2)
    for one in hand_in_three(bench):
        one.wait()
    assert bench.store.commits == 3


def test_a_unit_that_refuses_leaves_nothing_and_the_others_stay(bench: Any) -> None:
    refusal = Refusal(RefusalCode.CONFLICT, "no")

    def refuse(unit: Unit) -> Refusal:
        bench.tell("s", "gone")(unit)
        return refusal

    with bench.held():
        before = bench.writer.submit(bench.tell("s", "a"))
        refused = bench.writer.submit(refuse)
        after = bench.writer.submit(bench.tell("s", "b"))
    assert refused.wait() == refusal
    assert (before.wait().seq, after.wait().seq) == (1, 2)
    assert messages(bench) == ["a", "b"]
    assert bench.faults() == []


@pytest.mark.parametrize(
    "error",
    [ValueError("v"), StoreError("s"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
def test_what_a_unit_raises_is_its_callers_alone(bench: Any, error: BaseException) -> None:
    def fail(unit: Unit) -> None:
        bench.tell("s", "gone")(unit)
        raise error

    with bench.held():
        before = bench.writer.submit(bench.tell("s", "a"))
        failed = bench.writer.submit(fail)
        after = bench.writer.submit(bench.tell("s", "b"))
    with pytest.raises(type(error)):
        failed.wait()
    assert (before.wait().seq, after.wait().seq) == (1, 2)
    assert messages(bench) == ["a", "b"]
    assert bench.submit(bench.tell("s", "c")).seq == 3


def test_a_statement_that_is_wrong_fails_its_unit_only(bench: Any) -> None:
    with bench.held():
        wrong = bench.writer.submit(lambda unit: unit.run("INSERT INTO nowhere VALUES (1)", {}))
        right = bench.writer.submit(bench.tell("s", "a"))
    with pytest.raises(StoreError, match="nowhere"):
        wrong.wait()
    assert right.wait().seq == 1


def test_a_unit_that_moves_and_does_not_journal_is_an_error(bench: Any) -> None:
    driver = bench.running()
    bench.add_tasks(driver, "a")
    key = {"run_id": driver.run_id, "task_id": "a"}

    def silent(unit: Unit) -> None:
        transitions.move(unit, bench.scope, states.TASKS, key, TaskStatus.WAITING, TaskStatus.READY)

    with pytest.raises(RuntimeError, match="no journal entry tells of it"):
        bench.submit(silent)
    row = bench.read(lambda connection: tasks.get(connection, bench.scope, driver.run_id, "a"))
    assert row.status == TaskStatus.WAITING
    assert bench.faults() == []


@pytest.mark.parametrize("outer", ["submit", "do"])
@pytest.mark.parametrize("inner", ["submit", "do"])
def test_a_unit_cannot_hand_in_another(bench: Any, outer: str, inner: str) -> None:
    doors = {"submit": bench.submit, "do": bench.writer.do}
    with pytest.raises(RuntimeError, match="cannot hand in another"):
        doors[outer](lambda unit: doors[inner](bench.tell("s")))
    assert doors[outer](bench.tell("s")).seq == 1


def test_all_units_of_a_group_have_one_time(bench: Any) -> None:
    for one in hand_in_three(bench):
        one.wait()
    assert len({entry.at for entry in bench.entries("s")}) == 1


# Answers


def test_nobody_is_answered_before_the_commit_returned(bench: Any) -> None:
    seen: list[tuple[str, list[bool]]] = []
    pending: list[Any] = []
    bench.store.on_commit = lambda _number, when: seen.append(
        (when, [one.settled for one in pending])
    )
    with bench.held():
        pending += [bench.writer.submit(bench.tell("s", name)) for name in "abc"]
    for one in pending:
        one.wait()
    assert seen[2:] == [("before", [False] * 3), ("after", [False] * 3)]


def test_units_are_awaited_from_several_loops_and_waited_for_in_threads(bench: Any) -> None:
    async def many() -> list[Any]:
        return await asyncio.gather(*[bench.ledger.perform(bench.tell("s")) for _ in range(20)])

    answers: list[Any] = []
    threads = [
        *(threading.Thread(target=lambda: answers.extend(asyncio.run(many()))) for _ in range(3)),
        *(
            threading.Thread(
                target=lambda: answers.extend(bench.do(bench.tell("s")) for _ in range(20))
            )
            for _ in range(3)
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(cursor.seq for cursor in answers) == list(range(1, 121))
    assert bench.faults() == []


def test_a_unit_whose_caller_was_canceled_is_committed_all_the_same(bench: Any) -> None:
    async def give_up() -> None:
        with bench.held():
            pending = bench.writer.submit(bench.tell("s", "a"))
            task = asyncio.ensure_future(_await(pending))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await bench.ledger.perform(bench.tell("s", "b"))

    async def _await(pending: Any) -> Any:
        return await pending

    asyncio.run(give_up())
    assert messages(bench) == ["a", "b"]


def test_a_loop_that_is_closed_does_not_stop_the_writer(bench: Any) -> None:
    async def leave() -> None:
        bench.writer.submit(bench.tell("s", "a"))

    with bench.held():
        asyncio.run(leave())
    assert bench.submit(bench.tell("s", "b")).seq == 2


def test_a_unit_handed_in_from_a_thread_cannot_be_awaited(bench: Any) -> None:
    pending = bench.writer.submit(bench.tell("s"))

    async def wait() -> None:
        await pending

    with pytest.raises(RuntimeError, match="use wait"):
        asyncio.run(wait())
    assert pending.wait().seq == pending.wait().seq == 1


def test_a_refusal_is_raised_by_do_and_perform(bench: Any) -> None:
    def refuse(_unit: Unit) -> Refusal:
        return Refusal(RefusalCode.CONFLICT, "it is so", "paused")

    for door in (
        lambda: bench.do(refuse),
        lambda: asyncio.run(bench.ledger.perform(refuse)),
    ):
        with pytest.raises(CounterfoilError, match="it is so") as refused:
            door()
        assert (refused.value.code, refused.value.details) == ("CONFLICT", {"status": "paused"})


# A plain thread that commits its own unit


def test_a_plain_thread_commits_in_its_own_thread_when_nobody_is_at_work(bench: Any) -> None:
    seen: list[threading.Thread] = []
    for door in (bench.writer.do, bench.submit):
        door(lambda unit: seen.append(threading.current_thread()))
    assert seen == [threading.current_thread(), bench.writer._thread]


def test_a_plain_thread_that_finds_somebody_at_work_joins_the_next_group(bench: Any) -> None:
    answers: list[int] = []
    with bench.held() as held:
        threads = [
            threading.Thread(target=lambda: answers.append(bench.do(bench.tell("s")).seq))
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        while len(bench.writer._waiting) < 5:
            pass
        held.release()
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == [1, 2, 3, 4, 5]
    assert bench.store.commits == 2


def test_what_comes_in_while_a_plain_thread_is_at_work_is_done_after_it(bench: Any) -> None:
    inside, go, done = threading.Event(), threading.Event(), []

    def slow(unit: Unit) -> Any:
        inside.set()
        assert go.wait(30)
        return bench.tell("s", "a")(unit)

    thread = threading.Thread(target=lambda: done.append(bench.do(slow)))
    thread.start()
    assert inside.wait(30)
    pending = bench.writer.submit(bench.tell("s", "b"))
    closing = threading.Thread(target=bench.writer.close)
    closing.start()
    go.set()
    assert pending.wait().seq == 2
    for one in (thread, closing):
        one.join(30)
        assert not one.is_alive()
    assert messages(bench) == ["a", "b"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_of_a_plain_thread_at_its_commit_keeps_nobody_waiting(
    bench: Any, when: str
) -> None:
    def strike(_number: int, now: str) -> None:
        if now == when:
            bench.store.on_commit = None
            raise KeyboardInterrupt

    bench.store.on_commit = strike
    with pytest.raises(KeyboardInterrupt):
        bench.do(bench.tell("s", "a"))
    there = ["a"] if when == "after" else []
    assert messages(bench) == there
    assert bench.submit(bench.tell("s", "b")).seq == len(there) + 1
    assert bench.do(bench.tell("s", "c")).seq == len(there) + 2
    assert bench.faults() == []


# Closing


def test_close_commits_what_was_handed_in(bench: Any) -> None:
    with bench.held() as held:
        pending = [bench.writer.submit(bench.tell("s", str(number))) for number in range(5)]
        closing = threading.Thread(target=bench.writer.close)
        closing.start()
        while not bench.writer._closing.is_set():
            pass
        with pytest.raises(StoreUnavailable, match="closed"):
            bench.writer.submit(bench.tell("s"))
        held.release()
    closing.join(30)
    assert [one.wait().seq for one in pending] == [1, 2, 3, 4, 5]
    assert len(bench.entries("s")) == 5
    bench.writer.close()


# Faults of the store


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.ENGINE_ENDS_TRANSACTION,
        FaultKind.STATEMENT_REFUSED,
        FaultKind.CONNECTION_DIES,
    ],
)
def test_a_transaction_that_ends_at_any_statement_runs_each_unit_again_alone(
    bench: Any, kind: FaultKind
) -> None:
    for after in range(3 * STATEMENTS_OF_ONE):
        stream = f"s{after}"
        with bench.held() as held:
            pending = [bench.writer.submit(bench.tell(stream, name)) for name in "abc"]
            held.arm(kind, after=after)
        assert [one.wait().seq for one in pending] == [1, 2, 3]
        assert messages(bench, stream) == ["a", "b", "c"]
        assert bench.writer.trouble == ""
    assert len(bench.store.struck) == 3 * STATEMENTS_OF_ONE
    assert bench.faults() == []


def test_a_unit_that_ends_the_transaction_each_time_is_refused_and_the_others_are_done(
    bench: Any,
) -> None:
    def poison(unit: Unit) -> None:
        unit.run("ROLLBACK", {})

    with bench.held():
        good = [bench.writer.submit(bench.tell("s", "a"))]
        bad = bench.writer.submit(poison)
        good.append(bench.writer.submit(bench.tell("s", "b")))
    with pytest.raises(StoreError):
        bad.wait()
    assert [one.wait().seq for one in good] == [1, 2]
    assert messages(bench) == ["a", "b"]


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.ENGINE_ENDS_TRANSACTION,
        FaultKind.STATEMENT_REFUSED,
        FaultKind.CONNECTION_DIES,
        FaultKind.BEGIN_REFUSED,
        FaultKind.COMMIT_FAILS,
    ],
)
def test_while_the_store_refuses_everybody_is_told_and_afterwards_it_goes_on(
    bench: Any, kind: FaultKind
) -> None:
    with bench.held() as held:
        pending = [bench.writer.submit(bench.tell("s", name)) for name in "abc"]
        held.arm(kind, times=1000)
    for one in pending:
        with pytest.raises(StoreUnavailable):
            one.wait()
    assert bench.writer.trouble
    assert bench.entries("s") == []
    bench.store.disarm()
    assert bench.submit(bench.tell("s", "d")).seq == 1
    assert bench.writer.trouble == ""


def test_when_no_transaction_can_begin_nobody_waits_for_one_each(bench: Any) -> None:
    with bench.held() as held:
        pending = [bench.writer.submit(bench.tell("s", name)) for name in "abc"]
        held.arm(FaultKind.BEGIN_REFUSED, times=1000)
    for one in pending:
        with pytest.raises(StoreUnavailable):
            one.wait()
    assert len(bench.store.struck) == 1


def test_a_failed_commit_runs_each_unit_again_alone(bench: Any) -> None:
    with bench.held() as held:
        pending = [bench.writer.submit(bench.tell("s", name)) for name in "abc"]
        held.arm(FaultKind.COMMIT_FAILS)
    assert [one.wait().seq for one in pending] == [1, 2, 3]
    assert messages(bench) == ["a", "b", "c"]
    assert bench.store.commits == 1 + 1 + 3


def test_whatever_a_commit_raises_the_writer_goes_on(bench: Any) -> None:
    def strike(number: int, when: str) -> None:
        if (number, when) == (1, "before"):
            raise ValueError("an error of a kind that nobody foresaw")

    bench.store.on_commit = strike
    with pytest.raises(ValueError, match="nobody foresaw"):
        bench.submit(bench.tell("s", "a"))
    assert bench.submit(bench.tell("s", "b")).seq == 1
    assert messages(bench) == ["b"]


@pytest.mark.usefixtures("sqlite_only")
def test_a_full_disk_is_told_and_the_work_goes_on_once_there_is_space(bench: Any) -> None:
    large = "x" * 50_000
    bench.store.fill_disk()
    with pytest.raises(StoreUnavailable, match=r"disk .* is full"):
        bench.submit(bench.tell("s", large))
    assert "full" in bench.writer.trouble
    assert bench.entries("s") == []
    bench.store.free_disk()
    assert bench.submit(bench.tell("s", large)).seq == 1
    assert bench.writer.trouble == ""


@pytest.mark.usefixtures("sqlite_only")
def test_on_a_full_disk_a_large_unit_does_not_take_the_small_ones_along(bench: Any) -> None:
    bench.submit(bench.tell("s", "first"))
    bench.store.fill_disk()
    with bench.held():
        small = bench.writer.submit(put_meta("a"))
        large = bench.writer.submit(bench.tell("s", "x" * 500_000))
    assert small.wait() == "put"
    with pytest.raises(StoreUnavailable):
        large.wait()
    assert meta(bench, "a") == "there"


# Lost replies


def test_a_commit_whose_reply_was_lost_is_looked_up_and_not_repeated(bench: Any) -> None:
    runs: list[str] = []

    def counted(name: str) -> Callable[[Unit], Any]:
        def work(unit: Unit) -> Any:
            runs.append(name)
            return bench.tell("s", name)(unit)

        return work

    with bench.held() as held:
        pending = [bench.writer.submit(counted(name)) for name in "abc"]
        held.arm(FaultKind.COMMITTED_REPLY_LOST)
    assert [one.wait().seq for one in pending] == [1, 2, 3]
    assert runs == ["a", "b", "c"]
    assert messages(bench) == ["a", "b", "c"]
    assert bench.writer.trouble == ""


def test_a_commit_that_was_lost_with_its_reply_is_done_again_once(bench: Any) -> None:
    with bench.held() as held:
        pending = [bench.writer.submit(bench.tell("s", name)) for name in "abc"]
        held.arm(FaultKind.NOT_COMMITTED_REPLY_LOST)
    assert [one.wait().seq for one in pending] == [1, 2, 3]
    assert messages(bench) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "kind", [FaultKind.COMMITTED_REPLY_LOST, FaultKind.NOT_COMMITTED_REPLY_LOST]
)
def test_a_lost_reply_is_looked_up_when_the_store_is_back(
    bench: Any, kind: FaultKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RECONNECT_SECONDS", 0.001)
    for number in range(3):
        bench.store.arm(kind)
        bench.store.arm(FaultKind.CONNECT_REFUSED, times=3)
        assert bench.submit(bench.tell("s", str(number))).seq == number + 1
    assert messages(bench) == ["0", "1", "2"]
    assert bench.store.struck.count(FaultKind.CONNECT_REFUSED) == 9
    assert bench.faults() == []


@pytest.mark.parametrize(
    "kind", [FaultKind.COMMITTED_REPLY_LOST, FaultKind.NOT_COMMITTED_REPLY_LOST]
)
def test_a_group_without_an_entry_is_done_again(bench: Any, kind: FaultKind) -> None:
    with bench.held() as held:
        pending = [bench.writer.submit(put_meta(key)) for key in "ab"]
        held.arm(kind)
    assert [one.wait() for one in pending] == ["put", "put"]
    assert (meta(bench, "a"), meta(bench, "b")) == ("there", "there")


def test_a_head_that_was_only_looked_at_proves_no_commit(bench: Any) -> None:
    driver = bench.running()

    def look_and_put(unit: Unit) -> str:
        refused = journal.append(
            unit, bench.scope, driver.run_id, journal_kind(), {"to": "x", "from": "y"}, fence=7
        )
        assert isinstance(refused, Refusal)
        return put_meta("a")(unit)

    def journal_kind() -> Any:
        from counterfoil.ledger import events

        return events.RUN_STATUS

    bench.store.arm(FaultKind.NOT_COMMITTED_REPLY_LOST)
    assert bench.submit(look_and_put) == "put"
    assert meta(bench, "a") == "there"


def test_closing_while_the_store_is_away_says_that_nobody_knows(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RECONNECT_SECONDS", 0.001)
    bench.store.arm(FaultKind.COMMITTED_REPLY_LOST)
    bench.store.arm(FaultKind.CONNECT_REFUSED, times=10**9)
    pending = bench.writer.submit(bench.tell("s", "a"))
    closing = threading.Thread(target=bench.writer.close)
    closing.start()
    with pytest.raises(StoreUnavailable, match="reply to a commit was lost") as lost:
        pending.wait()
    assert "look whether the record is there" in lost.value.hint
    closing.join(30)
    assert not closing.is_alive()


def test_a_group_that_is_half_answered_when_the_store_goes_is_answered_once_each(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RECONNECT_SECONDS", 0.001)
    with bench.held() as held:
        pending = [bench.writer.submit(bench.tell("s", name)) for name in "abc"]
        held.arm(FaultKind.STATEMENT_REFUSED, after=3)
        held.arm(FaultKind.NOT_COMMITTED_REPLY_LOST, after=1)
        held.arm(FaultKind.CONNECT_REFUSED, times=10**9)
    assert pending[0].wait().seq == 1
    closing = threading.Thread(target=bench.writer.close)
    closing.start()
    for one in pending[1:]:
        with pytest.raises(StoreUnavailable):
            one.wait()
    closing.join(30)
    assert not closing.is_alive()
    assert messages(bench) == ["a"]


def test_a_queue_that_refuses_is_trouble_that_passes(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Any:
        raise StoreUnavailable("the ledger's folder cannot be used")

    with monkeypatch.context() as away:
        away.setattr(bench.store, "queue", refuse)
        with pytest.raises(StoreUnavailable):
            bench.submit(bench.tell("s"))
        assert "folder" in bench.writer.trouble
    assert bench.submit(bench.tell("s")).seq == 1
    assert bench.writer.trouble == ""
