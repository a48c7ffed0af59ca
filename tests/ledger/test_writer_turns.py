"""Whose turn it is to commit: a plain thread that finds nobody at work, else the writer's."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from counterfoil.core.errors import StoreUnavailable
from counterfoil.ledger.unit import Unit


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


class Gate:
    """A unit that appends, once it is let go on."""

    def __init__(self, bench: Any) -> None:
        self.inside, self.go, self._tell = threading.Event(), threading.Event(), bench.tell("s")

    def __call__(self, unit: Unit) -> Any:
        self.inside.set()
        assert self.go.wait(30)
        return self._tell(unit)


def interrupt_commit(bench: Any, at: str) -> None:
    """The next commit is interrupted, ``before`` or ``after`` it took effect."""

    def strike(_number: int, when: str) -> None:
        if when == at:
            bench.store.on_commit = None
            raise KeyboardInterrupt

    bench.store.on_commit = strike


def test_a_plain_thread_that_finds_nobody_at_work_commits_itself(bench: Any) -> None:
    assert bench.writer.do(lambda _unit: threading.get_ident()) == threading.get_ident()


def test_a_unit_that_comes_while_another_is_at_work_waits_for_the_writers_thread(
    bench: Any,
) -> None:
    gate = Gate(bench)
    first, _ = in_thread(lambda: bench.writer.do(gate))
    assert gate.inside.wait(30)
    pending = bench.writer.submit(lambda _unit: threading.current_thread().name)
    second, names = in_thread(
        lambda: bench.writer.do(lambda _unit: threading.current_thread().name)
    )
    while len(bench.writer._waiting) < 2:
        pass
    gate.go.set()
    first.join(30)
    second.join(30)
    assert (pending.wait(), names) == ("ledger-writer", ["ledger-writer"])


def test_a_unit_done_within_a_unit_is_refused_and_the_outer_keeps_its_turn(bench: Any) -> None:
    def outer(unit: Unit) -> Any:
        for door in (bench.writer.do, bench.writer.submit):
            with pytest.raises(RuntimeError, match="cannot hand in another"):
                door(bench.tell("s"))
        return bench.tell("s")(unit)

    assert bench.writer.do(outer).seq == 1
    assert bench.writer.do(bench.tell("s")).seq == 2


@pytest.mark.parametrize(("at", "next_seq"), [("before", 1), ("after", 2)])
def test_an_interrupt_at_the_commit_leaves_the_writer_usable(
    bench: Any, at: str, next_seq: int
) -> None:
    interrupt_commit(bench, at)
    with pytest.raises(KeyboardInterrupt):
        bench.writer.do(bench.tell("s"))
    assert bench.writer.do(bench.tell("s")).seq == next_seq
    assert bench.submit(bench.tell("s")).seq == next_seq + 1
    assert bench.faults() == []


def test_nobody_else_is_told_of_an_interrupt(bench: Any) -> None:
    gate = Gate(bench)

    def interrupted() -> str:
        interrupt_commit(bench, "before")
        with pytest.raises(KeyboardInterrupt):
            bench.writer.do(gate)
        return "interrupted"

    thread, said = in_thread(interrupted)
    assert gate.inside.wait(30)
    waiting = [bench.writer.submit(bench.tell("s")) for _ in range(3)]
    gate.go.set()
    thread.join(30)
    assert [one.wait().seq for one in waiting] == [1, 2, 3]
    assert said == ["interrupted"]


def test_a_unit_alone_that_fails_leaves_nothing(bench: Any) -> None:
    def fail(unit: Unit) -> None:
        bench.tell("s")(unit)
        raise ValueError("v")

    with pytest.raises(ValueError, match="v"):
        bench.writer.do(fail)
    assert bench.entries("s") == []
    assert bench.writer.do(bench.tell("s")).seq == 1


def test_close_waits_for_the_thread_that_is_at_work(bench: Any) -> None:
    gate = Gate(bench)
    working, answers = in_thread(lambda: bench.writer.do(gate))
    assert gate.inside.wait(30)
    pending = bench.writer.submit(bench.tell("s"))
    closing, _ = in_thread(bench.writer.close)
    while not bench.writer._closing.is_set():
        pass
    with pytest.raises(StoreUnavailable, match="closed"):
        bench.writer.do(bench.tell("s"))
    assert closing.is_alive()
    gate.go.set()
    working.join(30)
    closing.join(30)
    assert not closing.is_alive()
    assert (answers[0].seq, pending.wait().seq) == (1, 2)


def test_many_plain_threads_all_get_their_own_answer(bench: Any) -> None:
    answers: list[int] = []

    def work() -> None:
        for _ in range(25):
            answers.append(bench.writer.do(bench.tell("s")).seq)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answers) == list(range(1, 201))
    assert bench.faults() == []


def test_an_interrupt_after_the_answer_is_known_is_raised_all_the_same(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Leaving:
        def __enter__(self) -> None: ...

        def __exit__(self, *_error: object) -> None:
            raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(bench.store, "queue", Leaving)
        with pytest.raises(KeyboardInterrupt):
            bench.writer.do(bench.tell("s"))
    assert bench.writer.do(bench.tell("s")).seq == 2
