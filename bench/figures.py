"""What a measurement hands back, and how rounds of contenders become medians and ratios."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Generic, TypeVar

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number; ``key`` is what the table of limits knows it by."""

    key: str
    value: float
    unit: str
    what: str


class MeasurementFailed(Exception):
    """What was to be measured did not do its work, so its times say nothing."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The figures of one measurement, and in words what it left out, or why it has none."""

    figures: tuple[Figure, ...]
    skipped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sizes(Generic[S]):
    """How much a measurement does, in its full and in its quick form."""

    full: S
    quick: S

    def of(self, quick: bool) -> S:
        return self.quick if quick else self.full


Series = Mapping[str, Sequence[float]]


def interleave(contenders: Mapping[str, Callable[[], float]], rounds: int) -> Series:
    """Run every contender once a round, in an order of each round's own.

    What the machine does meanwhile, and what one leaves behind for the next, then meets all of
    them alike.
    """
    names, order = list(contenders), Random(rounds)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            taken[name].append(contenders[name]())
    return taken


def ratio(series: Series, over: str, under: str) -> float:
    """The median of the ratios of each round: both sides of one saw the same machine."""
    pairs = zip(series[over], series[under], strict=True)
    return median(one / other for one, other in pairs)
