"""A keeper alone: its lock, its fence, its record, and the end of all that it started."""

import contextlib
import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterfoil.executors.folder import Folder
from counterfoil.executors.keeper import Exit
from counterfoil.ports.executor import ExitCause, ExitRecord, LaunchSpec

PYTHON = (sys.executable, "-I")
FAULTY = (*PYTHON, "-m", "counterfoil.testing.keeper_faults")
POINTS = (
    "before_lock",
    "after_lock",
    "before_spawn",
    "after_spawn",
    "before_record",
    "after_record",
)

Agent = Callable[..., tuple[str, ...]]
Make = Callable[..., LaunchSpec]
Start = Callable[..., subprocess.Popen[bytes]]
Until = Callable[[Callable[[], Any]], Any]


def record_of(launch: LaunchSpec) -> ExitRecord:
    record = Folder(launch.folder).record()
    assert record is not None, (launch.folder / "keeper.log").read_text()
    return record


def test_it_imports_nothing_but_the_standard_library() -> None:
    script = """
        import sys, counterfoil.executors.keeper
        tops = {name.partition(".")[0] for name in sys.modules}
        print(tops - set(sys.stdlib_module_names) - {"__main__", "counterfoil"})
    """
    command = (*PYTHON, "-S", "-c", f"import sys; sys.path.insert(0, {_source()!r})\n")
    script = command[-1] + textwrap.dedent(script)
    said = subprocess.run([*command[:-1], script], capture_output=True, check=True, text=True)
    assert said.stdout == "set()\n"


def _source() -> str:
    import counterfoil

    return str(Path(counterfoil.__file__).parent.parent)


def test_an_agent_that_ends_leaves_a_complete_record(
    spec: Make, agent: Agent, keeper: Start, runs: Callable[[], int]
) -> None:
    launch = spec(agent("say:hello", "err:oh", "sleep:0.2", "exit:3"))
    child = keeper(launch)
    assert child.stdout is not None
    assert child.stdout.read() == b"ready\n"
    assert child.wait() == Exit.RECORDED
    record = record_of(launch)
    assert (record.fence, record.cause) == (1, ExitCause.EXITED)
    assert (record.exit_code, record.signal) == (3, None)
    assert 200 <= record.duration_ms < 10_000
    assert abs((record.ended_at - record.started_at) // 1000 - record.duration_ms) < 100
    assert (record.message, record.requested_by) == ("", "")
    assert (record.ended, record.survivors, record.strangers) == ((), (), ())
    assert (launch.folder / "stdout").read_bytes() == b"hello\n"
    assert (launch.folder / "stderr").read_bytes() == b"oh\n"
    assert runs() == 1


@pytest.mark.parametrize(
    ("step", "code", "number"),
    [("exit:144", 144, None), ("exit:145", 145, None), ("kill:9", None, 9), ("kill:15", None, 15)],
)
def test_an_exit_code_above_128_is_not_a_signal(
    spec: Make, agent: Agent, keeper: Start, step: str, code: int | None, number: int | None
) -> None:
    launch = spec(agent(step))
    keeper(launch).wait()
    record = record_of(launch)
    assert (record.exit_code, record.signal) == (code, number)


def test_output_and_records_are_for_their_owner_alone(
    spec: Make, agent: Agent, keeper: Start
) -> None:
    launch = spec(agent("say:hello"))
    keeper(launch).wait()
    assert launch.folder.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in launch.folder.iterdir()}
    assert set(modes) >= {"stdout", "stderr", "exit.json", "keeper.json", "started.json", "lock"}
    assert set(modes.values()) == {0o600}


