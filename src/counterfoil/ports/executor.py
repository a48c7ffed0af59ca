"""What starts a command under a keeper, adopts it after a crash, and ends all it started.

The folder is the attempt's: it holds the spec, the lock (holding it *is* being alive), the
fence, the spooled output and the exit record. Holding nothing in memory that is not in the
folder is what makes adoption possible.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class ExitCause(StrEnum):
    """Why the agent's process is over."""

    EXITED = "exited"
    TIMEOUT = "timeout"
    QUIET = "quiet"
    ENDED = "ended"
    ORPHANED = "orphaned"
    SPAWN_FAILED = "spawn_failed"


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One command to run under a keeper.

    ``marker`` is put into the environment of all that it starts (the judged attempt's id).
    ``worktree``: the one place that is searched for processes to end; None is ``cwd``. Whoever
    lets others choose ``cwd`` gives it: ``cwd`` may be a link to somewhere else.
    Launches with one marker, or in one worktree, run one after the other: the end of each
    ends all that carries the marker or works there.
    ``fence`` is unique within ``folder``: one (folder, fence) is started at most once.
    ``env`` is the complete environment. ``stdin`` is a file, ``None`` is an empty one.
    ``quiet_seconds``: how long without a byte of output counts as a hang; ``None`` never.
    ``dead_man_seconds``: how long the keeper goes on when it hears from no runner.
    ``output_limit_bytes``: who writes more is ended, requested by ``keeper``.
    """

    marker: str
    fence: int
    folder: Path
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    stdin: Path | None = None
    timeout_seconds: float | None = None
    quiet_seconds: float | None = None
    dead_man_seconds: float | None = None
    grace_seconds: float = 5.0
    output_limit_bytes: int = 1 << 30
    worktree: Path | None = None


@dataclass(frozen=True, slots=True)
class ProcessNote:
    """A process that was ended, or one that was only reported."""

    pid: int
    command: str
    how: str


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """What the keeper wrote, synced, when the tree was empty.

    ``exit_code`` is None when a signal ended the process or it never started.
    ``ended`` are the left-over processes that had to be ended; ``survivors`` those that could
    not be; ``strangers`` those inside the worktree that belong to somebody else.
    """

    fence: int
    cause: ExitCause
    exit_code: int | None
    signal: int | None
    started_at: int
    ended_at: int
    duration_ms: int
    message: str = ""
    requested_by: str = ""
    ended: tuple[ProcessNote, ...] = ()
    survivors: tuple[ProcessNote, ...] = ()
    strangers: tuple[ProcessNote, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What was left of an attempt whose keeper died, and what became of it."""

    ended: tuple[ProcessNote, ...]
    survivors: tuple[ProcessNote, ...]
    strangers: tuple[ProcessNote, ...]

    @property
    def empty(self) -> bool:
        """Proof that nothing of the attempt lives."""
        return not self.survivors


class Execution(Protocol):
    """A command that runs, or ran, under a keeper."""

    folder: Path
    fence: int
    keeper_pid: int

    @property
    def stdout(self) -> Path: ...

    @property
    def stderr(self) -> Path: ...

    async def wait(self) -> ExitRecord | None:
        """Wait for the keeper's end. None: the keeper died and left no record."""
        ...

    async def end(self, requested_by: str) -> None:
        """Ask the keeper to end everything; ``wait`` then returns with the proof."""
        ...


class Executor(Protocol):
    """Starts, adopts and proves the end of commands under keepers."""

    async def start(self, spec: LaunchSpec) -> Execution:
        """Start once per (folder, fence). Raises ``ExecutorError`` when it cannot."""
        ...

    async def adopt(self, folder: Path) -> Execution | None:
        """The living keeper of this folder, or None when its lock is free."""
        ...

    def record(self, folder: Path) -> ExitRecord | None:
        """The exit record in the folder, if one was written."""
        ...

    def started(self, folder: Path, fence: int) -> bool:
        """True when a keeper may have started the command under this fence."""
        ...

    def fence_off(self, folder: Path, fence: int) -> bool:
        """Write a newer fence under the lock, so that a late keeper leaves.

        False when a keeper holds the lock (it is alive).
        """
        ...

    async def sweep(self, marker: str, worktree: Path, since: int) -> SweepReport:
        """End what an attempt without a keeper left behind, until none is left.

        ``since``: microseconds; processes inside the worktree that are older are strangers.
        """
        ...

    def heard(self, folder: Path) -> None:
        """Tell the keeper that a runner lives (resets its dead-man time)."""
        ...
