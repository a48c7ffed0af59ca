"""Whether a plan of many tasks costs the same per task at its end as at its beginning."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.figures import Figure, Findings, Sizes
from bench.plan_run import PlanRun
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
    """First tasks against last ones, for tasks that do nothing and tasks that add a file."""
    figures: list[Figure] = []
    for name, change in (("no_op", False), ("change", True)):
        place = folder / name
        repository = make_repository(place / "repository")
        ended = PlanRun(repository, place / "home", sizes.tasks, CONCURRENCY, change).run()
        first = per_task(ended[: sizes.compared])
        last = per_task(ended[-sizes.compared :])
        figures += (
            Figure(f"plan.{name}_first", first, "ms/task", f"{name}: first {sizes.compared}"),
            Figure(f"plan.{name}_last", last, "ms/task", f"{name}: last {sizes.compared}"),
            Figure(
                f"plan.{name}_last_over_first",
                last / first,
                "x",
                f"{name}: of {sizes.tasks} tasks, {CONCURRENCY} at a time",
            ),
        )
    return Findings(tuple(figures))


def per_task(ended: Sequence[float]) -> float:
    """Milliseconds a task: the median over strides of ten, so that one stall decides nothing."""
    stride = min(STRIDE, len(ended) - 1)
    return median(later - earlier for earlier, later in pairwise(ended[::stride])) / stride
