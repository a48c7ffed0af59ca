"""The processes of this machine: who they are, which belong to an attempt, and their end.

Read from /proc; where there is none, ``without_proc`` answers. Nothing here knows of folders,
fences or records.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from counterfoil.executors import without_proc
from counterfoil.ports.executor import ProcessNote

MARKER = "COUNTERFOIL_ATTEMPT"

PROC = Path("/proc")
KILL_SECONDS = 10.0
STORM = 200
LOOKS = 3
FIRST_LOOK_SECONDS = 0.01
SLOWEST_LOOK_SECONDS = 0.1
COMMAND_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Process:
    """One row of the process table.

    ``start`` is in the unit of ``start_unit`` and makes ``pid`` unambiguous within a boot.
    """

    pid: int
    ppid: int
    group: int
    start: int
    state: str
    terminal: bool

    @property
    def dead(self) -> bool:
        """A zombie runs nothing; it only waits for its parent."""
        return self.state in {"Z", "X"}


@dataclass(frozen=True, slots=True)
class Identity:
    """A process that no other process can be taken for, over pid reuse and reboots."""

    pid: int
    start: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class Search:
    """What belongs to an attempt: descendants of ``root``, the marked and their descendants,
    and whoever works inside ``worktree``, started at or after ``since`` and has no terminal.

    ``since`` is in the unit of ``start``; with None nobody is ended for where it works.
    """

    marker: str
    worktree: str
    since: int | None
    root: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """``belonging`` and ``strangers`` map to the reason.

    ``groups`` are the process groups of which every member belongs, with their leaders.
    """

    belonging: Mapping[Process, str]
    strangers: Mapping[Process, str]
    groups: Mapping[int, Process | None]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a tree ended. Without survivors it is the proof that nothing of it lives."""

    ended: tuple[ProcessNote, ...]
    survivors: tuple[ProcessNote, ...]
    strangers: tuple[ProcessNote, ...]


def table() -> dict[int, Process]:
    """All processes by pid."""
    return {process.pid: process for process in map(process_of, _pids()) if process}


def process_of(pid: int) -> Process | None:
    """The process with this pid now, or None."""
    if not _has_proc():
        row = without_proc.row(pid)
        return None if row is None else Process(**row)
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    leader_left = fields[0] == b"Z" and int(fields[17]) > 1  # its other threads still run
    return Process(
        pid=pid,
        ppid=int(fields[1]),
        group=int(fields[2]),
        start=int(fields[19]),
        state="S" if leader_left else fields[0].decode(),
        terminal=fields[4] != b"0",
    )


