"""Whether a plan of many tasks costs the same per task at its end as at its beginning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.figures import Figure, Findings, Sizes
from bench.plan_run import PlanRun
from bench.pulse import Pulse
from bench.repository import make_repository

CONCURRENCY = 4
STRIDE = 10


@dataclass(frozen=True, slots=True)
class PlanSizes:
    """Tasks of the plan, and how many of its first and last are compared."""

    tasks: int
    compared: int


SIZES = Sizes(full=PlanSizes(1000, 100), quick=PlanSizes(150, 50))


def measure(folder: Path, sizes: PlanSizes) -> Findings:
    """First tasks against last ones, for tasks that do nothing and tasks that rewrite a file."""
    figures: list[Figure] = []
    for name, change in (("no_op", False), ("change", True)):
        place = folder / name
        repository = make_repository(place / "repository")
        with Pulse(place) as pulse:
            ended = PlanRun(repository, place / "home", sizes.tasks, CONCURRENCY, change).run()
        figures += _figures(name, ended, sizes, pulse)
    return Findings(tuple(figures))


def _figures(name: str, ended: Sequence[float], sizes: PlanSizes, pulse: Pulse) -> Iterator[Figure]:
    first, last = ended[: sizes.compared], ended[-sizes.compared :]
    for which, some in (("first", first), ("last", last)):
        what = f"{name}: {which} {sizes.compared} of {sizes.tasks}, {CONCURRENCY} at a time"
        yield Figure(f"plan.{name}_{which}", per_task(some), "ms/task", what)
    by_clock = per_task(last) / per_task(first)
    pulses = pulse.between(last[0], last[-1]) / pulse.between(first[0], first[-1])
    yield Figure(f"plan.{name}_pulses", pulses, "x", f"{name}: the machine itself, last over first")
    yield Figure(
        f"plan.{name}_last_over_first",
        min(by_clock, by_clock / pulses),
        "x",
        f"{name}: last over first; a slower machine alone does not count",
    )


def per_task(ended: Sequence[float]) -> float:
    """Milliseconds a task: the median over strides of ten, so that one stall decides nothing."""
    stride = min(STRIDE, len(ended) - 1)
    return median(later - earlier for earlier, later in pairwise(ended[::stride])) / stride
