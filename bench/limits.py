"""The one table of what must hold, and the judgement of figures by it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.figures import Figure


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound of one figure; ``at_most`` False means at least. Reaching the bound is allowed."""

    key: str
    bound: float
    at_most: bool = True

    def allows(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound

    @property
    def text(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.bound:g}"


LIMITS: Sequence[Limit] = (
    Limit("steps.sync_over_floor", 1.6),
    Limit("steps.async_over_floor", 2.0),
    Limit("steps.dbos_over_sync", 2.5, at_most=False),
    Limit("steps.dbos_wal_over_wide", 6.0, at_most=False),
    Limit("plan.no_op_last_over_first", 1.3),
    Limit("plan.change_last_over_first", 1.3),
    Limit("start.help", 300.0),
)

BY_KEY = {limit.key: limit for limit in LIMITS}


def missed(figures: Iterable[Figure]) -> list[str]:
    """A sentence for each figure beyond its bound."""
    return [
        f"{figure.key} is {figure.value:.2f} {figure.unit}, and must be {limit.text}"
        for figure in figures
        if (limit := BY_KEY.get(figure.key)) is not None and not limit.allows(figure.value)
    ]


def unmeasured(figures: Iterable[Figure]) -> list[str]:
    """The limits for which there is no figure."""
    known = {figure.key for figure in figures}
    return [limit.key for limit in LIMITS if limit.key not in known]
