"""The small process that owns one attempt's agent process and outlives the runner.

Run as ``python -I -m counterfoil.executors.keeper FOLDER``: it reads the launch on stdin and
writes one line to stdout once it holds the folder's lock. Holding the lock *is* being alive:
it is let go only by the keeper's end, and before that the tree is empty and the exit record
synced. Stdlib only.
"""

import ctypes
import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from types import FrameType

from counterfoil.core.clock import Clock, SystemClock
from counterfoil.executors import processes
from counterfoil.executors.folder import KEEPER, STARTED, STDERR, STDOUT, Folder, launch_from_bytes
from counterfoil.ports.executor import ExitCause, ExitRecord, LaunchSpec

READY = b"ready\n"
LOCK_SECONDS = 2.0
LOCK_PAUSE_SECONDS = 0.01
TICK_SECONDS = 0.5
RECORD_SECONDS = 300.0
RECORD_PAUSE_SECONDS = 1.0
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
MOST_NOTES = 100
OUTPUT_LIMIT_BY = "keeper"
PR_SET_CHILD_SUBREAPER = 36


class Exit(IntEnum):
    """How a keeper leaves. All but RECORDED and RECORD_LOST: it has started nothing."""

    RECORDED = 0
    LOCK_HELD = 10
    FENCED_OFF = 11
    ALREADY_STARTED = 12
    UNUSABLE = 13
    RECORD_LOST = 14


