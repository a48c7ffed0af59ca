"""The house: runs and durable steps from threads and from asyncio, entered again after a stop."""

import asyncio
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import counterfoil
from counterfoil.app.house import House, Run
from counterfoil.core.codec import Described
from counterfoil.core.errors import Conflict, StaleFence, StoreUnavailable, ValueRefused
from counterfoil.ledger import artifacts, journal, runs, steps, verify
from counterfoil.testing.faults import FaultKind

SUBJECT = {"subject_kind": "agent", "subject_id": "mailer"}


class Counted:
    """Work that counts how often it was done."""

    def __init__(self, result: Any = None) -> None:
        self.result, self.count = result, 0

    def __call__(self) -> Any:
        self.count += 1
        return self.result

    async def later(self) -> Any:
        await asyncio.sleep(0)
        return self()


class Stop(BaseException):
    """Like an interrupt: nothing of the run ends with it."""


def run_row(house: House, run_id: str) -> Any:
    return house.ledger.read(lambda connection: runs.get(connection, house.ledger.scope, run_id))


def step_rows(house: House, run_id: str) -> dict[str, Any]:
    found = house.ledger.read(
        lambda connection: steps.of_run(connection, house.ledger.scope, run_id)
    )
    return {step.step_key: step for step in found}


def faults(house: House) -> list[str]:
    scope = house.ledger.scope

    def look(connection: Any) -> list[str]:
        return [
            fault
            for head in verify.streams(connection, scope)
            for fault in verify.verify_stream(connection, house.ledger.blobs, scope, head).faults
        ]

    return house.ledger.read(look)


@contextmanager
def left_open(house: House, key: str = "k", **given: Any) -> Iterator[Run]:
    """A run that is interrupted where the block ends, and stays open."""
    with contextlib.suppress(Stop), house.run(**{**SUBJECT, **given}, key=key) as run:
        yield run
        raise Stop


def interrupted(house: House, **values: Any) -> str:
    """A run that was left open after these steps."""
    with left_open(house) as run:
        for name, value in values.items():
            run.step(name, lambda value=value: value).wait()
    return run.id


# Both doors


def test_a_run_of_a_plain_thread_is_recorded_from_its_start_to_its_end(house: House) -> None:
    with house.run(**SUBJECT, input={"to": "a@b.c", "password": "p"}) as run:
        assert run_row(house, run.id).status == "running"
        assert run.step("send", lambda: {"sent": 1}).wait() == {"sent": 1}
    row = run_row(house, run.id)
    assert (row.status, row.cause, row.subject_id) == ("succeeded", "finished", "mailer")
    assert json.loads(row.input_json) == {"to": "a@b.c", "password": "[REDACTED]"}
    assert step_rows(house, run.id)["send"].result_json == '{"sent":1}'
    assert faults(house) == []


def test_a_run_of_asyncio_is_recorded_from_its_start_to_its_end(house: House) -> None:
    async def go() -> str:
        async with house.run(**SUBJECT) as run:
            assert await run.step("plain", lambda: 1) == 1
            work = Counted(2)
            assert await run.step("later", work.later) == 2
            assert work.count == 1
        return run.id

    run_id = asyncio.run(go())
    assert run_row(house, run_id).status == "succeeded"
    assert {key: row.status for key, row in step_rows(house, run_id).items()} == {
        "plain": "succeeded",
        "later": "succeeded",
    }
    assert faults(house) == []


def test_many_runs_of_asyncio_at_once_have_one_holder(house: House) -> None:
    async def one(number: int) -> str:
        async with house.run(**SUBJECT, key=str(number)) as run:
            assert await run.step("s", lambda: number) == number
        return run.id

    async def go() -> list[str]:
        return await asyncio.gather(*[one(number) for number in range(20)])

    found = [run_row(house, run_id) for run_id in asyncio.run(go())]
    assert {row.holder_id for row in found} == {house.holder.id}
    assert {row.status for row in found} == {"succeeded"}
    assert faults(house) == []


def test_many_threads_at_once_have_one_holder(house: House) -> None:
    start, holders_seen = threading.Barrier(8), []

    def ask() -> None:
        start.wait(30)
        holders_seen.append(house.holder.id)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(holders_seen) == 8
    assert len(set(holders_seen)) == 1


def test_the_package_opens_a_house_by_its_name(tmp_path: Path) -> None:
    with (
        counterfoil.open_house(tmp_path / "own.db") as house,
        house.run(subject_kind="agent", subject_id="a") as run,
    ):
        run.step("s", lambda: 1).wait()
    assert (tmp_path / "own.db").exists()


