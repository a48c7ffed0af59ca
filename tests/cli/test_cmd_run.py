"""``run`` as a process: lines, JSON, the closing screen, signals."""

import fcntl
import json
import os
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.cli.exit_codes import Exit

DEADLINE = 90
WAITING = "while [ ! -e {go} ]; do sleep 0.1; done; echo done > {name}.txt"


class Process:
    """The command as a process whose stdout is read line by line, within a deadline."""

    def __init__(self, words: list[str], env: dict[str, str]) -> None:
        self._popen = subprocess.Popen(
            words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        self._too_late = threading.Timer(DEADLINE, self._popen.kill)
        self._too_late.start()

    def until(self, *parts: str) -> None:
        """Read until each of the texts was in a line, in whatever order they come."""
        assert self._popen.stdout is not None
        missing = set(parts)
        for line in self._popen.stdout:
            self.lines.append(line)
            missing -= {part for part in missing if part in line}
            if not missing:
                return
        raise AssertionError(f"{missing} never came: {self.lines} {self.ended()}")

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def ended(self) -> tuple[int, str, str]:
        """Exit code, all of stdout, all of stderr."""
        rest, errors = self._popen.communicate(timeout=DEADLINE)
        return self._popen.returncode, "".join(self.lines) + rest, errors

    def clean_up(self) -> None:
        self._too_late.cancel()
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.communicate(timeout=DEADLINE)


@pytest.fixture
def start(kit: Any, home: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(*words: str | Path) -> Process:
        command = [*kit.command, *(str(word) for word in words)]
        started.append(Process(command, kit.environment(home)))
        return started[-1]

    yield begin
    for process in started:
        process.clean_up()


@pytest.fixture
def waiting_plan(tmp_path: Path, kit: Any) -> Iterator[Path]:
    """Two tasks that are at work until the file ``go`` is there, at the latest when it is over."""
    go = tmp_path / "go"
    yield kit.plan(
        tmp_path / "plan.jsonl",
        *(kit.shell(name, WAITING.format(go=go, name=name)) for name in ("a", "b")),
    )
    go.touch()


def test_a_run_without_a_terminal_is_lines_and_a_closing_screen(recorded: Any) -> None:
    done = recorded.result
    assert done.returncode == Exit.FOUND
    lines, _, closing = done.stdout.partition("\n\n")
    for part in (
        f"{recorded.run_id} created for plan three",
        "good: implement 1 with command",
        "bad: gate never failed (other): it is not signed",
        "good: merged",
        "after: blocked: is blocked by bad (failed)",
    ):
        assert part in lines
    for part in (
        "three failed after",
        "implement 1",
        "gate never failed",
        f"counterfoil/{recorded.run_id}",
        "--output",
        "(see what failed)",
    ):
        assert part in closing
    assert "\x1b" not in done.stdout + done.stderr


def test_json_is_the_journal_and_an_object_that_closes_it(
    kit: Any, repository: Path, tmp_path: Path, home: Path
) -> None:
    plan = kit.plan(tmp_path / "plan.jsonl", kit.shell("a", "echo x > x.txt", title=kit.hostile))
    done = kit.process("run", plan, "--repo", repository, "--json", home=home)
    assert done.returncode == Exit.OK
    *entries, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert last["status"] == "succeeded"
    assert last["branch"] == f"counterfoil/{last['run']}"
    assert last["head"].startswith(f"{entries[-1]['seq']}-")
    proof = kit.process("verify", last["run"], "--head", last["head"], home=home)
    assert proof.returncode == Exit.OK, proof.stdout
    assert f"complete up to the kept head {last['head']}" in proof.stdout
    assert last["tasks"]["a"]["status"] == "merged"
    assert last["tasks"]["a"]["input_tokens"] is None
    assert last["next"] == f"counterfoil runs land {last['run']}"
    landed = kit.process("runs", "land", "last", home=home)
    assert landed.stdout.startswith(f"main has the work of {last['run']}: ")
    again = kit.process("runs", "land", "last", home=home)
    assert again.stdout == f"main has the work of {last['run']} already\n"


def test_a_plan_with_faults_starts_nothing(call: Any, tmp_path: Path, repository: Path) -> None:
    plan = tmp_path / "bad plan.jsonl"
    plan.write_text('{"id": "a"}\n')
    result = call("run", plan, "--repo", repository)
    assert result.exit_code == Exit.USAGE
    assert result.stderr.startswith("error: bad plan.jsonl has 1 fault: line 1 column 1")
    assert f"counterfoil plan check '{plan}'" in result.stderr
    assert json.loads(call("runs", "list", "--json").stdout) == {"runs": []}


def test_a_folder_that_is_no_repository_is_refused(call: Any, tmp_path: Path, kit: Any) -> None:
    plan = kit.plan(tmp_path / "plan.jsonl", kit.shell("a", "true"))
    folder = tmp_path / "plain"
    folder.mkdir()
    result = call("run", plan, "--repo", folder)
    assert result.exit_code == Exit.SURROUNDINGS
    assert "hint: " in result.stderr


def test_ctrl_c_ends_the_attempts_keeps_their_work_and_the_run_is_resumed(
    start: Any, kit: Any, waiting_plan: Path, repository: Path, tmp_path: Path, home: Path
) -> None:
    run = start("run", waiting_plan, "--repo", repository, "--concurrency", "2", "--plain")
    run.until("a: implement 1", "b: implement 1")
    run.signal(signal.SIGINT)
    code, out, errors = run.ended()
    assert code == Exit.INTERRUPTED, errors
    assert "Ending 2 attempts, keeping their work..." in errors
    assert "plan.jsonl paused after" in out
    assert "It was interrupted; the work of its attempts is kept." in out
    assert "(go on with the run)" in out.splitlines()[-1]
    (tmp_path / "go").touch()
    resumed = kit.process("runs", "resume", "last", home=home)
    assert resumed.returncode == Exit.OK, resumed.stderr
    assert "created for plan" not in resumed.stdout, "what happened before is not told again"
    assert "2 merged" in resumed.stdout
    assert "(merge the run branch into the base branch)" in resumed.stdout


def test_sigterm_leaves_the_agents_at_work_and_the_run_is_recovered(
    start: Any, kit: Any, waiting_plan: Path, repository: Path, tmp_path: Path, home: Path
) -> None:
    run = start("run", waiting_plan, "--repo", repository)
    run.until("a: implement 1")
    run.signal(signal.SIGTERM)
    code, out, errors = run.ended()
    assert code == Exit.LEFT, errors
    assert "to go on without this process" in errors
    assert "counterfoil runs recover run_" in out.splitlines()[-1]
    (tmp_path / "go").touch()
    recovered = kit.process("runs", "recover", "last", "--json", home=home)
    assert recovered.returncode == Exit.OK, recovered.stderr
    assert json.loads(recovered.stdout.splitlines()[-1])["status"] == "succeeded"


def test_a_run_whose_reader_goes_away_runs_to_its_end(
    kit: Any, repository: Path, tmp_path: Path, home: Path
) -> None:
    plan = kit.plan(tmp_path / "plan.jsonl", kit.shell("a", "echo x > x.txt"))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*kit.command, "run", str(plan), "--repo", str(repository)],
        env=kit.environment(home),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (Exit.OK, "")
    shown = json.loads(kit.process("runs", "show", "last", "--json", home=home).stdout)
    assert shown["run"]["status"] == "succeeded"


def test_a_run_whose_output_is_closed_or_has_no_room_runs_to_its_end(
    kit: Any, repository: Path, tmp_path: Path, home: Path
) -> None:
    plan = kit.plan(tmp_path / "plan.jsonl", kit.shell("a", "echo x > x.txt"))
    for target, said in ((">&-", ""), ("> /dev/full", "No space left on device")):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {target}', "sh", *kit.command, "run", plan, "--repo", repository],
            env=kit.environment(home),
            stderr=subprocess.PIPE,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == Exit.OK, done.stderr
        assert said in done.stderr
        assert bool(done.stderr) is bool(said)


def test_a_terminal_that_hangs_up_leaves_the_run_to_be_recovered(
    kit: Any, waiting_plan: Path, repository: Path, tmp_path: Path, home: Path
) -> None:
    pid, fd = os.forkpty()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        os.dup2(os.open(tmp_path / "errors", os.O_CREAT | os.O_WRONLY), 2)
        words = [*kit.command, "run", str(waiting_plan), "--repo", str(repository)]
        os.execve(words[0], words, kit.environment(home) | {"TERM": "xterm-256color"})
    too_late = threading.Timer(DEADLINE, os.kill, (pid, signal.SIGKILL))
    too_late.start()
    try:
        shown = _read(fd, until=b"implement 1")
    finally:
        os.close(fd)
        _, status = os.waitpid(pid, 0)
        too_late.cancel()
    assert b"implement 1" in shown, shown.decode()
    assert os.waitstatus_to_exitcode(status) == Exit.LEFT, (tmp_path / "errors").read_text()


def test_on_a_terminal_the_tasks_are_drawn_and_ctrl_c_pauses_the_run(
    kit: Any, waiting_plan: Path, repository: Path, home: Path
) -> None:
    pid, fd = os.forkpty()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        env = kit.environment(home) | {"TERM": "xterm-256color"}
        words = [*kit.command, "run", str(waiting_plan), "--repo", str(repository)]
        os.execve(words[0], words, env)
    too_late = threading.Timer(DEADLINE, os.kill, (pid, signal.SIGKILL))
    too_late.start()
    try:
        shown = _read(fd, until=b"implement 1")
        assert b"implement 1" in shown, shown.decode()
        os.write(fd, b"\x03")
        shown += _read(fd)
    finally:
        os.close(fd)
        _, status = os.waitpid(pid, 0)
        too_late.cancel()
    assert os.waitstatus_to_exitcode(status) == Exit.INTERRUPTED
    text = shown.decode()
    assert "Ctrl-C pauses the run and keeps the work." in text
    assert "Ending " in text
    assert "\x1b[?25h" in text, "the cursor is back"
    assert "counterfoil runs resume run_" in text.splitlines()[-1]


def _read(fd: int, until: bytes = b"") -> bytes:
    """What the terminal shows, up to a text or to the end."""
    shown = b""
    while not until or until not in shown:
        try:
            part = os.read(fd, 65_536)
        except OSError:
            return shown  # how Linux says that nobody has the terminal open any more
        if not part:
            return shown
        shown += part
    return shown
