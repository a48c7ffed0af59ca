"""Reads a run's journal in pages, and waits for more of it."""

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from counterfoil.cli.sentences import payload_of
from counterfoil.cli.tally import Tally
from counterfoil.cli.watch import PAGE, PERIOD_SECONDS
from counterfoil.ledger.states import RUN_ENDS
from counterfoil.ledger.values import EntryRow

if TYPE_CHECKING:
    from counterfoil.app.house import House


def all_entries(
    house: "House", run_id: str, since: int = 0, task_id: str | None = None
) -> Iterator[EntryRow]:
    """The entries that are there now, in order."""
    from counterfoil.app.run_views import entries

    while page := entries(house, run_id, since, task_id, PAGE):
        yield from page
        since = page[-1].seq


def follow(
    house: "House", run_id: str, since: int = 0, task_id: str | None = None
) -> Iterator[EntryRow]:
    """The entries that are there and those that come, until the run has ended."""
    from counterfoil.app.run_views import find

    nobody_wakes_us = threading.Event()
    while True:
        ended = find(house, run_id).status in RUN_ENDS  # before reading: nothing comes after
        for entry in all_entries(house, run_id, since, task_id):
            since = entry.seq
            yield entry
        if ended:
            return
        nobody_wakes_us.wait(PERIOD_SECONDS)


def tally_of(entries: Iterable[EntryRow]) -> Tally:
    tally = Tally()
    for entry in entries:
        tally.add(entry.kind, payload_of(entry))
    return tally