def test_two_houses_live_in_one_process(open_house: Callable[..., House]) -> None:
    one, two = open_house(), open_house()
    with one.run(**SUBJECT, key="a") as first, two.run(**SUBJECT, key="b") as second:
        first.step("s", lambda: 1).wait()
        second.step("s", lambda: 2).wait()
    assert one.holder.id != two.holder.id
    assert run_row(one, second.id).status == run_row(two, first.id).status == "succeeded"
    assert faults(one) == []


def test_what_is_not_entered_cannot_be_used(house: House) -> None:
    run = house.run(**SUBJECT)
    with pytest.raises(ValueRefused, match="the run is not open"):
        run.step("s", lambda: 1)
    with pytest.raises(ValueRefused, match="the run is not open"):
        run.id  # noqa: B018 - the property refuses


# Inputs


def test_a_large_input_is_stored_and_its_run_points_to_it(house: House) -> None:
    value = {"text": "x" * 100_000}
    with house.run(**SUBJECT, input=value) as run:
        pass
    row = run_row(house, run.id)
    assert row.input_json is None
    kept = house.ledger.read(
        lambda connection: artifacts.get(
            connection, house.ledger.scope, run.id, row.input_artifact_id
        )
    )
    assert json.loads(house.ledger.blobs.get(kept.sha256)) == value
    assert kept.sha256 == row.input_sha256
    assert faults(house) == []


def test_equal_inputs_have_equal_hashes_and_what_was_redacted_tells_them_apart(
    house: House,
) -> None:
    rows = []
    for secret in ("one", "one", "two"):
        with house.run(**SUBJECT, input={"password": secret}) as run:
            pass
        rows.append(run_row(house, run.id))
    assert rows[0].input_hash == rows[1].input_hash != rows[2].input_hash
    assert len({row.input_sha256 for row in rows}) == 1


# Entered again


def test_a_run_entered_again_by_its_key_goes_on_under_a_new_fence(house: House) -> None:
    left = interrupted(house, sent={"id": 7})
    assert run_row(house, left).status == "running"
    work = Counted({"id": 8})
    with house.run(**SUBJECT, key="k") as run:
        assert run.id == left
        assert run.step("sent", work).wait() == {"id": 7}
        assert run.step("next", Counted(9)).wait() == 9
    assert work.count == 0
    row = run_row(house, left)
    assert (row.status, row.fence) == ("succeeded", 3)
    assert faults(house) == []


def test_a_key_whose_run_has_ended_starts_a_new_one(house: House) -> None:
    with house.run(**SUBJECT, key="k") as first:
        first.step("s", lambda: 1).wait()
    work = Counted(2)
    with house.run(**SUBJECT, key="k") as second:
        assert second.step("s", work).wait() == 2
    assert first.id != second.id


def test_without_a_key_every_call_is_a_new_run(house: House) -> None:
    with house.run(**SUBJECT) as first, house.run(**SUBJECT) as second:
        assert first.id != second.id


def test_the_nth_step_of_a_name_is_the_same_step_again(house: House) -> None:
    with left_open(house) as run:
        assert [run.step("s", lambda n=n: n).wait() for n in range(3)] == [0, 1, 2]
    with house.run(**SUBJECT, key="k") as run:
        assert [run.step("s", lambda: "again").wait() for _ in range(4)] == [0, 1, 2, "again"]
    assert sorted(step_rows(house, run.id)) == ["s", "s#2", "s#3", "s#4"]


def test_one_run_object_may_be_entered_again(house: House) -> None:
    run = house.run(**SUBJECT, key="k")
    with contextlib.suppress(Stop), run:
        run.step("s", lambda: 1).wait()
        raise Stop
    work = Counted(2)
    with run:
        assert run.step("s", work).wait() == 1
    assert work.count == 0


def test_a_run_entered_again_with_asyncio_answers_from_the_record(house: House) -> None:
    interrupted(house, small=1, large="x" * 50_000)

    async def go() -> list[Any]:
        async with house.run(**SUBJECT, key="k") as run:
            return [await run.step(name, Counted().later) for name in ("small", "large")]

    assert asyncio.run(go()) == [1, "x" * 50_000]


def test_a_cancellation_leaves_the_run_open(house: House) -> None:
    done = Counted(1)

    async def go() -> None:
        started = asyncio.Event()

        async def work() -> None:
            async with house.run(**SUBJECT, key="k") as run:
                await run.step("before", done.later)
                started.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(work())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with house.run(**SUBJECT, key="k") as run:
            assert await run.step("before", done.later) == 1

    asyncio.run(go())
    assert done.count == 1


