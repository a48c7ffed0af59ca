"""Follows one run's journal from a thread of its own and shows what is new.

The run is driven elsewhere: a terminal that is slow, stopped or gone never holds it up.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from counterfoil.cli.sentences import payload_of
from counterfoil.cli.tally import Tally
from counterfoil.cli.words import harmless
from counterfoil.core.clock import Clock
from counterfoil.core.errors import CounterfoilError
from counterfoil.ledger.values import EntryRow

if TYPE_CHECKING:
    from counterfoil.app.run_views import RunView

PAGE = 500
PERIOD_SECONDS = 0.25
"""How often a run is looked at, at most. Only its own thread waits."""

SHARE = 5
"""A look that takes long is followed by a wait of so many times that, to leave room to the run."""

LONGEST_SECONDS = 2.0
"""How long that wait is at most: one look that was held up leaves no view that stands still."""


class Source(Protocol):
    """Where a run is looked up; the house's use cases behind it."""

    def entries(self, run_id: str, since: int) -> Sequence[EntryRow]: ...

    def view(self, run_id: str) -> "RunView": ...


class Display(Protocol):
    """Shows a run while it is driven. All calls come from the watcher's thread.

    ``show`` gets what is new; the view is None when nothing changed since the last call.
    """

    def show(self, entries: Sequence[EntryRow], view: "RunView | None", tally: Tally) -> None: ...

    def notice(self, text: str) -> None: ...

    def close(self) -> None: ...


class Watcher:
    """``begin`` when the run's row is there, ``notice`` at any time, ``finish`` at the end."""

    def __init__(self, source: Source, display: Display, clock: Clock, *, views: bool) -> None:
        self.tally = Tally()
        self.run_id = ""
        self._source = source
        self._display = display
        self._clock = clock
        self._views = views
        self._since = 0
        self._notices: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._wake = threading.Event()
        self._finishing = False
        self._thread: threading.Thread | None = None
        self._outdated = True
        self._deaf = False
        self._stumbles: set[str] = set()
        self._last: EntryRow | None = None

    @property
    def head(self) -> str:
        """The cursor of the last entry that was read: what `verify --head` takes."""
        from counterfoil.ledger.journal import Cursor

        last = self._last
        return "" if last is None else str(Cursor(last.stream, last.seq, last.hash))

    def skip_past(self, run_id: str) -> None:
        """Count what happened before, without showing it."""
        while entries := self._source.entries(run_id, self._since):
            self._count(entries)

    def begin(self, run_id: str) -> None:
        """Start to follow the run. A second call changes nothing."""
        if self._thread is None:
            self.run_id = run_id
            self._thread = threading.Thread(target=self._follow, name="watcher", daemon=True)
            self._thread.start()

    def notice(self, text: str) -> None:
        """Show a line for the operator as soon as possible; never waits."""
        self._notices.put(text)
        self._wake.set()

    def finish(self) -> None:
        """Show what is left, then close the display."""
        self._finishing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        else:
            self._guard(self._tell_notices)

    def _follow(self) -> None:
        while not self._finishing:
            began = self._clock.monotonic()
            self._look()
            took = self._clock.monotonic() - began
            self._wake.wait(min(max(PERIOD_SECONDS, SHARE * took), LONGEST_SECONDS))
            self._wake.clear()
        self._look()
        self._guard(self._display.close)

    def _look(self) -> None:
        """What cannot be read now is looked for again: the driver tells of the same trouble."""
        self._guard(self._tell_notices)
        entries: list[EntryRow] = []
        view = None
        try:
            self._read_new(entries)
            if self._views and self._outdated:
                view = self._source.view(self.run_id)
                self._outdated = False
        except CounterfoilError:
            pass
        except Exception as error:  # an error of ours must not leave a view that stands still
            self._stumble(error)
        self._guard(lambda: self._display.show(entries, view, self.tally))

    def _read_new(self, found: list[EntryRow]) -> None:
        """Add what is new, page by page: what was read before an error is shown all the same."""
        while page := self._source.entries(self.run_id, self._since):
            found.extend(page)
            self._outdated = True
            self._count(page)
            if len(page) < PAGE:
                return

    def _count(self, entries: Sequence[EntryRow]) -> None:
        self._last = entries[-1]
        self._since = self._last.seq
        for entry in entries:
            self.tally.add(entry.kind, payload_of(entry))

    def _stumble(self, error: Exception) -> None:
        """Say an unexpected error once; the next look may fare better."""
        said = f"The view stumbled: unexpected {type(error).__name__}: {error}"
        if said not in self._stumbles:
            self._stumbles.add(said)
            self._notices.put(harmless(said))
            self._guard(self._tell_notices)

    def _tell_notices(self) -> None:
        while not self._notices.empty():
            self._display.notice(self._notices.get())

    def _guard(self, act: Callable[[], None]) -> None:
        """Run one act of the display; from the first that fails on, the run goes on unseen."""
        if self._deaf:
            return
        try:
            act()
        except OSError:
            self._deaf = True
        except Exception as error:
            self._stumble(error)
