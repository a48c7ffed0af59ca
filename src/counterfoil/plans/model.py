"""A plan as values: what its author wrote, after aliases and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

EMPTY: Mapping[str, Any] = MappingProxyType({})


class OnNoChange(StrEnum):
    """What a prompt task that changed nothing means."""

    ACCEPT = "accept"
    ASK = "ask"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Gate:
    """A command that judges a merged candidate on a fresh checkout.

    ``fail_class`` is one of build, typecheck, lint, test, timeout, other, or None when the
    author declared none. ``cwd`` is relative to the checkout's root.
    """

    name: str
    run: tuple[str, ...]
    fail_class: str | None = None
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float | None = None
    accepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One line of a plan.

    ``files`` are the globs it will touch; an empty tuple claims nothing. ``gates`` are its
    own, else the plan's. ``retries`` is how many further attempts it may have. ``raw`` is
    the line as it was read, unknown fields included, and is written back unchanged.
    """

    id: str
    title: str
    prompt: str | None = None
    run: tuple[str, ...] | None = None
    depends_on: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()
    prepare: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    agent: str | None = None
    agent_options: Mapping[str, Any] = field(default_factory=dict)
    timeout_seconds: float | None = None
    retries: int = 1
    priority: int = 0
    on_no_change: OnNoChange = OnNoChange.ASK
    line: int = 0
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_command(self) -> bool:
        """A plain command, whose lack of a change is an accepted outcome."""
        return self.run is not None


@dataclass(frozen=True, slots=True)
class Plan:
    """Tasks in the order of their lines. ``header`` is the first line's ``plan`` object."""

    name: str
    tasks: tuple[Task, ...]
    header: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def task(self, task_id: str) -> Task:
        """Raises ``KeyError`` for an unknown id."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise KeyError(task_id)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a plan: where (1-based line and column), what, and the way out."""

    line: int
    column: int
    code: str
    message: str
    hint: str = ""
    task_id: str | None = None