def test_the_agent_inherits_no_descriptor_and_no_ignored_signal(spec: Make, keeper: Start) -> None:
    script = """
        import os
        print(sorted(os.listdir("/proc/self/fd"))[:-1])
        print([l for l in open("/proc/self/status") if l.startswith(("SigIgn", "SigBlk"))])
        print(os.getsid(0) == os.getpid(), os.getcwd())
    """
    launch = spec(("/usr/bin/env", *PYTHON, "-c", textwrap.dedent(script)))
    keeper(launch).wait()
    fds, signals, session = (launch.folder / "stdout").read_text().splitlines()
    assert fds == "['0', '1', '2']"
    # Python itself ignores SIGPIPE (13) and SIGXFSZ (25); 32 and 33 are the C library's own.
    blocked, ignored = (int(mask, 16) for mask in re.findall(r"[0-9a-f]{16}", signals))
    assert (blocked, ignored & ~(0b11 << 31)) == (0, 1 << 12 | 1 << 24)
    assert session == f"True {launch.cwd}"


def test_stdin_is_empty_and_never_an_open_pipe(spec: Make, agent: Agent, keeper: Start) -> None:
    launch = spec(agent("stdin-closed", "exit:0"))
    keeper(launch).wait()
    assert record_of(launch).exit_code == 0


