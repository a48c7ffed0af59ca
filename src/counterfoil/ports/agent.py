"""What an agent's adapter declares: how to start it and how to read what it says.

An adapter never decides alone: the verdict is a pure function of how the process ended, what
the reader reports here, and what changed in the repository.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol


class ErrorClass(StrEnum):
    """What failed. The first group is trouble of the surroundings, the second of the task."""

    AUTH = "auth"
    BILLING = "billing"
    RATE_LIMIT = "rate_limit"
    PROVIDER = "provider"
    NETWORK = "network"
    DISK = "disk"
    AGENT_MISSING = "agent_missing"

    PERMISSION_DENIED = "permission_denied"
    CONTEXT_OVERFLOW = "context_overflow"
    REFUSED = "refused"
    LIMIT = "limit"
    TIMEOUT = "timeout"
    HANG = "hang"
    CRASH = "crash"
    EXIT = "exit"
    NO_RESULT = "no_result"
    WORKSPACE = "workspace"

    @property
    def of_surroundings(self) -> bool:
        """True: the run is parked; False: the task spends its retries."""
        return self in _SURROUNDINGS


_SURROUNDINGS = frozenset(
    {
        ErrorClass.AUTH,
        ErrorClass.BILLING,
        ErrorClass.RATE_LIMIT,
        ErrorClass.PROVIDER,
        ErrorClass.NETWORK,
        ErrorClass.DISK,
        ErrorClass.AGENT_MISSING,
    }
)


@dataclass(frozen=True, slots=True)
class Brief:
    """What an attempt is asked to do.

    ``feedback`` is the output of the gate that failed before, at hand for the retry;
    ``session`` an earlier session of the same agent to go on with.
    """

    task_id: str
    title: str
    prompt: str | None
    run: tuple[str, ...] | None
    worktree: Path
    folder: Path
    feedback: Path | None = None
    session: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Launch:
    """The command line, what it needs from the environment, and what it reads on stdin."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    quiet_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of this process only (a delta). None is unknown, never 0.

    ``input_tokens`` counts uncached input; cache reads and writes are apart. ``cost`` is an
    exact decimal as text, with its currency and who said so.
    """

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: str | None = None
    currency: str | None = None
    cost_source: str = "unknown"


@dataclass(frozen=True, slots=True)
class Terminal:
    """The event by which the agent said that it is through."""

    ok: bool
    error_class: ErrorClass | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All that was read from an agent's output. ``resets_at``: seconds since 1970."""

    session: str | None = None
    model: str | None = None
    version: str | None = None
    terminal: Terminal | None = None
    usage: tuple[Usage, ...] = ()
    denials: int = 0
    error_class: ErrorClass | None = None
    message: str = ""
    resets_at: int | None = None
    unread_lines: int = 0


class Reader(Protocol):
    """Reads an agent's output line by line; unknown lines are counted, never fatal."""

    def feed(self, line: bytes) -> None:
        """One line without its end; a line over the framer's limit arrives cut."""
        ...

    @property
    def finished(self) -> bool:
        """True once the terminal event was seen: what the process does after is not work."""
        ...

    def report(self, stderr_tail: bytes = b"") -> Report: ...


class Agent(Protocol):
    """One kind of agent.

    ``terminal_expected``: without a terminal event nothing has succeeded.
    ``secrets``: names of environment variables that it passes on and that must be redacted.
    ``environment``: names of variables that it takes over from the runner's environment; empty
    means all of them.
    """

    name: str
    terminal_expected: bool
    secrets: Sequence[str]
    environment: Sequence[str]

    def launch(self, brief: Brief) -> Launch:
        """Raises ``AgentUnavailable`` when its program is not installed."""
        ...

    def reader(self) -> Reader: ...
