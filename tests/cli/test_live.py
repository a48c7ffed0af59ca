"""The live view."""

import io
from typing import Any

import pytest
from rich.console import Console

from counterfoil.cli import live
from counterfoil.cli.tally import Tally
from counterfoil.ledger.states import ExecutionStatus, TaskStatus


class StillClock:
    def now_us(self) -> int:
        return 1_700_000_005_000_000

    def monotonic(self) -> float:
        return 0.0


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def frame(view: Any, width: int, height: int, *, ascii_only: bool = False) -> str:
    out = Console(width=width, height=height, markup=False, emoji=False, highlight=False)
    with out.capture() as captured:
        out.print(
            live.render(
                view,
                Tally(),
                StillClock().now_us(),
                width=width,
                height=height,
                ascii_only=ascii_only,
            )
        )
    return captured.get()


def running(rows: Any, count: int) -> Any:
    states = [TaskStatus.RUNNING, TaskStatus.FAILED] + [TaskStatus.WAITING] * (count - 2)
    return rows.view(
        rows.run(ExecutionStatus.RUNNING),
        tasks=tuple(rows.task(f"task-{n}", one) for n, one in enumerate(states)),
        waits={f"task-{n}": "waits for task-0" for n in range(2, count)},
    )


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_frame_tells_the_run_each_task_and_why_it_waits(width: int, rows: Any) -> None:
    text = frame(running(rows, 4), width, 24)
    lines = text.splitlines()
    assert lines[0].startswith("tidepool running 1 of 4 done 5.0 s"[:width])
    assert lines[-1].startswith("Ctrl-C pauses the run")
    assert len(lines) == 6
    assert all(len(line) <= width for line in lines)
    assert ("waits for task-0" in text) == (width >= 60)


@pytest.mark.parametrize("height", [8, 24])
def test_a_frame_is_never_higher_than_the_terminal(height: int, rows: Any) -> None:
    text = frame(running(rows, 500), 80, height)
    assert len(text.splitlines()) < height
    assert "● task-0" in text
    assert "✗ task-1" in text
    assert "more: " in text
    assert "waiting" in text


def test_a_frame_for_a_terminal_without_unicode_is_ascii(rows: Any) -> None:
    assert frame(running(rows, 40), 40, 12, ascii_only=True).isascii()


def test_the_view_is_drawn_in_place_and_wiped_at_its_end(rows: Any, terminal: Terminal) -> None:
    display = live.LiveDisplay(StillClock(), terminal)
    display.show([], None, Tally())
    assert terminal.getvalue() == "", "nothing is known yet"
    display.show([], running(rows, 3), Tally())
    display.show([], None, Tally())
    display.notice("the disk is full")
    display.close()
    text = terminal.getvalue()
    assert text.count("task-0") >= 2
    assert text.startswith("\x1b[?25l")
    assert "\x1b[?25h" in text, "the cursor is back"


def test_no_color_leaves_no_colour(
    rows: Any, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    display = live.LiveDisplay(StillClock(), terminal)
    display.show([], running(rows, 3), Tally())
    display.close()
    assert "\x1b[3" not in terminal.getvalue()


def test_notices_go_to_stderr_when_that_is_no_terminal(
    rows: Any, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    display = live.LiveDisplay(StillClock(), terminal)
    display.show([], running(rows, 3), Tally())
    display.notice("the disk is full")
    display.close()
    assert "the disk is full\n" in capsys.readouterr().err
    assert "the disk is full" not in terminal.getvalue()