def test_stdin_comes_from_a_file(spec: Make, agent: Agent, keeper: Start, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt"
    prompt.write_text("Do this:\nstep say:from the prompt\nstep exit:5\n")
    launch = spec(agent("-"), stdin=prompt)
    keeper(launch).wait()
    assert record_of(launch).exit_code == 5
    assert (launch.folder / "stdout").read_bytes() == b"from the prompt\n"


def test_the_environment_is_exactly_the_launch_and_the_marker(
    spec: Make, keeper: Start, marker: str
) -> None:
    launch = spec(("/usr/bin/env",), env={"A": "1", "ODD": "caf\udce9"})
    keeper(launch).wait()
    said = (launch.folder / "stdout").read_bytes().splitlines()
    assert sorted(said) == [b"A=1", b"COUNTERFOIL_ATTEMPT=" + marker.encode(), b"ODD=caf\xe9"]


# Lock and fence


@pytest.mark.parametrize("fence", [2, None], ids=["a newer fence", "no fence"])
def test_a_late_keeper_that_does_not_find_its_fence_leaves(
    spec: Make, agent: Agent, keeper: Start, runs: Callable[[], int], fence: int | None
) -> None:
    launch = spec(agent())
    child = keeper(launch, fence=fence)
    assert child.wait() == Exit.FENCED_OFF
    assert child.stdout is not None
    assert child.stdout.read() == b""
    assert runs() == 0
    assert Folder(launch.folder).record() is None
    assert Folder(launch.folder).keeper() is None


@pytest.mark.slow
def test_the_second_keeper_of_a_folder_leaves(
    spec: Make, agent: Agent, keeper: Start, runs: Callable[[], int], tmp_path: Path
) -> None:
    launch = spec(agent(f"wait-for:{tmp_path / 'go'}"))
    first = keeper(launch)
    assert first.stdout is not None
    assert first.stdout.readline() == b"ready\n"
    assert keeper(launch).wait() == Exit.LOCK_HELD
    assert Folder(launch.folder).is_locked()
    (tmp_path / "go").touch()
    assert first.wait() == Exit.RECORDED
    assert not Folder(launch.folder).is_locked()
    assert runs() == 1


def test_a_keeper_outwaits_a_runner_that_holds_the_lock_for_an_instant(
    spec: Make, agent: Agent, keeper: Start, tmp_path: Path
) -> None:
    signal_file = tmp_path / "reached"
    launch = spec(agent())
    child = keeper(launch, *FAULTY, "stop:before_lock", str(signal_file))
    while not signal_file.exists():
        pass
    lock = Folder(launch.folder).take_lock()
    assert lock is not None
    signal_file.unlink()
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(timeout=0.3)
    fcntl.flock(lock, fcntl.LOCK_UN)
    os.close(lock)
    assert child.wait() == Exit.RECORDED


def test_one_fence_is_never_started_twice(
    spec: Make, agent: Agent, keeper: Start, runs: Callable[[], int]
) -> None:
    launch = spec(agent())
    assert keeper(launch).wait() == Exit.RECORDED
    assert keeper(launch).wait() == Exit.ALREADY_STARTED
    assert runs() == 1


@pytest.mark.parametrize("point", POINTS)
def test_a_keeper_killed_anywhere_never_leads_to_a_second_run_of_its_fence(
    spec: Make,
    agent: Agent,
    keeper: Start,
    until: Until,
    runs: Callable[[], int],
    tmp_path: Path,
    point: str,
) -> None:
    launch = spec(agent(f"wait-for:{tmp_path / 'go'}", "say:done"))
    if point.endswith("record"):
        (tmp_path / "go").touch()
    child = keeper(launch, *FAULTY, f"kill:{point}", str(tmp_path / "reached"))
    assert child.wait() == -signal.SIGKILL
    home = Folder(launch.folder)
    assert not home.is_locked()
    assert (home.record() is not None) == (point == "after_record")
    if POINTS.index(point) >= POINTS.index("after_spawn"):
        until(lambda: runs() == 1)
    (tmp_path / "go").touch()
    not_started_yet = point in {"before_lock", "after_lock"}
    again = keeper(launch).wait()
    assert again == (Exit.RECORDED if not_started_yet else Exit.ALREADY_STARTED)
    assert runs() == (0 if point == "before_spawn" else 1)


def test_a_newer_fence_runs_again_in_the_same_folder_and_appends(
    spec: Make, agent: Agent, keeper: Start
) -> None:
    first, second = spec(agent("say:one")), spec(agent("say:two"), fence=2)
    keeper(first).wait()
    assert keeper(second, fence=2).wait() == Exit.RECORDED
    assert record_of(second).fence == 2
    assert (second.folder / "stdout").read_bytes() == b"one\ntwo\n"


def test_without_a_launch_on_stdin_it_leaves(tmp_path: Path) -> None:
    command = (*PYTHON, "-m", "counterfoil.executors.keeper", str(tmp_path))
    done = subprocess.run(command, input=b"{}", capture_output=True, check=False)
    assert done.returncode == Exit.UNUSABLE
    assert b"no launch" in done.stderr


# Reasons to end


def test_a_wall_timeout_ends_the_agent(spec: Make, agent: Agent, keeper: Start) -> None:
    launch = spec(agent("ignore-term", "say:up", "hang"), timeout_seconds=0.6, grace_seconds=0.2)
    keeper(launch).wait()
    record = record_of(launch)
    assert (record.cause, record.signal) == (ExitCause.TIMEOUT, signal.SIGKILL)
    assert record.message == "it ran longer than 0.6 s"
    assert 600 <= record.duration_ms < 10_000


def test_an_agent_that_stopped_itself_runs_into_its_timeout(
    spec: Make, agent: Agent, keeper: Start, marked: Callable[[], set[int]]
) -> None:
    launch = spec(agent("stop"), timeout_seconds=0.4)
    keeper(launch).wait()
    assert record_of(launch).cause is ExitCause.TIMEOUT
    assert marked() == set()


@pytest.mark.slow
def test_silence_on_both_outputs_ends_the_agent(spec: Make, agent: Agent, keeper: Start) -> None:
    talk = [step for _ in range(6) for step in ("sleep:0.25", "err:still here")]
    launch = spec(agent(*talk, "hang"), quiet_seconds=0.8)
    keeper(launch).wait()
    record = record_of(launch)
    assert (record.cause, record.message) == (ExitCause.QUIET, "it wrote nothing for 0.8 s")
    assert (launch.folder / "stderr").read_text().count("still here") == 6


@pytest.mark.slow
def test_without_a_runner_for_the_dead_man_time_all_is_ended(
    spec: Make, agent: Agent, keeper: Start, until: Until
) -> None:
    launch = spec(agent("hang"), dead_man_seconds=1.2)
    home = Folder(launch.folder)
    child = keeper(launch)
    heard = 0

    def hear() -> bool:
        nonlocal heard
        heard += 1
        home.touch_heard()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=0.3)
        return heard >= 7

    until(hear)
    child.wait()
    record = record_of(launch)
    assert record.cause is ExitCause.ORPHANED
    assert record.message == "no runner was heard for 1.2 s"
    assert record.duration_ms >= 2000, "it was kept alive by what it heard"


