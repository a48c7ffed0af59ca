"""The executor and its keepers when runners die, keepers die, and nobody dies."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from counterfoil.core.clock import SystemClock
from counterfoil.core.errors import ExecutorError
from counterfoil.executors import local, processes
from counterfoil.executors.folder import Folder, launch_to_bytes
from counterfoil.executors.local import LocalExecutor
from counterfoil.ports.executor import Executor, ExitCause, LaunchSpec

pytestmark = pytest.mark.anyio

PYTHON = (sys.executable, "-I")
FAULTY = (*PYTHON, "-m", "counterfoil.testing.keeper_faults")

RUNNER = """
    import json, signal, sys, anyio
    from counterfoil.core.clock import SystemClock
    from counterfoil.executors.folder import launch_from_bytes
    from counterfoil.executors.local import LocalExecutor

    command, stop = json.loads(sys.argv[1])
    spec = launch_from_bytes(sys.stdin.buffer.read())
    if stop == "before the spawn":
        LocalExecutor._spawn = lambda *_: (print("here", flush=True), signal.pause())

    async def main():
        await LocalExecutor(SystemClock(), command).start(spec)
        print("here", flush=True)
        await anyio.sleep_forever()

    anyio.run(main)
"""

Agent = Callable[..., tuple[str, ...]]
Make = Callable[..., LaunchSpec]
Runs = Callable[[], int]
Until = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def executor() -> Executor:
    return LocalExecutor(SystemClock(), sweep_grace_seconds=0.3)


class Runner:
    """Another process that starts one launch and then lives until it is killed."""

    def __init__(self, spec: LaunchSpec, command: tuple[str, ...] | None, stop: str) -> None:
        script = textwrap.dedent(RUNNER)
        self._process = subprocess.Popen(
            [*PYTHON, "-c", script, json.dumps([command, stop])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(launch_to_bytes(spec))
        self._process.stdin.close()

    def wait_until_it_is_there(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"here\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def runner() -> Iterator[Callable[..., Runner]]:
    started: list[Runner] = []

    def start(spec: LaunchSpec, command: tuple[str, ...] | None = None, stop: str = "") -> Runner:
        started.append(Runner(spec, command, stop))
        return started[-1]

    yield start
    for one in started:
        one.kill()


async def test_a_start_returns_when_the_keeper_lives_and_wait_brings_the_record(
    executor: Executor, spec: Make, agent: Agent, tmp_path: Path
) -> None:
    launch = spec(agent(f"wait-for:{tmp_path / 'go'}", "say:hello", "exit:7"))
    execution = await executor.start(launch)
    assert Folder(launch.folder).is_locked()
    assert executor.record(launch.folder) is None
    (tmp_path / "go").touch()
    record = await execution.wait()
    assert record is not None
    assert (record.fence, record.cause, record.exit_code) == (1, ExitCause.EXITED, 7)
    assert record == executor.record(launch.folder)
    assert execution.stdout.read_bytes() == b"hello\n"
    assert execution.stderr.read_bytes() == b""
    assert (execution.folder, execution.fence) == (launch.folder, 1)


async def test_no_zombie_is_left(executor: Executor, spec: Make, agent: Agent) -> None:
    execution = await executor.start(spec(agent()))
    await execution.wait()
    assert not Path(f"/proc/{execution.keeper_pid}").exists()


async def test_two_who_wait_both_get_the_record(
    executor: Executor, spec: Make, agent: Agent, tmp_path: Path
) -> None:
    launch = spec(agent(f"wait-for:{tmp_path / 'go'}"))
    execution = await executor.start(launch)
    adopted = await executor.adopt(launch.folder)
    assert adopted is not None
    records = []

    async def wait(one: Any) -> None:
        records.append(await one.wait())

    async with anyio.create_task_group() as tasks:
        for one in (execution, execution, adopted):
            tasks.start_soon(wait, one)
        await anyio.sleep(0)
        (tmp_path / "go").touch()
    assert len(records) == 3
    assert records[0] == records[1] == records[2] == executor.record(launch.folder)


async def test_a_wait_that_is_cancelled_leaves_the_keeper_alone(
    executor: Executor, spec: Make, agent: Agent, tmp_path: Path
) -> None:
    execution = await executor.start(spec(agent(f"wait-for:{tmp_path / 'go'}")))
    with anyio.move_on_after(0.1) as scope:
        await execution.wait()
    assert scope.cancelled_caught
    (tmp_path / "go").touch()
    record = await execution.wait()
    assert record is not None
    assert record.exit_code == 0


async def test_waiting_works_without_process_descriptors(
    executor: Executor, spec: Make, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.delattr(os, "memfd_create", raising=False)
    execution = await executor.start(spec(agent("exit:3")))
    record = await execution.wait()
    assert record is not None
    assert record.exit_code == 3


# One start per (folder, fence)


async def test_the_same_fence_is_refused_and_a_newer_one_runs(
    executor: Executor, spec: Make, agent: Agent, runs: Runs
) -> None:
    launch = spec(agent())
    await (await executor.start(launch)).wait()
    with pytest.raises(ExecutorError, match="this fence was used before"):
        await executor.start(launch)
    assert runs() == 1
    second = await (await executor.start(replace(launch, fence=2))).wait()
    assert second is not None
    assert second.fence == 2
    with pytest.raises(ExecutorError, match="a newer fence is in the folder"):
        await executor.start(launch)
    assert runs() == 2


async def test_of_many_starts_at_once_one_runs(
    executor: Executor, spec: Make, agent: Agent, runs: Runs, tmp_path: Path
) -> None:
    launch = spec(agent(f"wait-for:{tmp_path / 'go'}"))
    started, refused = [], []

    async def start() -> None:
        try:
            started.append(await executor.start(launch))
        except ExecutorError as error:
            refused.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(start)
    assert (len(started), len(refused)) == (1, 5)
    (tmp_path / "go").touch()
    await started[0].wait()
    assert runs() == 1


async def test_an_old_request_to_end_does_not_end_the_next_fence(
    executor: Executor, spec: Make, agent: Agent
) -> None:
    first = await executor.start(spec(agent("hang")))
    await first.end("operator:ann")
    record = await first.wait()
    assert record is not None
    second = await (await executor.start(spec(agent("exit:4"), fence=2))).wait()
    assert second is not None
    assert (second.cause, second.exit_code) == (ExitCause.EXITED, 4)
    assert await first.wait() is None, "the record is of another fence now"


# Ending


async def test_the_first_who_asks_for_the_end_is_recorded_and_asking_again_is_harmless(
    executor: Executor, spec: Make, agent: Agent, marked: Callable[[], set[int]], until: Until
) -> None:
    execution = await executor.start(spec(agent("ignore-term", "hang"), grace_seconds=0.4))
    until(marked)
    await execution.end("operator:ann")
    await execution.end("operator:bob")
    record = await execution.wait()
    await execution.end("operator:cat")
    assert record is not None
    assert (record.cause, record.requested_by) == (ExitCause.ENDED, "operator:ann")
    assert record == await execution.wait()
    assert marked() == set()


async def test_a_full_disk_loses_who_asked_for_the_end_but_not_the_end(
    executor: Executor,
    spec: Make,
    agent: Agent,
    marked: Callable[[], set[int]],
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    execution = await executor.start(spec(agent("hang"), grace_seconds=0.4))
    until(marked)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Folder, "write", full)
    await execution.end("operator:ann")
    monkeypatch.undo()
    record = await execution.wait()
    assert record is not None
    assert record.cause is ExitCause.ENDED
    assert marked() == set()


@pytest.mark.slow
async def test_what_is_heard_keeps_the_agent_alive(
    executor: Executor, spec: Make, agent: Agent
) -> None:
    launch = spec(agent("sleep:2.2"), dead_man_seconds=1.3)
    execution = await executor.start(launch)
    async with anyio.create_task_group() as tasks:

        async def hear() -> None:
            while True:
                executor.heard(launch.folder)
                await anyio.sleep(0.2)

        tasks.start_soon(hear)
        record = await execution.wait()
        tasks.cancel_scope.cancel()
    assert record is not None
    assert record.cause is ExitCause.EXITED
    executor.heard(launch.folder / "gone")


# Runners that die


async def test_a_killed_runner_leaves_a_keeper_that_is_adopted(
    executor: Executor, spec: Make, agent: Agent, runs: Runs, runner: Any, tmp_path: Path
) -> None:
    launch = spec(agent("say:one", f"wait-for:{tmp_path / 'go'}", "say:two", "exit:3"))
    first = runner(launch)
    first.wait_until_it_is_there()
    first.kill()
    assert not executor.fence_off(launch.folder, 2)
    with pytest.raises(ExecutorError, match="another keeper holds the folder"):
        await executor.start(replace(launch, fence=2))
    adopted = await executor.adopt(launch.folder)
    assert adopted is not None
    (tmp_path / "go").touch()
    record = await adopted.wait()
    assert record is not None
    assert (record.fence, record.exit_code) == (1, 3)
    assert adopted.stdout.read_bytes() == b"one\ntwo\n"
    assert runs() == 1
    assert await executor.adopt(launch.folder) is None


async def test_an_adopted_keeper_can_be_ended(
    executor: Executor, spec: Make, agent: Agent, runner: Any, marked: Callable[[], set[int]]
) -> None:
    launch = spec(agent("hang"))
    first = runner(launch)
    first.wait_until_it_is_there()
    first.kill()
    adopted = await executor.adopt(launch.folder)
    assert adopted is not None
    await adopted.end("recover")
    record = await adopted.wait()
    assert record is not None
    assert (record.cause, record.requested_by) == (ExitCause.ENDED, "recover")
    assert marked() == set()


async def test_a_runner_killed_before_the_spawn_has_started_nothing(
    executor: Executor, spec: Make, agent: Agent, runs: Runs, runner: Any
) -> None:
    launch = spec(agent())
    first = runner(launch, stop="before the spawn")
    first.wait_until_it_is_there()
    first.kill()
    assert await executor.adopt(launch.folder) is None
    assert executor.record(launch.folder) is None
    assert executor.fence_off(launch.folder, 2)
    record = await (await executor.start(replace(launch, fence=2))).wait()
    assert record is not None
    assert record.fence == 2
    assert runs() == 1


async def test_a_keeper_that_comes_late_after_its_runner_died_leaves(
    executor: Executor, spec: Make, agent: Agent, runs: Runs, runner: Any, tmp_path: Path,
    until: Until,
) -> None:  # fmt: skip
    signal_file = tmp_path / "reached"
    launch = spec(agent())
    first = runner(launch, (*FAULTY, "stop:before_lock", str(signal_file)))
    late = int(until(lambda: signal_file.exists() and signal_file.read_text()))
    first.kill()
    assert await executor.adopt(launch.folder) is None
    assert executor.record(launch.folder) is None
    assert executor.fence_off(launch.folder, 2)
    signal_file.unlink()
    until(lambda: processes.identity(late) is None)
    assert runs() == 0
    assert executor.record(launch.folder) is None
    await (await executor.start(replace(launch, fence=2))).wait()
    assert runs() == 1


async def test_a_keeper_that_waits_before_the_spawn_is_adopted_and_starts_once(
    executor: Executor, spec: Make, agent: Agent, runs: Runs, runner: Any, tmp_path: Path,
    until: Until,
) -> None:  # fmt: skip
    signal_file = tmp_path / "reached"
    launch = spec(agent("exit:3"))
    first = runner(launch, (*FAULTY, "stop:before_spawn", str(signal_file)))
    until(signal_file.exists)
    first.kill()
    adopted = await executor.adopt(launch.folder)
    assert adopted is not None
    assert not executor.fence_off(launch.folder, 2)
    assert runs() == 0
    signal_file.unlink()
    record = await adopted.wait()
    assert record is not None
    assert record.exit_code == 3
    assert runs() == 1


async def test_a_keeper_about_to_introduce_itself_is_waited_for(
    executor: Executor, spec: Make, agent: Agent, runner: Any, tmp_path: Path, until: Until
) -> None:
    signal_file = tmp_path / "reached"
    launch = spec(agent(f"wait-for:{tmp_path / 'go'}", "exit:3"))
    first = runner(launch, (*FAULTY, "stop:after_lock", str(signal_file)))
    until(signal_file.exists)
    first.kill()
    async with anyio.create_task_group() as tasks:

        async def let_go() -> None:
            await anyio.sleep(0.2)
            signal_file.unlink()

        tasks.start_soon(let_go)
        adopted = await executor.adopt(launch.folder)
    assert adopted is not None
    (tmp_path / "go").touch()
    record = await adopted.wait()
    assert record is not None
    assert record.exit_code == 3


async def test_a_runner_killed_before_the_record_finds_it_later(
    executor: Executor, spec: Make, agent: Agent, runs: Runs, runner: Any, tmp_path: Path,
    until: Until,
) -> None:  # fmt: skip
    signal_file = tmp_path / "reached"
    launch = spec(agent("exit:3"))
    first = runner(launch, (*FAULTY, "stop:before_record", str(signal_file)))
    until(signal_file.exists)
    first.kill()
    assert executor.record(launch.folder) is None
    adopted = await executor.adopt(launch.folder)
    assert adopted is not None
    signal_file.unlink()
    record = await adopted.wait()
    assert record is not None
    assert record.exit_code == 3
    assert runs() == 1


# Keepers that die


async def test_a_worktree_that_was_replaced_by_a_link_leads_no_sweep_elsewhere(
    executor: Executor, tmp_path: Path, marker: str
) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "worktree-link"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    since = SystemClock().now_us() - 1_000_000
    other = subprocess.Popen(["sleep", "60"], cwd=elsewhere, start_new_session=True)
    try:
        report = await executor.sweep(marker, link, since)
        assert (report.ended, report.strangers) == ((), ())
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_a_killed_keeper_leaves_no_record_and_a_sweep_ends_the_rest(
    executor: Executor, spec: Make, agent: Agent, marked: Callable[[], set[int]],
    tmp_path: Path, worktree: Path, marker: str, until: Until,
) -> None:  # fmt: skip
    stranger = subprocess.Popen(["sleep", "60"], cwd=worktree)
    time.sleep(0.05)  # start times count in hundredths
    since = SystemClock().now_us()
    kinds = ("grandchild", "daemon", "stubborn", "unmarked")
    steps = [f"{kind}:60={tmp_path / kind}" for kind in kinds]
    launch = spec(agent(*steps, f"write:{tmp_path / 'ready'}=1", "hang"))
    try:
        execution = await executor.start(launch)
        until((tmp_path / "ready").exists)
        os.kill(execution.keeper_pid, signal.SIGKILL)
        assert await execution.wait() is None
        assert await executor.adopt(launch.folder) is None
        assert executor.fence_off(launch.folder, 2)
        report = await executor.sweep(marker, worktree, since)
        left = {int((tmp_path / kind).read_text()): kind for kind in kinds}
        ended = {note.pid: note.how for note in report.ended}
        assert {left[pid]: ended[pid] for pid in left} == {
            "grandchild": "SIGTERM (marked)",
            "daemon": "SIGTERM (marked)",
            "stubborn": "SIGKILL (marked)",
            "unmarked": "SIGTERM (inside the worktree)",
        }
        assert len(ended) == 5, "the agent itself, too"
        assert report.empty
        assert [note.pid for note in report.strangers] == [stranger.pid]
        assert marked() == set()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_sweep_of_nothing_is_empty(executor: Executor, marker: str, worktree: Path) -> None:
    report = await executor.sweep(marker, worktree, SystemClock().now_us())
    assert report.empty
    assert (report.ended, report.strangers) == ((), ())


async def test_a_keeper_killed_before_it_introduced_itself_is_told(
    spec: Make, agent: Agent, runs: Runs, tmp_path: Path
) -> None:
    command = (*FAULTY, "kill:after_lock", str(tmp_path / "reached"))
    with pytest.raises(ExecutorError, match=r"its keeper died \(signal 9\)"):
        await LocalExecutor(SystemClock(), command).start(spec(agent()))
    assert runs() == 0


# What cannot be


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("/bin/false",), "its keeper left with 1"),
        (("/no/such/keeper",), "No such file or directory"),
    ],
)
async def test_a_keeper_that_cannot_start_is_told(
    spec: Make, agent: Agent, command: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(ExecutorError, match=sentence):
        await LocalExecutor(SystemClock(), command).start(spec(agent()))


async def test_a_folder_that_is_a_file_is_told(
    executor: Executor, spec: Make, agent: Agent, tmp_path: Path
) -> None:
    (tmp_path / "attempt").touch()
    with pytest.raises(ExecutorError, match="cannot be used"):
        await executor.start(spec(agent()))
    with pytest.raises(ExecutorError, match="cannot be used"):
        executor.fence_off(tmp_path / "attempt", 2)


async def test_an_agent_that_cannot_start_is_a_record_not_an_error(
    executor: Executor, spec: Make
) -> None:
    execution = await executor.start(spec(("no-such-program-x",)))
    record = await execution.wait()
    assert record is not None
    assert record.cause is ExitCause.SPAWN_FAILED


async def test_nothing_is_adopted_where_nothing_was_started(
    executor: Executor, tmp_path: Path
) -> None:
    assert await executor.adopt(tmp_path / "gone") is None
    assert await executor.adopt(tmp_path) is None
    assert executor.record(tmp_path / "gone") is None


async def test_a_lock_without_a_living_keeper_is_told(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "INTRODUCTION_SECONDS", 0.1)
    lock = Folder(tmp_path).take_lock()
    assert lock is not None
    with pytest.raises(ExecutorError, match="held, but by no keeper that lives"):
        await executor.adopt(tmp_path)
    os.close(lock)


async def test_a_fence_is_never_lowered(executor: Executor, tmp_path: Path) -> None:
    folder = tmp_path / "attempt"
    assert executor.fence_off(folder, 5)
    assert executor.fence_off(folder, 3)
    assert Folder(folder).fence() == 5
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_record_that_is_no_record_is_told(executor: Executor, tmp_path: Path) -> None:
    for text in ("{", '{"fence": 1, "cause": "melted"}', '{"fence": 1, "cause": "exited"}'):
        (tmp_path / "exit.json").write_text(text)
        with pytest.raises(ExecutorError, match="cannot be read"):
            executor.record(tmp_path)


async def test_a_record_of_another_version_is_read(
    executor: Executor, spec: Make, agent: Agent
) -> None:
    launch = spec(agent())
    await (await executor.start(launch)).wait()
    path = launch.folder / "exit.json"
    entry = json.loads(path.read_text())
    del entry["strangers"]
    path.write_text(json.dumps(entry | {"from_the_future": 1}))
    record = executor.record(launch.folder)
    assert record is not None
    assert record.strangers == ()