def boot_id() -> str:
    """Names this boot of the machine: pids and start times mean nothing in another."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return without_proc.boot_id()


def identity(pid: int) -> Identity | None:
    """Who has this pid now; None when nobody (alive) has."""
    process = process_of(pid)
    if process is None or process.dead:
        return None
    return Identity(pid, process.start, boot_id())


def alive(known: Identity) -> bool:
    """True while exactly this process runs; a zombie does not."""
    return identity(known.pid) == known


def start_unit(since_us: int, now_us: int) -> int | None:
    """The first ``Process.start`` after this wall time (microseconds since 1970).

    None when that was before this boot: nothing from then can be running.
    """
    if not _has_proc():
        return since_us + 1
    uptime_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    since_boot_us = uptime_us - (now_us - since_us)
    if since_boot_us < 0:
        return None
    return since_boot_us * os.sysconf("SC_CLK_TCK") // 1_000_000 + 1


def carries(pid: int, marker: str) -> bool:
    """Whether the process was started with ``COUNTERFOIL_ATTEMPT=<marker>``."""
    if not _has_proc():
        return (without_proc.ask(pid, "environ") or {}).get(MARKER) == marker
    try:
        environ = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False
    return f"\0{MARKER}={marker}\0".encode() in b"\0" + environ + b"\0"


def working_folder(pid: int) -> str | None:
    """Where the process works, also when that folder was deleted; None when hidden."""
    if not _has_proc():
        return cast("str | None", without_proc.ask(pid, "cwd"))
    try:
        return str((PROC / str(pid) / "cwd").readlink()).removesuffix(" (deleted)")
    except OSError:
        return None


def command_of(pid: int) -> str:
    """The command line for people, cut; empty when the process is gone."""
    if not _has_proc():
        return " ".join(without_proc.ask(pid, "cmdline") or ())[:COMMAND_CHARACTERS]
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().rstrip(b"\0")
        name = words or (PROC / str(pid) / "comm").read_bytes().rstrip(b"\n")
    except OSError:
        return ""
    return name.replace(b"\0", b" ").decode("utf-8", "replace")[:COMMAND_CHARACTERS]


def descendants(
    roots: Iterable[int], rows: Mapping[int, Process], safe: frozenset[int]
) -> list[Process]:
    """Those below the roots, without these; not through the safe."""
    children: dict[int, list[Process]] = {}
    for process in rows.values():
        parent = rows.get(process.ppid)
        is_older = parent is not None and parent.start <= process.start  # or its pid was reused
        if is_older and process.pid not in safe:
            children.setdefault(process.ppid, []).append(process)
    below: list[Process] = []
    frontier = list(roots)
    while frontier:
        below += (young := children.pop(frontier.pop(), []))
        frontier += [process.pid for process in young]
    return below


def spared(rows: Mapping[int, Process]) -> frozenset[int]:
    """Never to be signalled: this process, all above it, and pid 1."""
    pids = {0, 1}
    pid = os.getpid()
    while pid not in pids:
        pids.add(pid)
        pid = rows[pid].ppid if pid in rows else 0
    return frozenset(pids)


def find(search: Search) -> Found:
    """One look at the process table, the youngest first: they may be gone a moment later."""
    rows: dict[int, Process] = {}
    marked: list[Process] = []
    for pid in sorted(_pids(), reverse=True):
        process = process_of(pid)
        if process is None or process.dead:
            continue
        rows[pid] = process
        if not _is_kernel(process) and carries(pid, search.marker):
            marked.append(process)
    safe = spared(rows)
    marked = [process for process in marked if process.pid not in safe]
    roots = [] if search.root is None else [search.root]
    belonging = dict.fromkeys(descendants(roots, rows, safe), "descendant")
    for process in marked:
        belonging.setdefault(process, "marked")
    for process in descendants([process.pid for process in marked], rows, safe):
        belonging.setdefault(process, "descendant")
    strangers: dict[Process, str] = {}
    for process in rows.values():
        if process in belonging or process.pid in safe or _is_kernel(process):
            continue
        if _is_inside(process.pid, search.worktree):
            reason = _strange(process, search.since)
            (strangers if reason else belonging)[process] = reason or "inside the worktree"
    return Found(belonging, strangers, _whole_groups(rows, belonging, safe))


def _whole_groups(
    rows: Mapping[int, Process], belonging: Mapping[Process, str], safe: frozenset[int]
) -> dict[int, Process | None]:
    """Groups without an outsider; one whose parent left during the look may be none."""
    outsiders = [
        process
        for process in rows.values()
        if process not in belonging
        and (process.pid in safe or process.ppid == 0 or process.ppid in rows)
    ]
    groups = {process.group for process in belonging}
    groups -= {0, 1} | {process.group for process in outsiders}
    return {group: rows.get(group) for group in groups}


def send(pid: int, start: int, number: signal.Signals) -> bool:
    """Signal exactly this process. False when it is gone, recycled or not ours to signal."""
    with contextlib.suppress(OSError), _held(pid) as handle:
        now = process_of(pid)
        if now is None or now.dead or now.start != start:
            return False
        if handle is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(handle, number)  # type: ignore[attr-defined, unused-ignore]
        return True
    return False


def end_tree(
    search: Search,
    *,
    grace_seconds: float,
    monotonic: Callable[[], float],
    wait: Callable[[float], object],
    childless: Callable[[], bool] | None = None,
) -> Ending:
    """End all that the search finds: SIGTERM, the grace, then SIGKILL until none is left.

    ``wait`` sleeps at most so many seconds. ``childless`` reaps this process's children and
    says whether none is left, which for a subreaper proves that it has no descendants. Who is
    none looks ``LOOKS`` times, and may still miss a chain whose members live for less than a
    millisecond each. A storm of forks gets no grace. What lives ``KILL_SECONDS`` after the
    grace is a survivor.
    """
    ended: dict[tuple[int, int], ProcessNote] = {}
    kill_at = monotonic() + grace_seconds
    pause = FIRST_LOOK_SECONDS
    looks_left = LOOKS
    while True:
        if childless:
            childless()
        found = find(search)
        looks_left = LOOKS if found.belonging else looks_left - 1
        if not found.belonging and (childless() if childless else not looks_left):
            return Ending(tuple(ended.values()), (), notes(found.strangers))
        now = monotonic()
        if now >= kill_at + KILL_SECONDS:
            return Ending(tuple(ended.values()), notes(found.belonging), notes(found.strangers))
        killing = now >= kill_at
        news = _signal_all(found, ended, killing)
        if len(ended) > STORM:
            kill_at = min(kill_at, now)
        if not (news and killing):
            pause = FIRST_LOOK_SECONDS if news else min(pause * 1.5, SLOWEST_LOOK_SECONDS)
            wait(pause)


def notes(processes: Mapping[Process, str]) -> tuple[ProcessNote, ...]:
    """Processes and reasons, for a report."""
    return tuple(
        ProcessNote(process.pid, command_of(process.pid), why) for process, why in processes.items()
    )


def _signal_all(found: Found, ended: dict[tuple[int, int], ProcessNote], killing: bool) -> int:
    """Signal whoever was not signalled so before; returns how many were new."""
    number = signal.SIGKILL if killing else signal.SIGTERM
    killed: set[int] = set()
    news = 0
    for process, why in found.belonging.items():
        key = (process.pid, process.start)
        before = ended.get(key)
        if before is not None and before.how.startswith(number.name):
            continue
        command = before.command if before else command_of(process.pid)
        group = process.group
        if killing and group in found.groups and group not in killed:
            killed |= _kill_group(group, found.groups[group])
        if group not in killed and not send(process.pid, process.start, number):
            continue
        if process.state in {"T", "t"} and not killing:
            send(process.pid, process.start, signal.SIGCONT)  # or the SIGTERM stays unread
        ended[key] = ProcessNote(process.pid, command, f"{number.name} ({why})")
        news += before is None
    return news


def _kill_group(group: int, leader: Process | None) -> set[int]:
    """Kill a group at once, so that who forks a successor and leaves cannot slip out.

    Not when another process has the leader's pid by now: the group is another one, too.
    """
    now = process_of(group)
    if now is not None and (leader is None or now.start != leader.start):
        return set()
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
        return {group}
    return set()


def _strange(process: Process, since: int | None) -> str:
    """Why a process inside the worktree is somebody else's; empty when it is not."""
    if since is None or process.start < since:
        return "older than the attempt"
    return "has a terminal" if process.terminal else ""


def _is_inside(pid: int, worktree: str) -> bool:
    root = worktree.rstrip("/")
    folder = working_folder(pid)
    return bool(root) and folder is not None and (folder + "/").startswith(root + "/")


def _is_kernel(process: Process) -> bool:
    return _has_proc() and 2 in (process.pid, process.ppid)


def _has_proc() -> bool:
    return sys.platform == "linux"


def _pids() -> list[int]:
    if not _has_proc():
        return without_proc.pids()
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]  # noqa: PTH208 - hot


@contextlib.contextmanager
def _held(pid: int) -> Iterator[int | None]:
    """A handle that keeps the pid from meaning another process; None where there is none."""
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)