def test_too_much_output_ends_the_agent(spec: Make, agent: Agent, keeper: Start) -> None:
    launch = spec(agent("line:300000", "hang"), output_limit_bytes=200_000)
    keeper(launch).wait()
    record = record_of(launch)
    assert (record.cause, record.requested_by) == (ExitCause.ENDED, "keeper")
    assert record.message == "it wrote more than 200,000 bytes"


def test_a_file_asks_for_the_end_and_tells_who_asked(
    spec: Make, agent: Agent, keeper: Start, until: Until, runs: Callable[[], int]
) -> None:
    launch = spec(agent("hang"))
    child = keeper(launch)
    until(lambda: runs() == 1)
    (launch.folder / "end").write_text("operator:ann\n")
    assert child.wait() == Exit.RECORDED
    record = record_of(launch)
    assert (record.cause, record.requested_by) == (ExitCause.ENDED, "operator:ann")
    assert record.signal == signal.SIGTERM


def test_sigterm_ends_everything(
    spec: Make, agent: Agent, keeper: Start, until: Until, runs: Callable[[], int]
) -> None:
    launch = spec(agent("hang"))
    child = keeper(launch)
    until(lambda: runs() == 1)
    child.terminate()
    assert child.wait() == Exit.RECORDED
    record = record_of(launch)
    assert (record.cause, record.requested_by) == (ExitCause.ENDED, "SIGTERM")


