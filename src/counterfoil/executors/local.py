"""Starts commands under keepers on this machine, adopts living keepers, proves ends.

All that it must remember is in the attempt's folder; in memory are only the children that
it has to reap.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from counterfoil.core.clock import Clock
from counterfoil.core.errors import ExecutorError
from counterfoil.executors import folder as names
from counterfoil.executors import processes
from counterfoil.executors.folder import Folder
from counterfoil.executors.keeper import READY, Exit
from counterfoil.executors.processes import Identity
from counterfoil.ports.executor import Execution, ExitRecord, LaunchSpec, SweepReport

KEEPER_COMMAND = (sys.executable, "-I", "-m", "counterfoil.executors.keeper")
POLL_SECONDS = 0.05
INTRODUCTION_SECONDS = 10.0

WHY_IT_LEFT: dict[int, str] = {
    Exit.LOCK_HELD: "another keeper holds the folder",
    Exit.FENCED_OFF: "a newer fence is in the folder",
    Exit.ALREADY_STARTED: "this fence was used before",
    Exit.UNUSABLE: "the folder cannot be used",
}


class LocalExecution:
    """A command under a keeper of this machine, started here or adopted."""

    def __init__(self, executor: "LocalExecutor", home: Folder, fence: int, keeper: Identity):
        self.folder = home.path
        self.fence = fence
        self.keeper_pid = keeper.pid
        self._executor, self._home, self._keeper = executor, home, keeper

    @property
    def stdout(self) -> Path:
        return self.folder / names.STDOUT

    @property
    def stderr(self) -> Path:
        return self.folder / names.STDERR

    async def wait(self) -> ExitRecord | None:
        """Wait for the keeper's end. None: the keeper died and left no record."""
        await self._executor.gone(self._keeper)
        return self._record()

    async def end(self, requested_by: str) -> None:
        """Ask the keeper to end everything; the first who asked is the one recorded."""
        await to_thread.run_sync(self._ask, requested_by)

    def _ask(self, requested_by: str) -> None:
        if self._record() is not None or not processes.alive(self._keeper):
            return
        if self._home.asked_by() is None:
            with contextlib.suppress(OSError):  # a full disk: who asked is lost, the end is not
                self._home.write(names.END, requested_by.encode("utf-8", "replace"))
        processes.send(self._keeper.pid, self._keeper.start, signal.SIGTERM)

    def _record(self) -> ExitRecord | None:
        record = self._executor.record(self.folder)
        return record if record and record.fence == self.fence else None