def test_a_run_that_was_interrupted_can_be_entered_elsewhere_while_this_process_lives(
    open_house: Callable[..., House],
) -> None:
    one, two = open_house(), open_house()
    left = interrupted(one, sent=1)
    one.ledger.do(lambda unit: unit.one("SELECT 1", {}))
    work = Counted(2)
    with two.run(**SUBJECT, key="k") as run:
        assert run.id == left
        assert run.step("sent", work).wait() == 1
    assert work.count == 0
    assert faults(two) == []


# One driver


def test_a_run_that_is_open_elsewhere_is_refused_by_name(open_house: Callable[..., House]) -> None:
    one, two = open_house(), open_house()
    work = Counted(1)
    with one.run(**SUBJECT, key="k") as run:
        with pytest.raises(Conflict, match=f"{run.id} is driven by process {os.getpid()}"):
            two.run(**SUBJECT, key="k").__enter__()
        assert run.step("s", work).wait() == 1
    assert run_row(one, run.id).fence == 1


def test_a_run_that_is_open_in_this_house_is_refused(house: House) -> None:
    with house.run(**SUBJECT, key="k"), pytest.raises(Conflict, match="open in this process"):
        house.run(**SUBJECT, key="k").__enter__()
    with house.run(**SUBJECT, key="k"):
        pass


def test_a_key_is_free_again_after_an_entry_that_failed(house: House) -> None:
    house.holder  # noqa: B018 - registered before the store fails
    house.ledger.store.arm(FaultKind.BEGIN_REFUSED)
    with pytest.raises(StoreUnavailable):
        house.run(**SUBJECT, key="k").__enter__()
    with house.run(**SUBJECT, key="k"):
        pass


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"subject_id": "other"}, "a run of agent mailer"),
        ({"subject_kind": "tool"}, "a run of agent mailer"),
        ({"input": {"n": 2}}, "which has another input"),
    ],
)
def test_a_key_is_not_taken_for_another_subject_or_input(
    house: House, changed: dict[str, Any], fault: str
) -> None:
    given = {**SUBJECT, "key": "k", "input": {"n": 1}}
    with left_open(house, input={"n": 1}):
        pass
    with pytest.raises(Conflict, match=fault):
        house.run(**(given | changed)).__enter__()
    with house.run(**SUBJECT, key="k"):
        pass


def test_a_driver_that_was_replaced_hears_of_its_fence_whatever_it_does(house: House) -> None:
    ledger = house.ledger
    run = house.run(**SUBJECT, key="k")
    run.__enter__()
    row = run_row(house, run.id)
    ledger.do(lambda unit: runs.take(unit, ledger.scope, row, "hd_other"))
    for name in ("new", "other"):
        with pytest.raises(StaleFence):
            run.step(name, lambda: 1).wait()
    with pytest.raises(StaleFence):
        run.__exit__(None, None, None)
    assert step_rows(house, run.id) == {}
    assert run_row(house, run.id).status == "running"
    assert faults(house) == []


CHILD = """
import sys
from counterfoil import open_house
with open_house(sys.argv[1]) as house:
    with house.run(subject_kind="agent", subject_id="mailer", key="k") as run:
        run.step("sent", lambda: {"id": 7}).wait()
        print(run.id, flush=True)
        sys.stdin.read()
"""


@pytest.mark.slow
def test_a_run_whose_process_was_killed_is_gone_on_with_and_not_before(
    open_house: Callable[..., House],
) -> None:
    house = open_house()
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, house.settings.ledger_file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    left = child.stdout.readline().strip()
    with pytest.raises(Conflict, match=f"driven by process {child.pid}"):
        house.run(**SUBJECT, key="k").__enter__()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    work = Counted()
    with house.run(**SUBJECT, key="k") as run:
        assert run.id == left
        assert run.step("sent", work).wait() == {"id": 7}
    assert work.count == 0
    assert faults(house) == []


# Steps, once


def test_one_step_that_is_awaited_twice_is_done_once(house: House) -> None:
    work = Counted(1)
    with house.run(**SUBJECT) as run:
        step = run.step("s", work)
        assert step.wait() == step.wait() == 1
    assert work.count == 1

    async def go() -> None:
        async with house.run(**SUBJECT) as run:
            step = run.step("s", work.later)
            assert await step == await step == 1

    asyncio.run(go())
    assert work.count == 2


