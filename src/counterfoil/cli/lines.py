"""A run shown as lines: sentences for people where no live view fits, objects for programs."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from counterfoil.cli.sentences import as_object, line, noteworthy
from counterfoil.cli.tally import Tally
from counterfoil.cli.terminal import print_json, say
from counterfoil.ledger.values import EntryRow

if TYPE_CHECKING:
    from counterfoil.app.run_views import RunView


class LineDisplay:
    """One line for each noteworthy entry of the journal, flushed."""

    def show(self, entries: Sequence[EntryRow], view: "RunView | None", tally: Tally) -> None:
        for entry in entries:
            if noteworthy(entry):
                sys.stdout.write(line(entry) + "\n")
        sys.stdout.flush()

    def notice(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        sys.stdout.flush()


class JsonDisplay:
    """One JSON object for each entry of the journal, flushed."""

    def show(self, entries: Sequence[EntryRow], view: "RunView | None", tally: Tally) -> None:
        for entry in entries:
            print_json(as_object(entry))

    def notice(self, text: str) -> None:
        say(text)

    def close(self) -> None:
        sys.stdout.flush()
