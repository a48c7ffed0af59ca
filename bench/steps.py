"""Durable steps: one after another and 64 wide, beside their floor and beside DBOS; their bytes."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.figures import Figure, Findings, Series, Sizes, interleave, ratio
from bench.worker import Worker

WIDTH = 64
PEERS = ("dbos", "dbos-wal")
NO_PEER = "dbos is not installed (pip install 'counterfoil[bench]'): nothing is measured beside it"


@dataclass(frozen=True, slots=True)
class StepSizes:
    """Rounds of the two series, steps of a sequence, and steps of each of the 64 chains."""

    rounds: int
    count: int
    wide_rounds: int
    each: int
    width: int = WIDTH


SIZES = Sizes(full=StepSizes(60, 50, 12, 8), quick=StepSizes(24, 50, 5, 4))


def measure(folder: Path, sizes: StepSizes) -> Findings:
    """All step figures, each contender in a process of its own."""
    peers = PEERS if importlib.util.find_spec("dbos") else ()
    with ExitStack() as opened:
        workers = {
            name: opened.enter_context(Worker(name, folder / name))
            for name in ("floor", "own", *peers)
        }
        for ask in (*_sequences(workers, sizes).values(), *_wide(workers, sizes).values()):
            ask()  # once unmeasured: caches fill, files get their first pages
        before = _sizes_in_bytes(workers)
        sequences = interleave(_sequences(workers, sizes), sizes.rounds)
        after = _sizes_in_bytes(workers)
        wide = interleave(_wide(workers, sizes), sizes.wide_rounds)
        statements = workers["floor"].ask("statements")
    written = sizes.rounds * sizes.count
    bytes_each = {name: (after[name] - before[name]) / written for name in after}
    figures = (
        *_sequence_figures(sequences),
        *_wide_figures(wide),
        *_byte_figures(bytes_each),
        Figure("steps.statements", statements, "statements", "SQL statements of one step"),
    )
    return Findings(figures, skipped=() if peers else (NO_PEER,))


Asking = dict[str, Callable[[], float]]


def _sequences(workers: dict[str, Worker], sizes: StepSizes) -> Asking:
    count = sizes.count
    asking = {
        "floor": workers["floor"].asking("sequential", count=count),
        "sync": workers["own"].asking("sync_door", count=count),
        "async": workers["own"].asking("async_door", count=count),
    }
    for peer in PEERS:
        if peer in workers:
            asking[peer] = workers[peer].asking("sequential", count=count)
    return asking


def _wide(workers: dict[str, Worker], sizes: StepSizes) -> Asking:
    size = {"width": sizes.width, "each": sizes.each}
    asking = {
        "floor": workers["floor"].asking("wide", **size),
        "wide": workers["own"].asking("wide", **size),
        "wide_in_one": workers["own"].asking("wide_in_one", **size),
    }
    for peer in PEERS:
        if peer in workers:
            asking[peer] = workers[peer].asking("wide", **size)
    return asking


def _sizes_in_bytes(workers: dict[str, Worker]) -> dict[str, float]:
    return {name: worker.ask("bytes_used") for name, worker in workers.items() if name != "floor"}


def _sequence_figures(series: Series) -> Iterator[Figure]:
    said = {
        "floor": "the same SQL on one bare connection",
        "sync": "one step after another, plain thread",
        "async": "one step after another, asyncio",
        "dbos": "one step after another, DBOS as shipped",
        "dbos-wal": "one step after another, DBOS in WAL",
    }
    for name, taken in series.items():
        yield Figure(f"steps.{_key(name)}", median(taken), "ms/step", said[name])
    yield _over(series, "sync", "floor", "plain thread over the floor")
    yield _over(series, "async", "floor", "asyncio over the floor")
    if "dbos" in series:
        yield _over(series, "dbos", "sync", "DBOS as shipped over a plain thread")
        yield _over(series, "dbos-wal", "sync", "DBOS in WAL over a plain thread")


def _wide_figures(series: Series) -> Iterator[Figure]:
    said = {
        "floor": "wide: the same SQL on one bare connection",
        "wide": "wide: as many runs side by side",
        "wide_in_one": "wide: as many chains in one run",
        "dbos": "wide: as many workflows, DBOS as shipped",
        "dbos-wal": "wide: as many workflows, DBOS in WAL",
    }
    for name, taken in series.items():
        key = f"steps.wide_{_key(name).removeprefix('wide_')}" if name != "wide" else "steps.wide"
        yield Figure(key, median(taken), "ms/step", said[name])
    yield _over(series, "wide", "floor", "wide over its floor")
    if "dbos" in series:
        yield _over(series, "dbos", "wide", "wide: DBOS as shipped over ours")
        yield _over(series, "dbos-wal", "wide", "wide: DBOS in WAL over ours")


def _byte_figures(bytes_each: dict[str, float]) -> Iterator[Figure]:
    for name, each in bytes_each.items():
        yield Figure(f"steps.bytes_{_key(name)}", each, "bytes/step", f"file growth, {name}")


def _over(series: Series, over: str, under: str, what: str) -> Figure:
    key = f"steps.{_key(over)}_over_{_key(under)}"
    return Figure(key, ratio(series, over, under), "x", what)


def _key(name: str) -> str:
    return name.replace("-", "_")
