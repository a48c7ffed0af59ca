"""What the runner itself adds to an attempt, beside the same git work done bare."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.figures import Figure, Findings, Sizes
from bench.plan_run import PlanRun
from bench.repository import BareAttempts, make_repository


@dataclass(frozen=True, slots=True)
class RunnerSizes:
    """Rounds, and attempts of each contender in a round."""

    rounds: int
    attempts: int


SIZES = Sizes(full=RunnerSizes(6, 25), quick=RunnerSizes(3, 12))


def measure(folder: Path, sizes: RunnerSizes) -> Findings:
    """Attempts that rewrite one file, one at a time: a plan's, then bare ones, in turns."""
    bare = BareAttempts(make_repository(folder / "bare"), folder / "worktrees")
    bare.attempt()
    ours: list[float] = []
    beside: list[float] = []
    ratios: list[float] = []
    for number in range(sizes.rounds):
        place = folder / f"round{number}"
        repository = make_repository(place / "repository")
        ended = PlanRun(repository, place / "home", sizes.attempts + 1, 1, True).run()
        ours.append(median(later - earlier for earlier, later in pairwise(ended)))
        beside.append(median(_timed(bare) for _ in range(sizes.attempts)))
        ratios.append(ours[-1] / beside[-1])
    done = f"of {sizes.rounds * sizes.attempts} attempts that rewrite a file"
    own = median(one - other for one, other in zip(ours, beside, strict=True))
    figures = (
        Figure("runner.attempt", median(ours), "ms", f"an attempt in a plan, median {done}"),
        Figure("runner.bare", median(beside), "ms", "its git work and one process, bare"),
        Figure("runner.own", own, "ms", "what the runner adds"),
        Figure("runner.attempt_over_bare", median(ratios), "x", "an attempt over bare git"),
    )
    return Findings(figures)


def _timed(bare: BareAttempts) -> float:
    began = perf_counter()
    bare.attempt()
    return (perf_counter() - began) * 1000