def test_a_step_that_is_at_work_is_not_started_again(house: House) -> None:
    async def wait(step: Any) -> Any:
        return await step

    async def go() -> None:
        async with house.run(**SUBJECT) as run:
            step = run.step("s", work.later)
            answers = await asyncio.gather(wait(step), wait(step), return_exceptions=True)
            assert answers[0] == 1
            assert isinstance(answers[1], ValueRefused)

    work = Counted(1)
    asyncio.run(go())
    assert work.count == 1


def test_a_result_that_could_not_be_recorded_is_recorded_by_waiting_again(house: House) -> None:
    work = Counted(1)
    with house.run(**SUBJECT) as run:
        step = run.step("s", work)
        house.ledger.store.arm(FaultKind.BEGIN_REFUSED)
        with pytest.raises(StoreUnavailable):
            step.wait()
        assert step_rows(house, run.id) == {}
        assert step.wait() == 1
    assert work.count == 1
    assert faults(house) == []


@pytest.mark.parametrize(
    "kind",
    [
        FaultKind.COMMITTED_REPLY_LOST,
        FaultKind.NOT_COMMITTED_REPLY_LOST,
        FaultKind.ENGINE_ENDS_TRANSACTION,
    ],
)
def test_a_step_whose_commit_is_in_doubt_is_recorded_once(house: House, kind: FaultKind) -> None:
    async def go() -> str:
        async with house.run(**SUBJECT) as run:
            house.ledger.store.arm(kind)
            answers = await asyncio.gather(*[run.step(f"s{n}", lambda n=n: n) for n in range(5)])
            assert answers == [0, 1, 2, 3, 4]
        return run.id

    run_id = asyncio.run(go())
    assert len(step_rows(house, run_id)) == 5
    entries = house.ledger.read(
        lambda connection: list(journal.entries(connection, house.ledger.scope, run_id))
    )
    assert [entry.kind for entry in entries].count("step.recorded") == 5
    assert faults(house) == []


# Steps that fail


class Broken(Exception):
    pass


def failing(*_: Any) -> Any:
    raise Broken("no such mailbox")


def test_a_failed_step_is_recorded_and_done_again_when_the_run_is(house: House) -> None:
    with left_open(house) as run, pytest.raises(Broken):
        run.step("s", failing).wait()
    row = step_rows(house, run.id)["s"]
    assert (row.status, row.error_code) == ("failed", "Broken")
    described = json.loads(row.result_json)
    assert described["message"] == "no such mailbox"
    assert "in failing" in described["traceback"]
    for value in ("x" * 50_000, "never asked"):
        with left_open(house) as run:
            assert run.step("s", lambda value=value: value).wait() == "x" * 50_000
    assert step_rows(house, run.id)["s"].status == "succeeded"
    assert faults(house) == []


def test_a_failed_step_may_be_waited_for_again_in_the_same_run(house: House) -> None:
    tries: list[int] = []

    def second_time() -> int:
        tries.append(1)
        if len(tries) < 2:
            raise Broken("not yet")
        return 7

    with house.run(**SUBJECT) as run:
        step = run.step("s", second_time)
        with pytest.raises(Broken):
            step.wait()
        assert step.wait() == 7
    assert step_rows(house, run.id)["s"].result_json == "7"
    assert faults(house) == []


def test_a_block_that_raises_fails_its_run_with_its_reason(house: House) -> None:
    with pytest.raises(Broken), house.run(**SUBJECT) as run:
        failing()
    row = run_row(house, run.id)
    assert (row.status, row.cause) == ("failed", "error")
    assert (row.error_code, row.error_message) == ("Broken", "no such mailbox")

    async def go() -> str:
        with pytest.raises(Broken):
            async with house.run(**SUBJECT) as run:
                await run.step("s", failing)
        return run.id

    row = run_row(house, asyncio.run(go()))
    assert (row.status, row.error_code) == ("failed", "Broken")
    assert faults(house) == []


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("and my text is broken too")


