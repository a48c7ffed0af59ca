"""What signals and errors do to a run that is driven from the terminal."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterfoil.app.plan_runs import Stop
from counterfoil.cli import driving
from counterfoil.cli.commands import Commands
from counterfoil.cli.driving import Shown, closing_object
from counterfoil.cli.tally import Tally
from counterfoil.core.errors import Conflict, StoreUnavailable
from counterfoil.ledger.states import AttemptStatus, ExecutionStatus


class Watcher:
    run_id = "run_1"

    def __init__(self) -> None:
        self.notices: list[str] = []

    def notice(self, text: str) -> None:
        self.notices.append(text)


class Control:
    def __init__(self) -> None:
        self.stops: list[Stop] = []

    def stop(self, how: Stop) -> None:
        self.stops.append(how)


@pytest.fixture
def driven(rows: Any) -> Any:
    at_work = rows.attempt("a", status=AttemptStatus.RUNNING)
    source = type("Source", (), {"view": lambda self, run_id: rows.view(attempts=(at_work,))})()
    made = driving._Driven(None, source, Watcher())
    made._control = Control()
    return made


def test_the_first_interrupt_stops_and_the_second_says_that_it_does(driven: Any) -> None:
    driven._interrupt()
    driven._interrupt()
    assert driven._control.stops == [Stop.SHUTDOWN]
    first, second = driven._watcher.notices
    assert first == "Ending 1 attempt, keeping their work..."
    assert "already ending" in second
    assert driven.interrupted


def test_sigterm_leaves_and_only_once(driven: Any) -> None:
    driven._leave()
    driven._leave()
    driven._interrupt()
    assert driven._control.stops == [Stop.LEAVE]
    assert not driven.interrupted


def test_a_ledger_that_cannot_be_read_does_not_hinder_the_end(driven: Any) -> None:
    def away(run_id: str) -> Any:
        raise StoreUnavailable("away")

    driven._source.view = away
    driven._interrupt()
    assert driven._control.stops == [Stop.SHUTDOWN]
    assert driven._watcher.notices == ["Ending the attempts, keeping their work..."]


@pytest.mark.parametrize(
    ("error", "run_id", "said"),
    [
        (KeyboardInterrupt(), "", "Interrupted before anything was started."),
        (StoreUnavailable("away"), "run_1", "counterfoil runs recover run_1"),
        (Conflict("another drives it"), "run_1", ""),
        (StoreUnavailable("away"), "", ""),
    ],
)
def test_an_error_in_the_middle_says_what_is_there(
    error: BaseException, run_id: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    driving._tell_left(error, run_id, Commands())
    told = capsys.readouterr().err
    assert said in told
    assert bool(told) is bool(said)


def test_an_option_or_the_stream_says_how_a_run_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(terminal: bool) -> Callable[..., Shown]:
        monkeypatch.setattr(driving, "is_terminal", lambda stream: terminal)
        return Shown.chosen

    assert chosen(True)(as_json=False, plain=False) is Shown.LIVE
    assert chosen(True)(as_json=False, plain=True) is Shown.LINES
    assert chosen(True)(as_json=True, plain=True) is Shown.JSON
    assert chosen(False)(as_json=False, plain=False) is Shown.LINES


def test_the_closing_object_tells_each_task(rows: Any) -> None:
    tally = Tally()
    usage = {"task": "parse", "attemptId": "at_parse1", "inputTokens": 7, "outputTokens": 2}
    tally.add("task.usage", usage)
    run = replace(rows.run(ExecutionStatus.PAUSED), cause="rate_limit")
    told = closing_object(rows.view(run), tally, Commands(Path("l.db")), "12-0a1b2c3d")
    assert told["head"] == "12-0a1b2c3d"
    assert told["run"] == rows.run_id
    assert (told["status"], told["cause"]) == ("paused", "rate_limit")
    assert told["next"] == f"counterfoil runs resume {rows.run_id} --ledger l.db"
    assert told["tasks"]["parse"] == {
        "status": "merged",
        "reason": "",
        "attempts": 1,
        "duration_ms": 1500,
        "input_tokens": 7,
        "output_tokens": 2,
    }
    assert told["tasks"]["units"]["input_tokens"] is None