def test_an_end_asked_for_before_the_start_starts_nothing(
    spec: Make, agent: Agent, keeper: Start, runs: Callable[[], int]
) -> None:
    launch = spec(agent())
    launch.folder.mkdir()
    (launch.folder / "end").write_text("operator:ann")
    assert keeper(launch).wait() == Exit.RECORDED
    record = record_of(launch)
    assert (record.cause, record.requested_by) == (ExitCause.ENDED, "operator:ann")
    assert (record.exit_code, record.signal, record.duration_ms) == (None, None, 0)
    assert runs() == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_what_the_terminal_sends_is_survived(
    spec: Make,
    agent: Agent,
    keeper: Start,
    until: Until,
    runs: Callable[[], int],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    launch = spec(agent(f"wait-for:{tmp_path / 'go'}"))
    child = keeper(launch)
    until(lambda: runs() == 1)
    child.send_signal(number)
    (tmp_path / "go").touch()
    assert child.wait() == Exit.RECORDED
    assert record_of(launch).exit_code == 0


# The whole tree


@pytest.mark.parametrize("last", ["exit:0", "hang"], ids=["after success", "when ended"])
def test_nothing_that_the_agent_started_outlives_it(
    spec: Make,
    agent: Agent,
    keeper: Start,
    until: Until,
    marked: Callable[[], set[int]],
    tmp_path: Path,
    last: str,
) -> None:
    kinds = ("grandchild", "daemon", "stubborn", "unmarked", "escapee")
    steps = [f"{kind}:60={tmp_path / kind}" for kind in kinds]
    launch = spec(agent(*steps, f"write:{tmp_path / 'ready'}=1", last))
    child = keeper(launch)
    until((tmp_path / "ready").exists)
    pids = {int((tmp_path / kind).read_text()): kind for kind in kinds}
    if last == "hang":
        child.terminate()
    assert child.wait() == Exit.RECORDED
    record = record_of(launch)
    how = {pids[note.pid]: note.how for note in record.ended}
    assert how == dict.fromkeys(kinds, "SIGTERM (descendant)") | {
        "stubborn": "SIGKILL (descendant)"
    }
    assert record.survivors == ()
    assert marked() == set()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow
def test_a_chain_of_forks_is_ended(
    spec: Make, agent: Agent, keeper: Start, marked: Callable[[], set[int]]
) -> None:
    launch = spec(agent("storm:2000", "say:on the way"), grace_seconds=0.2)
    keeper(launch).wait(timeout=60)
    record = record_of(launch)
    assert record.exit_code == 0
    assert record.survivors == ()
    assert marked() == set()


def test_an_agent_that_deletes_its_worktree_still_gets_its_record(
    spec: Make, agent: Agent, keeper: Start, marked: Callable[[], set[int]], tmp_path: Path
) -> None:
    launch = spec(agent(f"daemon:60={tmp_path / 'pid'}", "delete-worktree"))
    assert keeper(launch).wait() == Exit.RECORDED
    record = record_of(launch)
    assert [note.pid for note in record.ended] == [int((tmp_path / "pid").read_text())]
    assert marked() == set()


def test_a_stranger_in_the_worktree_is_reported_and_lives(
    spec: Make, agent: Agent, keeper: Start, worktree: Path
) -> None:
    stranger = subprocess.Popen(["sleep", "60"], cwd=worktree)
    try:
        launch = spec(agent())
        keeper(launch).wait()
        (note,) = record_of(launch).strangers
        assert (note.pid, note.how) == (stranger.pid, "older than the attempt")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# What cannot be started


def test_a_failed_start_is_a_record_with_a_sentence(
    spec: Make, keeper: Start, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    cases: list[tuple[LaunchSpec, str]] = [
        (spec(("no-such-program-x",)), "there is no such program"),
        (spec((str(plain),)), "it may not be executed"),
        (spec(("true",), cwd=tmp_path / "gone"), f"its folder {tmp_path / 'gone'} is gone"),
        (spec(("true",), stdin=tmp_path / "gone"), f"its input {tmp_path / 'gone'} is gone"),
        (spec(("true", "x" * 3_000_000)), "its arguments and environment are too long"),
        (spec(("true",), env={"PATH": "/bin", "BIG": "x" * 3_000_000}), "are too long"),
        (spec(("true", "nul\0nul")), "embedded null byte"),
        (spec(()), "an empty command could not be started"),
    ]
    for number, (launch, sentence) in enumerate(cases, start=1):
        launch = _with(launch, folder=tmp_path / f"attempt {number}")
        assert keeper(launch).wait() == Exit.RECORDED, sentence
        record = record_of(launch)
        assert record.cause is ExitCause.SPAWN_FAILED
        assert sentence in record.message
        assert (record.exit_code, record.signal) == (None, None)


def _with(launch: LaunchSpec, **changes: Any) -> LaunchSpec:
    from dataclasses import replace

    return replace(launch, **changes)


# Output


def test_output_survives_byte_for_byte(spec: Make, agent: Agent, keeper: Start) -> None:
    launch = spec(agent("garbage", "bytes:00ff0a0d", "torn:half a li"))
    keeper(launch).wait()
    said = (launch.folder / "stdout").read_bytes()
    assert said.startswith(b"caf\xe9 \xff\xfe\r\nnul\0nul\n")
    assert said.endswith(b"\x00\xff\n\rhalf a li")


def test_a_line_of_50_megabytes_costs_the_keeper_no_memory(
    spec: Make, agent: Agent, keeper: Start, until: Until, tmp_path: Path
) -> None:
    size = 50_000_000
    launch = spec(agent(f"line:{size}", f"wait-for:{tmp_path / 'go'}"))
    child = keeper(launch)
    until(lambda: Folder(launch.folder).output_size() == size + 1)
    status = Path(f"/proc/{child.pid}/status").read_text()
    peak = int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])
    (tmp_path / "go").touch()
    assert child.wait() == Exit.RECORDED
    assert peak < 40_000
    assert (launch.folder / "stdout").stat().st_size == size + 1


def test_no_secret_of_the_launch_is_on_the_disk(spec: Make, agent: Agent, keeper: Start) -> None:
    launch = spec(agent("say:hello", "delete:none"), env={"PATH": "/bin", "TOKEN": "s3cr3t-t0ken"})
    keeper(launch).wait()
    for path in launch.folder.iterdir():
        assert b"s3cr3t-t0ken" not in path.read_bytes(), path.name


# A full disk


