"""Who processes are, which belong to an attempt, and that all of those end."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.executors import processes
from counterfoil.executors.processes import Search

PYTHON = (sys.executable, "-I")
AGENT = (*PYTHON, "-m", "counterfoil.testing.scripted_agent")

Spawn = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start a child that is killed after the test."""
    children: list[subprocess.Popen[bytes]] = []

    def start(*argv: str, **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("env", {"PATH": os.environ["PATH"]})
        child = subprocess.Popen(argv, **options)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


@pytest.fixture
def end(marker: str, worktree: Path) -> Callable[..., processes.Ending]:
    def run(since: int | None = 0, grace: float = 0.3) -> processes.Ending:
        return processes.end_tree(
            Search(marker, os.path.realpath(worktree), since),
            grace_seconds=grace,
            monotonic=time.monotonic,
            wait=time.sleep,
        )

    return run


@pytest.fixture
def environment(marker: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], processes.MARKER: marker}


def start_of(pid: int) -> int:
    process = processes.process_of(pid)
    assert process is not None
    return process.start


def test_an_identity_is_of_one_process_in_one_boot(spawn: Spawn) -> None:
    child = spawn("sleep", "60")
    known = processes.identity(child.pid)
    assert known is not None
    assert processes.alive(known)
    assert not processes.alive(processes.Identity(known.pid, known.start - 1, known.boot_id))
    assert not processes.alive(processes.Identity(known.pid, known.start, "another boot"))


def test_a_zombie_is_not_alive(spawn: Spawn, until: Callable[..., Any]) -> None:
    child = spawn("sleep", "60")
    known = processes.identity(child.pid)
    assert known is not None
    child.kill()
    until(lambda: not processes.alive(known))
    assert processes.process_of(child.pid) is not None, "it is still in the table, unreaped"


