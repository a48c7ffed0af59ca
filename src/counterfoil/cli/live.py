"""The live view: one row for each task, redrawn in place on a terminal."""

import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

from counterfoil.cli.tally import Tally
from counterfoil.cli.tasks_table import most_urgent, table, task_lines
from counterfoil.cli.terminal import ascii_only, console, say
from counterfoil.cli.words import RUN_STYLES, duration, harmless, state
from counterfoil.core.clock import Clock
from counterfoil.ledger.states import TASK_ENDS
from counterfoil.ledger.values import EntryRow

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.text import Text

    from counterfoil.app.run_views import RunView

ROOM_FOR_THE_REST = 5
"""Lines of the view that are no task: the head, the rest, the foot, and a free line below."""


class LiveDisplay:
    """Shows the last view it was given, by default on stdout; times at work are redrawn."""

    def __init__(self, clock: Clock, stream: IO[str] | None = None) -> None:
        self._clock = clock
        self._console = console(stream)
        self._live: Live | None = None
        self._view: RunView | None = None

    def show(self, entries: Sequence[EntryRow], view: "RunView | None", tally: Tally) -> None:
        self._view = view or self._view
        if self._view is None:
            return
        if self._live is None:
            self._live = self._begin()
        frame = render(
            self._view,
            tally,
            self._clock.now_us(),
            width=self._console.width,
            height=self._console.height,
            ascii_only=ascii_only(self._console.file),
        )
        self._live.update(frame, refresh=True)

    def _begin(self) -> "Live":
        from rich.live import Live

        live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        return live

    def notice(self, text: str) -> None:
        """Above the view, or on stderr where that is another place."""
        if self._live is not None and sys.stderr.isatty():
            self._console.print(text, soft_wrap=True)
        else:
            say(text)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def render(
    view: "RunView", tally: Tally, now: int, *, width: int, height: int, ascii_only: bool
) -> "RenderableType":
    """One frame, never higher than the terminal."""
    from rich.console import Group
    from rich.text import Text

    lines = task_lines(view, tally, now)
    shown, rest = most_urgent(lines, height - ROOM_FOR_THE_REST)
    parts: list[RenderableType] = [_one_line(_head(view, tally, now), ascii_only)]
    parts.append(table(shown, width=width, ascii_only=ascii_only, one_line=True))
    if rest:
        parts.append(_one_line(Text(rest, "dim"), ascii_only))
    parts.append(_one_line(Text("Ctrl-C pauses the run and keeps the work.", "dim"), ascii_only))
    return Group(*parts)


def _head(view: "RunView", tally: Tally, now: int) -> "Text":
    from rich.text import Text

    run = view.run
    done = sum(1 for task in view.tasks if task.status in TASK_ENDS)
    parts: list[str | tuple[str, str]] = [
        (harmless(run.subject_id), "bold"),
        " ",
        (state(run.status), RUN_STYLES.get(run.status, "")),
        f" {done} of {len(view.tasks)} done",
        f" {duration((now - run.created_at) // 1000)}",
    ]
    if tally.all.known:
        parts.append(f" {tally.all} tokens")
    parts.append((f" {run.id}", "dim"))
    return Text.assemble(*parts)


def _one_line(text: "Text", ascii_only: bool) -> "Text":
    text.no_wrap = True
    text.overflow = "crop" if ascii_only else "ellipsis"
    return text