@pytest.mark.parametrize(
    ("number", "failures", "code"),
    [
        (errno.ENOSPC, 20, Exit.RECORDED),
        (errno.EDQUOT, 20, Exit.RECORDED),
        (errno.EIO, 2, Exit.RECORDED),
        (errno.EIO, 10**9, Exit.RECORD_LOST),
    ],
)
def test_only_another_error_than_a_full_disk_loses_the_record_and_none_is_silent(
    spec: Make, agent: Agent, keeper: Start, number: int, failures: int, code: Exit
) -> None:
    script = f"""
        import sys
        from pathlib import Path
        from counterfoil.executors import folder, keeper
        keeper.RECORD_SECONDS, keeper.RECORD_PAUSE_SECONDS = 0.3, 0.05
        write, left = folder.Folder.write_record, {failures}
        def full(self, record):
            global left
            left -= 1
            if left >= 0:
                raise OSError({number}, "The disk's reason")
            write(self, record)
        folder.Folder.write_record = full
        sys.exit(keeper.run(Path(sys.argv[1]), keeper.Keeper))
    """
    launch = spec(agent("exit:3"))
    child = keeper(launch, *PYTHON, "-c", textwrap.dedent(script))
    assert child.wait() == code
    log = (launch.folder / "keeper.log").read_text()
    assert f"the exit record could not be written: [Errno {number}] The disk's reason" in log
    if code is Exit.RECORDED:
        assert record_of(launch).exit_code == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 1 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only who may mount can make a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while out.write(b"x" * 4096):
            pass
    return ballast


def test_a_disk_that_the_agent_fills_does_not_stop_the_record(
    spec: Make, keeper: Start, small_disk: Path
) -> None:
    fill_it = f"cat /dev/zero > {small_disk}/ballast; exit 3"
    launch = spec(("sh", "-c", fill_it), folder=small_disk / "attempt")
    assert keeper(launch).wait(20) == Exit.RECORDED
    assert record_of(launch).exit_code == 3


def test_a_keeper_without_room_for_its_record_keeps_the_lock_until_there_is_room(
    spec: Make, keeper: Start, small_disk: Path, until: Until, runs: Callable[[], int], agent: Agent
) -> None:
    script = """
        import sys
        from pathlib import Path
        from counterfoil.executors import folder, keeper
        keeper.RECORD_SECONDS, keeper.RECORD_PAUSE_SECONDS = 0.1, 0.05
        folder.Folder.reserve_record = lambda self: None
        tries, write = Path(sys.argv[1]).parent.parent / "tries", folder.Folder.write_record
        def counted(self, record):
            with tries.open("a") as out:
                out.write(".")
            write(self, record)
        folder.Folder.write_record = counted
        sys.exit(keeper.run(Path(sys.argv[1]), keeper.Keeper))
    """
    launch = spec(agent("sleep:60"), folder=small_disk / "attempt")
    child = keeper(launch, *PYTHON, "-c", textwrap.dedent(script))
    until(lambda: runs())
    ballast = fill(small_disk)
    child.terminate()
    tries = small_disk.parent / "tries"
    until(lambda: tries.exists() and tries.stat().st_size > 10)
    assert child.poll() is None
    assert Folder(launch.folder).is_locked()
    assert Folder(launch.folder).record() is None
    ballast.unlink()
    assert child.wait() == Exit.RECORDED
    assert record_of(launch).cause is ExitCause.ENDED
    assert runs() == 1


def test_only_the_worktree_is_searched_for_processes_to_end(
    spec: Make, agent: Agent, keeper: Start, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "work tree é" / "sub").symlink_to(elsewhere)
    launch = spec(agent("sleep:0.3"), cwd=tmp_path / "work tree é" / "sub")
    launch = replace(launch, worktree=tmp_path / "work tree é")
    child = keeper(launch)
    assert child.stdout is not None
    assert child.stdout.read() == b"ready\n"
    with subprocess.Popen(["sleep", "60"], cwd=elsewhere) as stranger:
        try:
            assert child.wait() == Exit.RECORDED
            assert stranger.poll() is None
        finally:
            stranger.kill()
    assert record_of(launch).ended == ()


def test_all_folders_made_above_the_attempts_are_private(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    Folder(tmp_path / "home" / "runs" / "run" / "attempts" / "one").make()
    made = ("runs", "runs/run", "runs/run/attempts", "runs/run/attempts/one")
    modes = {(tmp_path / "home" / name).stat().st_mode & 0o777 for name in made}
    assert modes == {0o700}
