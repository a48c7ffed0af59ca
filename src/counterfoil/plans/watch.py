"""Starts a command under its keeper, waits for it while reading what it says, ends what is left.

Output is read from the spooled file in bounded pieces; the file is the truth, so a reader that
comes later (after a crash) reads the same from the start.
"""

import contextlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from counterfoil.core.clock import Clock
from counterfoil.core.errors import ExecutorError, IntegrityFault, StaleFence, StoreUnavailable
from counterfoil.core.limits import MAX_LINE_BYTES
from counterfoil.core.lines import FileTail, LineFramer
from counterfoil.ledger.values import AttemptRow
from counterfoil.plans.control import Control
from counterfoil.plans.patience import Patience, disk_full, no_room
from counterfoil.plans.verdict import FINISHED
from counterfoil.ports.agent import Reader
from counterfoil.ports.executor import Execution, Executor, ExitRecord, LaunchSpec

LOOK_SECONDS = 0.25


async def start_with_room(executor: Executor, spec: LaunchSpec) -> Execution:
    """Start a command; that it could not be for want of room is the disk's error."""
    try:
        return await executor.start(spec)
    except ExecutorError as error:
        if no_room(spec.folder):
            raise disk_full(spec.folder) from error
        raise


async def sweep(executor: Executor, attempt: AttemptRow, place: str | Path) -> None:
    """End what a lost keeper left in a place. Raises ``ExecutorError`` without proof."""
    swept = await executor.sweep(attempt.id, Path(place), attempt.created_at)
    if not swept.empty:
        left = ", ".join(f"{note.pid} {note.command}" for note in swept.survivors)
        raise ExecutorError(
            f"processes of {attempt.id} could not be ended: {left}",
            hint="end them by hand; nothing is started again before",
        )


async def quell(executor: Executor, folder: Path, fence: int) -> None:
    """End the keeper that a runner before left in a folder; one that is late begins nothing."""
    while not executor.fence_off(folder, fence):
        execution = await executor.adopt(folder)
        if execution is not None:
            await execution.end("recovery")
            await execution.wait()


@dataclass(slots=True)
class Watch:
    """Follows one execution to its end."""

    executor: Executor
    control: Control
    clock: Clock
    linger_seconds: float
    patience: Patience

    async def follow(
        self, name: str, execution: Execution, reader: Reader | None
    ) -> ExitRecord | None:
        """The exit record, or None when the keeper died without one.

        A process that stays after its terminal event is asked to end after ``linger_seconds``.
        """
        self.control.live[name] = execution
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._look, execution, reader)
                group.start_soon(self._mind_room, execution.folder)
                record = await execution.wait()
                group.cancel_scope.cancel()
            return record
        finally:
            self.control.live.pop(name, None)

    async def _mind_room(self, folder: Path) -> None:
        """Stall the run, and have it told, while a living command's folder has no room."""
        while True:
            # The run is to stop, or another driver has it: that is not for a watch to tell.
            with contextlib.suppress(OSError, StaleFence):
                await self.patience.insist(partial(_find_room, folder))
            await anyio.sleep(LOOK_SECONDS)

    async def _look(self, execution: Execution, reader: Reader | None) -> None:
        said = Transcript(execution.stdout, reader) if reader else None
        finished_at: float | None = None
        while True:
            with contextlib.suppress(OSError):  # a full disk: the agent lives on all the same
                self.executor.heard(execution.folder)
            if said is not None:
                try:
                    await anyio.to_thread.run_sync(said.read_on)
                except StoreUnavailable:
                    pass
                except IntegrityFault:  # the agent cut its own output: what is left is read after
                    said = None
                if reader is not None and reader.finished:
                    finished_at = finished_at or self.clock.monotonic()
            if finished_at and self.clock.monotonic() - finished_at > self.linger_seconds:
                with contextlib.suppress(OSError):
                    await execution.end(FINISHED)
                    finished_at = said = reader = None
            await anyio.sleep(LOOK_SECONDS)


async def _find_room(folder: Path) -> None:
    if no_room(folder):
        raise disk_full(folder)


class Transcript:
    """Feeds a reader with the lines of a growing file."""

    def __init__(self, path: Path, reader: Reader) -> None:
        self._tail = FileTail(path, 0)
        self._framer = LineFramer(MAX_LINE_BYTES)
        self._reader = reader

    def read_on(self) -> None:
        """Feed what has come since."""
        for chunk in self._tail.chunks():
            for line in self._framer.feed(chunk):
                self._reader.feed(line.data)

    def finish(self) -> None:
        """Feed the rest, a torn last line included."""
        self.read_on()
        rest = self._framer.rest()
        if rest is not None:
            self._reader.feed(rest.data)