@pytest.mark.parametrize(
    "error",
    [
        Unprintable(),
        Broken("half a pair: \ud800"),
        Broken("a zero: \0, and the harmless \\u0000"),
        Broken("x" * 2_000_000),
        Broken({"password": "p"}, [object()]),
    ],
    ids=["unprintable", "surrogate", "nul", "huge", "objects"],
)
def test_an_error_of_any_kind_gets_its_terminal_row(house: House, error: Exception) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as raised, house.run(**SUBJECT) as run:
        run.step("s", work).wait()
    assert raised.value is error
    assert not getattr(error, "__notes__", [])
    row, step = run_row(house, run.id), step_rows(house, run.id)["s"]
    assert (row.status, row.error_code) == ("failed", type(error).__name__)
    assert (step.status, step.error_code) == ("failed", type(error).__name__)
    assert len(row.error_message) <= 8_192 + 20
    assert "\0" not in row.error_message
    assert faults(house) == []


def test_the_blocks_own_error_is_raised_also_when_it_cannot_be_recorded(house: House) -> None:
    def last_straw() -> None:
        house.ledger.store.arm(FaultKind.BEGIN_REFUSED, times=2)
        failing()

    with pytest.raises(Broken) as raised, house.run(**SUBJECT, key="k") as run:
        run.step("s", last_straw).wait()
    assert len(raised.value.__notes__) == 2
    assert "the failure of step s could not be recorded" in raised.value.__notes__[0]
    assert "the run's end could not be recorded" in raised.value.__notes__[1]
    assert run_row(house, run.id).status == "running"
    with house.run(**SUBJECT, key="k") as again:
        assert again.id == run.id


def test_an_asynchronous_step_cannot_be_waited_for(house: House) -> None:
    with house.run(**SUBJECT) as run, pytest.raises(ValueRefused, match="is asynchronous"):
        run.step("s", Counted().later).wait()


# Values

VALUES = {
    "nothing": None,
    "text": "ä \0 \ud800 %",
    "numbers": [0, -1, 2**53, 2**200, 1.5, -0.0, float("inf")],
    "bytes": b"\0\xff",
    "containers": {"a": (1, (2,)), "b": {1, 2}, "c": frozenset({"a"}), 7: "int key"},
    "exact": [Decimal("0.10"), UUID(int=7), Path("a/b")],
    "times": [datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), datetime.timedelta(days=-1)],
    "look alike": {"~bytes": "not bytes"},
    "large": {"rows": [{"n": n, "text": "ü" * 10} for n in range(1_000)]},
}


@pytest.mark.parametrize("name", VALUES)
def test_a_result_comes_back_as_it_was(house: House, name: str) -> None:
    interrupted(house, value=VALUES[name])
    with house.run(**SUBJECT, key="k") as run:
        found = run.step("value", Counted()).wait()
    assert found == VALUES[name]
    assert repr(found) == repr(VALUES[name])
    assert faults(house) == []


def test_a_result_that_has_no_form_is_described_and_its_step_is_not_done_again(
    house: House,
) -> None:
    interrupted(house, value=[1, object()])
    work = Counted()
    with house.run(**SUBJECT, key="k") as run:
        one, described = run.step("value", work).wait()
    assert (one, work.count) == (1, 0)
    assert isinstance(described, Described)


def test_twenty_megabytes_are_a_result_like_any_other(house: House) -> None:
    value = os.urandom(10_000_000).hex()

    async def go() -> None:
        with contextlib.suppress(Stop):
            async with house.run(**SUBJECT, key="k") as run:
                assert await run.step("large", lambda: value) is value
                raise Stop
        async with house.run(**SUBJECT, key="k") as run:
            assert await run.step("large", Counted()) == value

    asyncio.run(go())
    path = house.settings.ledger_file
    assert path.stat().st_size < 1_000_000
    assert faults(house) == []


def test_secrets_do_not_reach_the_record_but_the_caller(house: House) -> None:
    house.ledger.redactor.register("hunter2-hunter2")
    left = interrupted(house, value={"token": "t", "text": "hunter2-hunter2"})
    with house.run(**SUBJECT, key="k") as run:
        assert run.step("value", Counted()).wait() == {
            "token": "[REDACTED]",
            "text": "[REDACTED:secret]",
        }
        assert run.step("fresh", lambda: {"token": "t"}).wait() == {"token": "t"}
    assert step_rows(house, left)["value"].redacted_paths == '["/token","/text"]'


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_engine_can_keep_is_refused_before_anything_is_done(
    house: House, name: str
) -> None:
    work = Counted()
    with house.run(**SUBJECT) as run, pytest.raises(ValueRefused, match="the step"):
        run.step(name, work)
    with pytest.raises(ValueRefused, match="the key"):
        house.run(**SUBJECT, key=name)
    with pytest.raises(ValueRefused, match="the subject"):
        house.run(subject_kind="agent", subject_id=name)
    assert work.count == 0
