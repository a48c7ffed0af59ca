"""The watcher shows a run from its own thread and never holds it up."""

import threading
from collections.abc import Sequence
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