class LocalExecutor:
    """Keepers on this machine. Implements ``ports.executor.Executor``.

    ``keeper_command`` runs a keeper when the folder is appended to it. A ``start`` that is
    cancelled may leave a keeper running: ``adopt`` finds it.
    """

    def __init__(
        self,
        clock: Clock,
        keeper_command: Sequence[str] | None = None,
        *,
        sweep_grace_seconds: float = 5.0,
    ) -> None:
        self._clock = clock
        self._command = tuple(keeper_command or KEEPER_COMMAND)
        self._sweep_grace_seconds = sweep_grace_seconds
        self._children: dict[int, subprocess.Popen[bytes]] = {}

    async def start(self, spec: LaunchSpec) -> Execution:
        """Start once per (folder, fence); returns when the keeper holds the folder's lock."""
        self._reap()
        home = Folder(spec.folder.absolute())
        child, ready = await to_thread.run_sync(self._launch, home, spec)
        try:
            await anyio.wait_readable(ready)
            is_ready = os.read(ready, len(READY)) == READY
        finally:
            os.close(ready)
        known = home.keeper() if is_ready else None
        if known is None:
            code = await to_thread.run_sync(child.wait)
            self._reap()
            raise _not_started(home, spec, code)
        keeper, fence = known
        return LocalExecution(self, home, fence, keeper)

    async def adopt(self, folder: Path) -> Execution | None:
        """The living keeper of this folder, or None when its lock is free."""
        home = Folder(folder.absolute())
        with anyio.move_on_after(INTRODUCTION_SECONDS):
            while home.is_locked():
                known = home.keeper()
                if known and known[1] == home.fence() and processes.alive(known[0]):
                    return LocalExecution(self, home, known[1], known[0])
                await anyio.sleep(POLL_SECONDS)  # it has the lock but no name yet
            return None
        raise ExecutorError(
            f"the lock of {folder} is held, but by no keeper that lives",
            hint="find its holder with `fuser` on the lock file",
        )

    def record(self, folder: Path) -> ExitRecord | None:
        """The newest exit record in the folder, if one was written."""
        try:
            return Folder(folder).record()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ExecutorError(f"the exit record in {folder} cannot be read: {error}") from error

    def started(self, folder: Path, fence: int) -> bool:
        """True when a keeper may have started the command under this fence."""
        return Folder(folder).is_used(fence)

    def fence_off(self, folder: Path, fence: int) -> bool:
        """Write a newer fence under the lock; False when a keeper is alive."""
        home = Folder(folder.absolute())
        with _prepared(home):
            home.make()
            lock = home.take_lock()
            if lock is None:
                return False
            try:
                if home.fence_before(fence):
                    home.write_fence(fence)
            finally:
                os.close(lock)
            return True

    async def sweep(self, marker: str, worktree: Path, since: int) -> SweepReport:
        """End what an attempt without a keeper left behind, until none is left."""
        search = processes.Search(
            marker=marker,
            worktree=_place(worktree),
            since=processes.start_unit(since, self._clock.now_us()),
        )
        end = partial(
            processes.end_tree,
            search,
            grace_seconds=self._sweep_grace_seconds,
            monotonic=self._clock.monotonic,
            wait=threading.Event().wait,
        )
        ending = await to_thread.run_sync(end)
        return SweepReport(ending.ended, ending.survivors, ending.strangers)

    def heard(self, folder: Path) -> None:
        """Tell the keeper that a runner lives; a folder that is gone has no keeper."""
        with contextlib.suppress(FileNotFoundError):
            Folder(folder).touch_heard()

    async def gone(self, keeper: Identity) -> None:
        """Wait until exactly this process has ended; reap it when it is our child."""
        handle = _handle(keeper)
        if handle is not None:
            try:
                await anyio.wait_readable(handle)
            finally:
                os.close(handle)
        while processes.alive(keeper):
            await anyio.sleep(POLL_SECONDS)
        self._reap()

    def _launch(self, home: Folder, spec: LaunchSpec) -> tuple[subprocess.Popen[bytes], int]:
        """Prepare the folder and spawn a keeper; returns it and the pipe it reports on."""
        with _prepared(home):
            home.make()
            lock = home.take_lock()
            if lock is None:
                raise _not_started(home, spec, Exit.LOCK_HELD)
            try:
                _hand_over(home, spec)
            finally:
                os.close(lock)
            return self._spawn(home, spec)

    def _spawn(self, home: Folder, spec: LaunchSpec) -> tuple[subprocess.Popen[bytes], int]:
        with contextlib.ExitStack() as opened:
            ready, report = os.pipe()
            opened.callback(os.close, report)
            log = home.open_output(names.KEEPER_LOG)
            opened.callback(os.close, log)
            source = opened.enter_context(_unnamed_file(names.launch_to_bytes(spec)))
            try:
                child = subprocess.Popen(
                    [*self._command, str(home.path)],
                    cwd="/",
                    stdin=source,
                    stdout=report,
                    stderr=log,
                    start_new_session=True,
                )
            except BaseException:
                os.close(ready)
                raise
        self._children[child.pid] = child
        return child, ready

    def _reap(self) -> None:
        for pid, child in list(self._children.items()):
            if child.poll() is not None:
                self._children.pop(pid, None)


def _place(worktree: Path) -> str:
    """Where a worktree is; a link that its agent has put in its place is not followed."""
    return str(worktree.parent.resolve() / worktree.name)


def _hand_over(home: Folder, spec: LaunchSpec) -> None:
    """Write what the keeper and a later runner need. The caller holds the lock."""
    if not home.fence_before(spec.fence) and home.fence() != spec.fence:
        raise _not_started(home, spec, Exit.FENCED_OFF)
    if home.is_used(spec.fence):
        raise _not_started(home, spec, Exit.ALREADY_STARTED)
    (home.path / names.END).unlink(missing_ok=True)
    home.touch_heard()
    home.write_json(names.SPEC, names.described(spec))
    home.write_fence(spec.fence)


def _not_started(home: Folder, spec: LaunchSpec, code: int) -> ExecutorError:
    why = WHY_IT_LEFT.get(code)
    if why is None:
        why = f"its keeper died (signal {-code})" if code < 0 else f"its keeper left with {code}"
    return ExecutorError(
        f"{spec.marker} was not started in {home.path}: {why}",
        hint=f"see {home.path / names.KEEPER_LOG}",
        details={"code": code, "fence": spec.fence},
    )


@contextlib.contextmanager
def _prepared(home: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExecutorError(
            f"the folder {home.path} cannot be used: {error}",
            hint="check the disk and the folder's owner",
        ) from error


@contextlib.contextmanager
def _unnamed_file(data: bytes) -> Iterator[int]:
    """A file without a name, read from its start: secrets leave no trace on the disk."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("launch")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    with os.fdopen(handle, "wb") as out:
        out.write(data)
        out.flush()
        out.seek(0)
        yield handle


def _handle(keeper: Identity) -> int | None:
    """A descriptor that becomes readable when this process ends, where there are such."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        handle = os.pidfd_open(keeper.pid)
    except OSError:
        return None
    if processes.alive(keeper):
        return handle
    os.close(handle)
    return None