def test_a_process_whose_first_thread_left_is_alive(
    spawn: Spawn, until: Callable[..., Any]
) -> None:
    script = """
        import ctypes, threading
        threading.Thread(target=threading.Event().wait).start()
        print("ready", flush=True)
        ctypes.CDLL(None).pthread_exit(None)
    """
    child = spawn(*PYTHON, "-c", textwrap.dedent(script), stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    until(lambda: b"State:\tZ" in Path(f"/proc/{child.pid}/status").read_bytes())
    assert processes.identity(child.pid) is not None


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_a_recycled_pid_is_never_signalled(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch, has_pidfd: bool
) -> None:
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    child = spawn("sleep", "60")
    start = start_of(child.pid)
    assert not processes.send(child.pid, start - 1, signal.SIGKILL)
    assert child.poll() is None
    assert processes.send(child.pid, start, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not processes.send(child.pid, start, signal.SIGKILL)


def test_the_marked_are_ended_with_their_unmarked_children(
    spawn: Spawn, end: Callable[..., Any], environment: dict[str, str], tmp_path: Path
) -> None:
    child = spawn(*AGENT, f"escapee:60={tmp_path / 'pid'}", "hang", env=environment)
    shell = spawn("/bin/sh", "-c", "env -i sleep 60; true", env=environment, cwd="/")
    while not (tmp_path / "pid").exists() or not _children(shell.pid):
        time.sleep(0.01)
    grandchild = _children(shell.pid)[0]
    ending = end()
    assert child.wait() == -signal.SIGTERM
    assert shell.wait() == -signal.SIGTERM
    assert {child.pid, shell.pid, grandchild} <= {note.pid for note in ending.ended}
    assert ending.survivors == ()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)  # only a subreaper finds it


def _children(pid: int) -> list[int]:
    return [row.pid for row in processes.table().values() if row.ppid == pid]


def test_an_unmarked_process_inside_the_worktree_is_ended(
    spawn: Spawn, end: Callable[..., Any], worktree: Path
) -> None:
    child = spawn("sleep", "60", cwd=worktree)
    (note,) = end().ended
    assert (note.pid, note.command) == (child.pid, "sleep 60")
    assert note.how == "SIGTERM (inside the worktree)"


def test_a_neighbour_whose_folder_begins_alike_is_not_inside(
    spawn: Spawn, end: Callable[..., Any], worktree: Path
) -> None:
    neighbour = worktree.with_name(worktree.name + "2")
    neighbour.mkdir()
    child = spawn("sleep", "60", cwd=neighbour)
    ending = end()
    assert (ending.ended, ending.strangers) == ((), ())
    assert child.poll() is None


def test_nobody_is_inside_a_worktree_that_is_the_root_folder(marker: str, spawn: Spawn) -> None:
    spawn("sleep", "60", cwd="/")
    found = processes.find(Search(marker, "/", since=0))
    assert (found.belonging, found.strangers) == ({}, {})


def test_a_process_inside_a_deleted_worktree_is_found(
    spawn: Spawn, end: Callable[..., Any], worktree: Path
) -> None:
    child = spawn("sleep", "60", cwd=worktree)
    worktree.rmdir()
    assert [note.pid for note in end().ended] == [child.pid]


def test_an_older_process_inside_the_worktree_is_reported_not_ended(
    spawn: Spawn, end: Callable[..., Any], worktree: Path
) -> None:
    child = spawn("sleep", "60", cwd=worktree)
    for since in (start_of(child.pid) + 1, None):
        ending = end(since=since)
        assert ending.ended == ()
        (note,) = ending.strangers
        assert (note.pid, note.how) == (child.pid, "older than the attempt")
    assert child.poll() is None


def test_a_process_with_a_terminal_inside_the_worktree_is_reported_not_ended(
    spawn: Spawn, end: Callable[..., Any], worktree: Path
) -> None:
    script = """
        import os, pty, sys
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(sys.argv[1])
            os.write(1, b"here")
            os.execvp("sleep", ["sleep", "60"])
        os.read(terminal, 4)
        print(pid, flush=True)
        os.waitpid(pid, 0)
    """
    holder = spawn(
        *PYTHON, "-c", textwrap.dedent(script), str(worktree), stdout=subprocess.PIPE, cwd="/"
    )
    assert holder.stdout is not None
    pid = int(holder.stdout.readline())
    ending = end()
    assert ending.ended == ()
    assert [(note.pid, note.how) for note in ending.strangers] == [(pid, "has a terminal")]
    assert processes.identity(pid) is not None


def test_who_ends_a_tree_spares_itself_and_all_above_it(
    spawn: Spawn, environment: dict[str, str], worktree: Path, marker: str
) -> None:
    script = """
        import os, sys, time
        from counterfoil.executors.processes import Search, end_tree
        search = Search(sys.argv[1], os.getcwd(), since=0)
        clock = dict(monotonic=time.monotonic, wait=time.sleep)
        print(end_tree(search, grace_seconds=0, **clock).ended)
    """
    # The shell above it carries the marker and works in the worktree, too.
    inner = f"{' '.join(PYTHON)} -c '{textwrap.dedent(script)}' {marker}; echo parent lives"
    child = spawn("/bin/sh", "-c", inner, env=environment, cwd=worktree, stdout=subprocess.PIPE)
    said, _ = child.communicate()
    assert said.decode().splitlines() == ["()", "parent lives"]


def test_a_stopped_process_gets_to_read_its_sigterm(
    spawn: Spawn, end: Callable[..., Any], environment: dict[str, str], until: Callable[..., Any]
) -> None:
    child = spawn(*AGENT, "stop", env=environment, cwd="/")
    until(lambda: (row := processes.process_of(child.pid)) and row.state == "T")
    (note,) = end(grace=10).ended
    assert note.how == "SIGTERM (marked)"
    assert child.wait() == -signal.SIGTERM


def test_who_ignores_sigterm_is_killed_after_the_grace(
    spawn: Spawn, end: Callable[..., Any], environment: dict[str, str], tmp_path: Path
) -> None:
    steps = ("ignore-term", f"write:{tmp_path / 'ready'}=1", "hang")
    child = spawn(*AGENT, *steps, env=environment, cwd="/")
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    (note,) = end(grace=0.2).ended
    assert note.how == "SIGKILL (marked)"
    assert child.wait() == -signal.SIGKILL


def test_a_storm_of_forks_is_ended_without_waiting_for_the_grace(
    spawn: Spawn, environment: dict[str, str], marked: Callable[[], set[int]], end: Any
) -> None:
    # Each of 300 sleeps until SIGTERM and then leaves a successor, for ever.
    script = """
        import os, signal
        def heir(*_):
            if os.fork() == 0:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
                return
            os._exit(0)
        signal.signal(signal.SIGTERM, heir)
        for _ in range(8):
            os.fork()
        while True:
            signal.pause()
    """
    spawn(*PYTHON, "-c", textwrap.dedent(script), env=environment, cwd="/")
    while len(marked()) < 256:
        time.sleep(0.01)
    begun = time.monotonic()
    ending = end(grace=60)
    assert ending.survivors == ()
    assert marked() == set()
    assert time.monotonic() - begun < 30


@pytest.mark.slow
def test_a_chain_of_forks_is_ended_from_outside(
    spawn: Spawn,
    environment: dict[str, str],
    marked: Callable[[], set[int]],
    end: Any,
) -> None:
    child = spawn(
        *AGENT,
        "storm:2000=0.01",
        "storm:2000=0.01",
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    assert child.wait() == 0
    ending = end(grace=0.1)
    assert ending.ended
    assert ending.survivors == ()
    assert marked() == set()


def test_who_cannot_be_ended_is_reported_in_bounded_time(
    marker: str,
    worktree: Path,
    spawn: Spawn,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    child = spawn("sleep", "60", env=environment, cwd="/")
    monkeypatch.setattr(processes, "send", lambda *_: False)
    monkeypatch.setattr(processes, "KILL_SECONDS", 1)
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    ending = processes.end_tree(
        Search(marker, str(worktree), since=0),
        grace_seconds=1,
        monotonic=lambda: now,
        wait=wait,
    )
    assert [(note.pid, note.how) for note in ending.survivors] == [(child.pid, "marked")]
    assert ending.ended == ()
    assert 2 <= now < 3


def test_a_whole_group_is_killed_at_once_and_a_mixed_one_singly(
    spawn: Spawn, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    mixed = spawn("sleep", "60", env=environment, cwd="/", process_group=0)
    outsider = spawn("sleep", "60", cwd="/", process_group=mixed.pid)
    whole = spawn("sleep", "60", env=environment, cwd="/", process_group=0)
    monkeypatch.setattr(processes, "send", lambda *_: False)
    monkeypatch.setattr(processes, "KILL_SECONDS", 0.1)
    ending = end(grace=0)
    assert whole.wait() == -signal.SIGKILL
    assert [(note.pid, note.how) for note in ending.ended] == [(whole.pid, "SIGKILL (marked)")]
    assert [note.pid for note in ending.survivors] == [mixed.pid]
    assert outsider.poll() is None


@pytest.mark.parametrize("is_subreaper", [True, False])
def test_one_empty_look_is_no_proof(monkeypatch: pytest.MonkeyPatch, is_subreaper: bool) -> None:
    looks = 0

    def look(search: Search) -> processes.Found:
        nonlocal looks
        looks += 1
        return processes.Found({}, {}, {})

    monkeypatch.setattr(processes, "find", look)
    answers = iter([False, False, True, True])
    ending = processes.end_tree(
        Search("at_none", "/nowhere", since=None),
        grace_seconds=0,
        monotonic=lambda: 0.0,
        wait=lambda _: None,
        childless=(lambda: next(answers)) if is_subreaper else None,
    )
    assert ending == processes.Ending((), (), ())
    assert looks == (2 if is_subreaper else 3)


def test_wall_time_converts_to_the_unit_of_start_times(spawn: Spawn) -> None:
    before = time.time_ns() // 1000
    child = spawn("sleep", "60")
    now = time.time_ns() // 1000
    start = start_of(child.pid)
    since, until = processes.start_unit(before - 20_000, now), processes.start_unit(now, now)
    assert since is not None
    assert until is not None
    assert since <= start <= until


def test_nothing_can_be_left_from_before_this_boot() -> None:
    now = time.time_ns() // 1000
    assert processes.start_unit(now - 100 * 365 * 86_400 * 1_000_000, now) is None


def test_without_proc_psutil_tells_the_same(
    monkeypatch: pytest.MonkeyPatch,
    spawn: Spawn,
    environment: dict[str, str],
    worktree: Path,
    marker: str,
) -> None:
    child = spawn("sleep", "60", env=environment, cwd=worktree)
    stranger = spawn("sleep", "60", cwd=worktree)
    true_row = processes.process_of(child.pid)
    monkeypatch.setattr(processes, "_has_proc", lambda: False)
    row = processes.process_of(child.pid)
    assert row is not None
    assert true_row is not None
    assert (row.ppid, row.terminal) == (true_row.ppid, true_row.terminal)
    assert processes.command_of(child.pid) == "sleep 60"
    assert processes.process_of(2**22 + 1) is None
    since = start_of(child.pid)
    found = processes.find(Search(marker, os.path.realpath(worktree), since=since + 10**9))
    assert {process.pid for process in found.belonging} == {child.pid}
    assert {process.pid for process in found.strangers} == {stranger.pid}
    assert processes.send(child.pid, since, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
