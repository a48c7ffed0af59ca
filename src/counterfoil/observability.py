"""The compatibility boundary: the one module that knows what older plans and journals lack.

It judges by which fields are there, never by a date, a version or a file's name, and it knows
neither the ledger nor the runner.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from counterfoil.core.errors import ValueRefused

PHASES = ("implement", "review", "fix", "merge")
"""What an attempt can be of, in the order of a task's pipeline."""


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """Who an attempt is: one id for one leased execution of one phase of one task."""

    attempt_id: str
    run_id: str
    task_id: str
    phase: str
    ordinal: int

    def stamp(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload with this attempt's ``attemptId``, all else unchanged.

        Raises ``ValueRefused`` when it already carries another attempt's.
        """
        present = payload.get("attemptId", self.attempt_id)
        if present != self.attempt_id:
            raise ValueRefused(
                f"the event already belongs to attempt {present!r}, not to {self.attempt_id!r}",
                hint="stamp each event once, with the context of the attempt that caused it",
            )
        return {**payload, "attemptId": self.attempt_id}


def create_attempt_context(
    run_id: str, task_id: str, phase: str, ordinal: int, new_id: Callable[[], str]
) -> AttemptContext:
    """Mint the context of a new attempt; a resumed one keeps the context it has.

    ``ordinal`` counts from 1 within (task, phase). Raises ``ValueRefused``.
    """
    if not run_id or not task_id:
        raise ValueRefused("an attempt needs the id of its run and of its task")
    if phase not in PHASES:
        raise ValueRefused(
            f"task {task_id!r}: {phase!r} is no phase of an attempt",
            hint=f"the phases are {', '.join(PHASES)}",
        )
    if isinstance(ordinal, bool) or not isinstance(ordinal, int) or ordinal < 1:
        raise ValueRefused(
            f"task {task_id!r}: the ordinal of an attempt is {ordinal!r}, not 1 or more"
        )
    return AttemptContext(new_id(), run_id, task_id, str(phase), ordinal)


class CriterionKind(StrEnum):
    """Who judges a criterion: a mapped check, or only a person."""

    AUTO = "auto"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Criterion:
    """One structured acceptance criterion; ``id`` is unique within its task."""

    id: str
    text: str
    kind: CriterionKind


@dataclass(frozen=True, slots=True)
class Malformed:
    """A part of a structured field that breaks its contract; ``path`` leads to it."""

    path: tuple[str | int, ...]
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class NormalizedTaskObservability:
    """What a task says about its acceptance, whatever its age.

    ``acceptance`` is empty when there is none, or only free text; ``free_text`` is then that
    text as it was written. ``malformed`` is for a plan's author; free text never is.
    """

    acceptance: tuple[Criterion, ...] = ()
    free_text: str | tuple[str, ...] | None = None
    malformed: tuple[Malformed, ...] = ()


def normalize_task_observability(raw: Mapping[str, Any]) -> NormalizedTaskObservability:
    """Read the optional fields of a plan's line; absence is never an error."""
    acceptance = raw.get("acceptance")
    if acceptance is None:
        return NormalizedTaskObservability()
    if isinstance(acceptance, str):
        return NormalizedTaskObservability(free_text=acceptance)
    if not isinstance(acceptance, list | tuple):
        return _refused(("acceptance",), "acceptance is neither a list nor free text")
    if all(isinstance(entry, str) for entry in acceptance):
        return NormalizedTaskObservability(free_text=tuple(acceptance) or None)
    return _structured(acceptance)


_SHAPE = 'a criterion is {"id": "...", "text": "...", "kind": "auto" or "manual"}'


def _refused(path: tuple[str | int, ...], message: str) -> NormalizedTaskObservability:
    return NormalizedTaskObservability(malformed=(Malformed(path, message, _SHAPE),))


def _structured(entries: list[Any] | tuple[Any, ...]) -> NormalizedTaskObservability:
    criteria: list[Criterion] = []
    malformed: list[Malformed] = []
    places: dict[str, int] = {}
    for place, entry in enumerate(entries):
        wrong = _faults_of(entry, place)
        malformed.extend(wrong)
        if wrong:
            continue
        criterion = Criterion(entry["id"], entry["text"], CriterionKind(entry["kind"]))
        first = places.setdefault(criterion.id, place)
        if first != place:
            malformed.append(
                Malformed(
                    ("acceptance", place, "id"),
                    f"acceptance criterion {criterion.id!r} is there twice "
                    f"(numbers {first + 1} and {place + 1})",
                    "give each criterion of a task an id of its own",
                )
            )
            continue
        criteria.append(criterion)
    return NormalizedTaskObservability(tuple(criteria), None, tuple(malformed))


def _faults_of(entry: Any, place: int) -> list[Malformed]:
    where: tuple[str | int, ...] = ("acceptance", place)
    which = f"acceptance criterion number {place + 1}"
    if not isinstance(entry, Mapping):
        return [Malformed(where, f"{which} is not an object, while others are", _SHAPE)]
    wrong = []
    for name in ("id", "text"):
        if name not in entry:
            wrong.append(Malformed(where, f"{which} has no {name}", _SHAPE))
        elif not isinstance(entry[name], str) or not entry[name].strip():
            wrong.append(Malformed((*where, name), f"the {name} of {which} is not a text", _SHAPE))
    kind = entry.get("kind")
    if "kind" not in entry:
        wrong.append(Malformed(where, f"{which} has no kind", _SHAPE))
    elif not isinstance(kind, str) or kind not in tuple(CriterionKind):
        wrong.append(
            Malformed((*where, "kind"), f"the kind of {which} is neither auto nor manual", _SHAPE)
        )
    return wrong
