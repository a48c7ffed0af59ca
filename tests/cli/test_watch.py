"""The watcher shows a run from its own thread and never holds it up."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from counterfoil.cli import watch
from counterfoil.cli.lines import JsonDisplay, LineDisplay
from counterfoil.cli.tally import Tally
from counterfoil.cli.watch import Watcher
from counterfoil.core.errors import StoreUnavailable


class StillClock:
    def now_us(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0


class Journal:
    """A run whose entries are given out as the test lets them."""

    def __init__(self, entries: Sequence[Any] = (), view: Any = None) -> None:
        self.all = list(entries)
        self.there = len(self.all)
        self.views = 0
        self.broken = False
        self._view = view

    def entries(self, run_id: str, since: int) -> Sequence[Any]:
        if self.broken:
            raise StoreUnavailable("away")
        return [one for one in self.all[: self.there] if one.seq > since][: watch.PAGE]

    def view(self, run_id: str) -> Any:
        self.views += 1
        return self._view


class Recorder:
    """A display that remembers, and tells the test when something was shown."""

    def __init__(self, fails: type[BaseException] | None = None) -> None:
        self.seen: list[int] = []
        self.views = 0
        self.notices: list[str] = []
        self.closed = False
        self.shown = threading.Event()
        self._fails = fails

    def show(self, entries: Sequence[Any], view: Any, tally: Tally) -> None:
        self.seen.extend(entry.seq for entry in entries)
        self.views += view is not None
        self.shown.set()
        if self._fails is not None:
            raise self._fails

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def entries(rows: Any) -> list[Any]:
    return [rows.entry(seq, "run.status", to="running") for seq in range(1, 1201)]


def test_everything_is_shown_once_and_in_order(entries: list[Any]) -> None:
    journal, display = Journal(entries), Recorder()
    journal.there = 3
    watcher = Watcher(journal, display, StillClock(), views=False)
    watcher.begin("run_1")
    watcher.begin("run_1")
    assert display.shown.wait(10)
    journal.there = len(entries)
    watcher.finish()
    assert display.seen == list(range(1, 1201))
    assert display.closed
    assert journal.views == 0


def test_what_happened_before_is_counted_and_not_shown(rows: Any) -> None:
    usage = {"task": "a", "attemptId": "at_1", "inputTokens": 5, "outputTokens": 1}
    journal = Journal([rows.entry(1, "task.usage", "a", **usage), rows.entry(2, "run.status")])
    journal.there = 1
    display = Recorder()
    watcher = Watcher(journal, display, StillClock(), views=False)
    watcher.skip_past("run_1")
    journal.there = 2
    watcher.begin("run_1")
    watcher.finish()
    assert display.seen == [2]
    assert watcher.tally.all.input == 5


def test_a_view_is_asked_for_only_when_something_happened(entries: list[Any]) -> None:
    journal, display = Journal(entries[:2], view="view"), Recorder()
    watcher = Watcher(journal, display, StillClock(), views=True)
    watcher.begin("run_1")
    assert display.shown.wait(10)
    watcher.finish()
    assert journal.views == display.views == 1


@pytest.mark.parametrize("error", [BrokenPipeError, OSError])
def test_a_terminal_that_is_gone_ends_the_showing_and_nothing_else(
    error: type[BaseException], entries: list[Any]
) -> None:
    journal, display = Journal(entries[:1]), Recorder(fails=error)
    watcher = Watcher(journal, display, StillClock(), views=False)
    watcher.begin("run_1")
    assert display.shown.wait(10)
    watcher.notice("nobody reads this")
    watcher.finish()
    assert display.seen == [1]
    assert display.notices == []


def test_a_store_that_is_away_is_looked_at_again(entries: list[Any]) -> None:
    journal, display = Journal(entries[:2]), Recorder()
    journal.broken = True
    watcher = Watcher(journal, display, StillClock(), views=False)
    watcher.begin("run_1")
    assert display.shown.wait(10)
    journal.broken = False
    watcher.finish()
    assert display.seen == [1, 2]


def test_an_unexpected_error_is_said_once_and_the_view_goes_on(entries: list[Any]) -> None:
    class Odd(Journal):
        def view(self, run_id: str) -> Any:
            self.views += 1
            if self.views < 3:
                raise KeyError("odd")
            return "view"

    journal, display = Odd(entries[:1]), Recorder()
    watcher = Watcher(journal, display, StillClock(), views=True)
    watcher.run_id = "run_1"
    for _ in range(4):
        watcher._look()
    assert (journal.views, display.views) == (3, 1)
    assert display.notices == ["The view stumbled: unexpected KeyError: 'odd'"]
    assert display.seen == [1]


def test_a_display_that_fails_oddly_is_asked_again(entries: list[Any]) -> None:
    journal, display = Journal(entries[:2]), Recorder(fails=ValueError)
    watcher = Watcher(journal, display, StillClock(), views=False)
    journal.there = 1
    watcher._look()
    journal.there = 2
    watcher._look()
    assert display.seen == [1, 2]
    assert len(display.notices) == 1


def test_what_was_read_before_an_error_is_shown_all_the_same(entries: list[Any]) -> None:
    class Halfway(Journal):
        def entries(self, run_id: str, since: int) -> Sequence[Any]:
            if since == watch.PAGE and not self.views:
                self.views = 1
                raise StoreUnavailable("away")
            return super().entries(run_id, since)

    display = Recorder()
    watcher = Watcher(Halfway(entries), display, StillClock(), views=False)
    watcher._look()
    assert len(display.seen) == watch.PAGE
    watcher._look()
    assert display.seen == list(range(1, 1201))


def test_one_slow_look_does_not_make_the_view_stand_still(
    entries: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    class Slow(StillClock):
        now = 0.0

        def monotonic(self) -> float:
            self.now += 20.0
            return self.now

    watcher = Watcher(Journal(entries[:1]), Recorder(), Slow(), views=False)

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        watcher._finishing = True
        return True

    monkeypatch.setattr(watcher._wake, "wait", wait)
    watcher._follow()
    assert waits == [watch.LONGEST_SECONDS]


def test_the_head_is_the_last_entry_that_was_read(rows: Any) -> None:
    last = replace(rows.entry(7, "run.status"), hash="0a1b2c3d" * 8)
    watcher = Watcher(Journal([last]), Recorder(), StillClock(), views=False)
    assert watcher.head == ""
    watcher._look()
    assert watcher.head == "7-0a1b2c3d"


def test_notices_are_shown_even_when_no_run_was_started() -> None:
    display = Recorder()
    watcher = Watcher(Journal(), display, StillClock(), views=False)
    watcher.notice("the checkout is dirty")
    watcher.finish()
    assert display.notices == ["the checkout is dirty"]


def test_a_display_that_blocks_never_blocks_a_notice(entries: list[Any]) -> None:
    let_go = threading.Event()

    class Stopped(Recorder):
        def show(self, entries: Sequence[Any], view: Any, tally: Tally) -> None:
            super().show(entries, view, tally)
            let_go.wait(10)

    display = Stopped()
    watcher = Watcher(Journal(entries[:1]), display, StillClock(), views=False)
    watcher.begin("run_1")
    assert display.shown.wait(10)
    watcher.notice("said while the terminal stood still")
    assert display.notices == []
    let_go.set()
    watcher.finish()
    assert display.notices == ["said while the terminal stood still"]


def test_lines_are_only_what_is_noteworthy(rows: Any, capsys: pytest.CaptureFixture[str]) -> None:
    display = LineDisplay()
    entries = [
        rows.entry(1, "task.status", "a", task="a", to="ready"),
        rows.entry(2, "task.status", "a", task="a", to="merged"),
    ]
    display.show(entries, None, Tally())
    display.notice("careful")
    display.close()
    out, err = capsys.readouterr()
    assert out.endswith("  a: merged\n")
    assert out.count("\n") == 1
    assert err == "careful\n"


def test_json_is_one_object_for_each_entry(rows: Any, capsys: pytest.CaptureFixture[str]) -> None:
    display = JsonDisplay()
    display.show([rows.entry(1, "run.status", to="ready")], None, Tally())
    display.notice("careful")
    display.close()
    out, err = capsys.readouterr()
    assert out.startswith('{"seq": 1, "kind": "run.status"')
    assert err == "careful\n"