class Leave(Exception):
    """Go away without having started anything."""

    def __init__(self, code: Exit, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the watch is over."""

    cause: ExitCause
    message: str = ""
    requested_by: str = ""


class Wake:
    """Sleep that a signal ends. SIGTERM is remembered; SIGHUP and SIGINT are survived.

    Handlers, not SIG_IGN: what is ignored stays ignored in the agent.
    """

    def __init__(self) -> None:
        self.terminated = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._noted)
        signal.signal(signal.SIGTERM, self._asked)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # one that was ignored would reach the agent

    def wait(self, seconds: float) -> None:
        """Return after so many seconds, or as soon as a signal came."""
        select.select([self._reader], [], [], max(seconds, 0.0))
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)

    def _noted(self, number: int, frame: FrameType | None) -> None:
        pass

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True


class Limits:
    """What ends an agent that does not end by itself, on the monotonic clock."""

    def __init__(self, launch: LaunchSpec, folder: Folder, now: float) -> None:
        self._launch, self._folder = launch, folder
        self._begun = self._grew = self._heard = now
        self._first_size = self._size = folder.output_size()
        self._mark = folder.heard_mark()

    def exceeded(self, now: float) -> Stop | None:
        size, mark = self._folder.output_size(), self._folder.heard_mark()
        if size != self._size:
            self._size, self._grew = size, now
        if mark != self._mark:
            self._mark, self._heard = mark, now
        launch = self._launch
        if _is_over(launch.timeout_seconds, self._begun, now):
            return Stop(ExitCause.TIMEOUT, f"it ran longer than {launch.timeout_seconds:g} s")
        if _is_over(launch.quiet_seconds, self._grew, now):
            return Stop(ExitCause.QUIET, f"it wrote nothing for {launch.quiet_seconds:g} s")
        if _is_over(launch.dead_man_seconds, self._heard, now):
            silence = f"no runner was heard for {launch.dead_man_seconds:g} s"
            return Stop(ExitCause.ORPHANED, silence)
        if self._size - self._first_size > launch.output_limit_bytes:
            limit = f"it wrote more than {launch.output_limit_bytes:,} bytes"
            return Stop(ExitCause.ENDED, limit, OUTPUT_LIMIT_BY)
        return None

    def next_look(self, now: float) -> float:
        """Seconds until the next deadline, at most one tick."""
        launch = self._launch
        deadlines = (
            (launch.timeout_seconds, self._begun),
            (launch.quiet_seconds, self._grew),
            (launch.dead_man_seconds, self._heard),
        )
        left = [since + limit - now for limit, since in deadlines if limit is not None]
        return min([TICK_SECONDS, *left])


class Keeper:
    """One agent process from before its start to the proof of its end."""

    def __init__(self, folder: Folder, launch: LaunchSpec, clock: Clock, wake: Wake) -> None:
        self.folder, self.launch = folder, launch
        self.wake, self._clock = wake, clock
        self._worktree = os.path.realpath(launch.worktree or launch.cwd)
        self._lock: int | None = None
        self._agent: subprocess.Popen[bytes] | None = None
        self._status: int | None = None
        self._begun_at, self._begun = clock.now_us(), clock.monotonic()
        self._over_at, self._over = self._begun_at, self._begun

    def run(self) -> Exit:
        """Take the folder, run the agent, leave the record; or leave having started nothing."""
        try:
            self.take_lock()
            self.check_turn()
            self.introduce()
        except Leave as leave:
            say(str(leave))
            return leave.code
        except OSError as error:
            say(f"{self.folder.path} cannot be used: {error}")
            return Exit.UNUSABLE
        return self.write_record(self.keep())

    def take_lock(self) -> None:
        """Hold the folder's lock for life. A runner may hold it for an instant."""
        until = self._clock.monotonic() + LOCK_SECONDS
        while True:
            self._lock = self.folder.take_lock()
            if self._lock is not None:
                return
            if self._clock.monotonic() >= until:
                raise Leave(Exit.LOCK_HELD, f"{self.folder.path} has a keeper already")
            self.wake.wait(LOCK_PAUSE_SECONDS)

    def check_turn(self) -> None:
        """Leave unless the fence in the folder is ours and nothing was started under it."""
        fence, mine = self.folder.fence(), self.launch.fence
        if fence != mine:
            raise Leave(Exit.FENCED_OFF, f"fence {mine} is not the folder's fence {fence}")
        if self.folder.is_used(mine):
            raise Leave(Exit.ALREADY_STARTED, f"fence {mine} was used before")

    def introduce(self) -> None:
        """Write who we are and tell the starter that the lock is held."""
        me = processes.identity(os.getpid())
        assert me is not None
        entry = {"pid": me.pid, "start": me.start, "boot_id": me.boot_id}
        self.folder.write_json(KEEPER, entry | {"fence": self.launch.fence})
        with suppress(OSError):  # the starter may be dead: that is its business
            os.write(1, READY)
        _detach()

    def keep(self) -> ExitRecord:
        """Start the agent, watch it, end all that is left of it."""
        self._begun_at, self._begun = self._clock.now_us(), self._clock.monotonic()
        self._over_at, self._over = self._begun_at, self._begun
        try:
            self.folder.reserve_record()
            self.note_start()
            asked = self.asked_to_end()
            if asked:
                return self._record(replace(asked, message="it was ended before it started"))
            self.spawn()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            why = _why_not_started(self.launch, error)
            return self._record(Stop(ExitCause.SPAWN_FAILED, why))
        stop = self.watch()
        ending = self.end_all()
        if self._status is None:
            self._note_over()
        return self._record(stop, ending)

    def note_start(self) -> None:
        """Synced before the spawn: no agent runs twice for one (folder, fence)."""
        entry = {"fence": self.launch.fence, "at": self._begun_at}
        self.folder.write_json(STARTED, entry)

    def spawn(self) -> None:
        """Start the agent in a session of its own, its output straight into files."""
        if not self.launch.argv:
            raise ValueError("it has no words")
        with ExitStack() as opened:
            source = os.open(self.launch.stdin or os.devnull, os.O_RDONLY)
            opened.callback(os.close, source)
            sinks = [self.folder.open_output(name) for name in (STDOUT, STDERR)]
            for sink in sinks:
                opened.callback(os.close, sink)
            self._agent = subprocess.Popen(
                self.launch.argv,
                cwd=self.launch.cwd,
                env={**self.launch.env, processes.MARKER: self.launch.marker},
                stdin=source,
                stdout=sinks[0],
                stderr=sinks[1],
                start_new_session=True,
            )

    def watch(self) -> Stop:
        """Wait for the agent's end, or for a reason to end it."""
        limits = Limits(self.launch, self.folder, self._clock.monotonic())
        while True:
            self.reap()
            if self._status is not None:
                return Stop(ExitCause.EXITED)
            now = self._clock.monotonic()
            stop = self.asked_to_end() or limits.exceeded(now)
            if stop:
                return stop
            self.wake.wait(limits.next_look(now))

    def asked_to_end(self) -> Stop | None:
        asked_by = self.folder.asked_by()
        if asked_by is None and not self.wake.terminated:
            return None
        return Stop(ExitCause.ENDED, requested_by="SIGTERM" if asked_by is None else asked_by)

    def reap(self) -> bool:
        """Reap every child that is over; True when there is none left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if self._agent is not None and pid == self._agent.pid:
                self._status = self._agent.returncode = os.waitstatus_to_exitcode(status)
                self._note_over()

    def end_all(self) -> processes.Ending:
        """End the agent's whole tree, after a success too, and prove it."""
        me = processes.process_of(os.getpid())
        search = processes.Search(
            marker=self.launch.marker,
            worktree=self._worktree,
            since=me.start + 1 if me else None,  # nobody of this attempt began in our first tick
            root=os.getpid(),
        )
        return processes.end_tree(
            search,
            grace_seconds=self.launch.grace_seconds,
            monotonic=self._clock.monotonic,
            wait=self.wake.wait,
            childless=self.reap,
        )

    def write_record(self, record: ExitRecord) -> Exit:
        """Write the exit record, synced; other errors than a full disk are tried for a while.

        While the disk is full the lock is kept: nobody may take the attempt for a lost one.
        """
        until = self._clock.monotonic() + RECORD_SECONDS
        while True:
            try:
                self.folder.write_record(record)
            except OSError as error:
                say(f"the exit record could not be written: {error}")
                is_late = error.errno == errno.ENOENT or self._clock.monotonic() >= until
                if is_late and error.errno not in FULL_DISK:
                    return Exit.RECORD_LOST
                self.wake.wait(RECORD_PAUSE_SECONDS)
            else:
                return Exit.RECORDED

    def _note_over(self) -> None:
        self._over_at, self._over = self._clock.now_us(), self._clock.monotonic()

    def _record(self, stop: Stop, ending: processes.Ending | None = None) -> ExitRecord:
        code, agent = self._status, self._agent.pid if self._agent else None
        ended = [note for note in ending.ended if note.pid != agent] if ending else []
        message = stop.message
        if len(ended) > MOST_NOTES:
            message = f"{message}; {len(ended)} left-over processes were ended".lstrip("; ")
        return ExitRecord(
            fence=self.launch.fence,
            cause=stop.cause,
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            started_at=self._begun_at,
            ended_at=self._over_at,
            duration_ms=round((self._over - self._begun) * 1000),
            message=message,
            requested_by=stop.requested_by,
            ended=tuple(ended[:MOST_NOTES]),
            survivors=ending.survivors[:MOST_NOTES] if ending else (),
            strangers=ending.strangers[:MOST_NOTES] if ending else (),
        )


def become_subreaper() -> None:
    """Let orphans of the tree become our children, where the system can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def say(sentence: str) -> None:
    """To the keeper's log; a full disk must not end the keeper."""
    with suppress(OSError):
        print(sentence, file=sys.stderr, flush=True)


def _detach() -> None:
    """Let go of the starter's pipe and of the launch that came on stdin."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0, inheritable=False)
    os.dup2(null, 1, inheritable=False)
    os.close(null)


def _is_over(limit: float | None, since: float, now: float) -> bool:
    return limit is not None and now - since >= limit


def _why_not_started(launch: LaunchSpec, error: Exception) -> str:
    program = launch.argv[0] if launch.argv else "an empty command"
    if not isinstance(error, OSError) or error.errno is None:
        return f"{program} could not be started: {error}"
    if not launch.cwd.is_dir():
        return f"{program} could not be started: its folder {launch.cwd} is gone"
    if launch.stdin is not None and not launch.stdin.is_file():
        return f"{program} could not be started: its input {launch.stdin} is gone"
    reasons = {
        errno.ENOENT: "there is no such program",
        errno.EACCES: "it may not be executed",
        errno.E2BIG: "its arguments and environment are too long for this system",
    }
    return f"{program} could not be started: {reasons.get(error.errno, error.strerror)}"


def run(folder: Path, keeper: Callable[[Folder, LaunchSpec, Clock, Wake], Keeper]) -> Exit:
    """The keeper's whole life, with the launch on stdin."""
    wake = Wake()
    become_subreaper()
    try:
        launch = launch_from_bytes(sys.stdin.buffer.read())
    except (ValueError, KeyError, TypeError) as error:
        say(f"stdin holds no launch: {error!r}")
        return Exit.UNUSABLE
    return keeper(Folder(folder), launch, SystemClock(), wake).run()


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), Keeper))
