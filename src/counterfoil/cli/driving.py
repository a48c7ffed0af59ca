"""Drives a run from the terminal: a watcher beside it, signals, and the screen that closes it."""

import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterfoil.cli import exit_codes, screens
from counterfoil.cli.commands import Commands
from counterfoil.cli.exit_codes import Exit
from counterfoil.cli.lines import JsonDisplay, LineDisplay
from counterfoil.cli.live import LiveDisplay
from counterfoil.cli.next_step import next_step
from counterfoil.cli.options import opened, run_id
from counterfoil.cli.tally import Tally
from counterfoil.cli.tasks_table import time_taken
from counterfoil.cli.terminal import (
    close_output,
    console,
    is_terminal,
    print_json,
    reader_has_gone,
    say,
)
from counterfoil.cli.watch import PAGE, Display, Watcher
from counterfoil.cli.words import count
from counterfoil.core.errors import CounterfoilError, Refused
from counterfoil.ledger.states import AttemptStatus
from counterfoil.ledger.values import EntryRow

if TYPE_CHECKING:
    from counterfoil.app.house import House
    from counterfoil.app.plan_runs import Control
    from counterfoil.app.run_views import RunView

Work = Callable[["House", "Control"], Awaitable["RunView"]]


class Shown(StrEnum):
    """How a run is shown while it is driven."""

    LIVE = "live"
    LINES = "lines"
    JSON = "json"

    @classmethod
    def chosen(cls, *, as_json: bool, plain: bool) -> "Shown":
        """Live on a terminal, lines elsewhere, unless an option says otherwise."""
        if as_json:
            return cls.JSON
        return cls.LINES if plain or not is_terminal(sys.stdout) else cls.LIVE


class _Ledger:
    """The watcher's view of the house."""

    def __init__(self, house: "House") -> None:
        self._house = house

    def entries(self, run_id: str, since: int) -> Sequence[EntryRow]:
        from counterfoil.app.run_views import entries

        return entries(self._house, run_id, since, None, PAGE)

    def view(self, run_id: str) -> "RunView":
        from counterfoil.app.run_views import view

        return view(self._house, run_id)


def drive(ledger: Path | None, shown: Shown, work: Work, *, known_run: str = "") -> Exit:
    """Drive a run to its end or a pause. ``known_run``: its name when it is there already."""
    import asyncio

    import counterfoil.app.plan_runs  # noqa: F401 - before signals are heard: it takes its time

    commands = Commands(ledger)
    with opened(ledger) as house:
        source = _Ledger(house)
        watcher = Watcher(
            source, _display(shown, house), house.ledger.clock, views=shown is Shown.LIVE
        )
        if known_run:
            watcher.skip_past(run_id(house, known_run))
        driven = _Driven(house, source, watcher)
        try:
            view = asyncio.run(driven.run(work))
        except BaseException as error:
            watcher.finish()
            _tell_left(error, watcher.run_id, commands)
            raise
        watcher.finish()
        _close(shown, house, view, watcher, commands)
    return exit_codes.of_run(view.run.status, interrupted=driven.interrupted)


def _display(shown: Shown, house: "House") -> Display:
    match shown:
        case Shown.LIVE:
            return LiveDisplay(house.ledger.clock)
        case Shown.LINES:
            return LineDisplay()
        case Shown.JSON:
            return JsonDisplay()


class _Driven:
    """One run while it is driven: what signals do to it."""

    def __init__(self, house: "House", source: _Ledger, watcher: Watcher) -> None:
        self.interrupted = False
        self.left = False
        self._house = house
        self._source = source
        self._watcher = watcher
        self._control: Control | None = None

    async def run(self, work: Work) -> "RunView":
        import asyncio

        import anyio.lowlevel

        from counterfoil.app.plan_runs import Control

        self._control = Control(on_started=self._watcher.begin, notice=self._watcher.notice)
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: self._interrupt,
            signal.SIGTERM: self._leave,
            signal.SIGHUP: self._leave,
        }
        heard = [one for one in handlers if signal.getsignal(one) is not signal.SIG_IGN]
        for one in heard:
            loop.add_signal_handler(one, handlers[one])
        await anyio.lowlevel.checkpoint()  # a signal that came before ends it here, before a run
        try:
            return await work(self._house, self._control)
        finally:
            for one in heard:
                loop.remove_signal_handler(one)

    def _interrupt(self) -> None:
        from counterfoil.app.plan_runs import Stop

        if self.interrupted or self.left:
            self._watcher.notice("It is already ending; wait for its last words to be recorded.")
            return
        self.interrupted = True
        self._watcher.notice(f"Ending {self._at_work()}, keeping their work...")
        assert self._control is not None
        self._control.stop(Stop.SHUTDOWN)

    def _leave(self) -> None:
        from counterfoil.app.plan_runs import Stop

        if self.left:
            return
        self.left = True
        self._watcher.notice(f"Leaving {self._at_work()} to go on without this process...")
        assert self._control is not None
        self._control.stop(Stop.LEAVE)

    def _at_work(self) -> str:
        """``2 attempts``, or no number when the ledger cannot be read now."""
        try:
            view = self._source.view(self._watcher.run_id)
        except CounterfoilError:
            return "the attempts"
        open_ones = [one for one in view.attempts if one.status != AttemptStatus.ENDED]
        return count(len(open_ones), "attempt")


def _close(
    shown: Shown, house: "House", view: "RunView", watcher: Watcher, commands: Commands
) -> None:
    """The closing screen or object. That it cannot be shown changes no outcome."""
    tally, head = watcher.tally, watcher.head
    try:
        if shown is Shown.JSON:
            print_json(closing_object(view, tally, commands, head))
        else:
            now = house.ledger.clock.now_us()
            screens.closing(console(), view, tally, commands, now, head)
            sys.stdout.flush()
    except OSError as error:
        close_output()
        if not reader_has_gone(error):
            say(f"How {view.run.id} ended cannot be shown here: {error.strerror}")
            say(f"Look at it with: {commands.show(view.run.id)}")


def closing_object(view: "RunView", tally: Tally, commands: Commands, head: str) -> dict[str, Any]:
    """What a program wants to know of a run that is over. ``head``: its journal's, to keep."""
    run = view.run
    tasks: dict[str, Any] = {}
    for task in view.tasks:
        attempts = [one for one in view.attempts if one.task_id == task.task_id]
        usage = tally.task(task.task_id)
        tasks[task.task_id] = {
            "status": task.status,
            "reason": task.reason,
            "attempts": len(attempts),
            "duration_ms": time_taken([one for one in attempts if one.ended_at], 0),
            "input_tokens": usage.input,
            "output_tokens": usage.output,
        }
    return {
        "run": run.id,
        "status": run.status,
        "cause": run.cause,
        "branch": view.branch,
        "head": head,
        "tasks": tasks,
        "next": next_step(view, commands).command,
    }


def _tell_left(error: BaseException, run_id: str, commands: Commands) -> None:
    """After an error in the middle: what was recorded is there, and can be taken up again."""
    if not run_id:
        if isinstance(error, KeyboardInterrupt):
            say("Interrupted before anything was started.")
    elif not isinstance(error, Refused):
        say(f"The run {run_id} is recorded up to here: {commands.show(run_id)}")
        say(f"Take it up again with: {commands.recover(run_id)}")
