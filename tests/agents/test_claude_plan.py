"""Whole plans by the real program: repository, keeper, ledger and merge, the model from a script.

Skipped where no program is installed: ``make test-agents`` brings one.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from counterfoil.agents.claude import PROGRAM_VARIABLE, ClaudeAgent
from counterfoil.app import plan_runs, run_views
from counterfoil.app.house import House, open_house
from counterfoil.app.maintenance import verify_ledger
from counterfoil.app.plan_runs import Control, LaunchRequest
from counterfoil.app.run_views import RunView
from counterfoil.app.settings import Settings
from counterfoil.core.errors import AgentUnavailable
from counterfoil.executors.folder import EXIT
from counterfoil.ports.agent import Brief
from counterfoil.testing.model_script import (
    Call,
    Cut,
    Hang,
    Say,
    Script,
    Step,
    Tokens,
    out_of_credit,
    rate_limited,
    script_from_json,
)
from counterfoil.testing.scripted_model import ModelRequest, ScriptedModel

PATIENCE = 300.0
KEY = "kestrel7Qx2vR9mLw4tZb8nYc3d"  # looks like nothing: only who knows it can find it
FEW = Tokens()
RESETS_AT = 4_000_000_000
MODEL = "claude-sonnet-4-5"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-claude-code.md"
RUNNER = (sys.executable, "-c", "from counterfoil.cli.main import main; main()")

try:
    PROGRAM = ClaudeAgent().launch(Brief("t", "t", "p", None, Path(), Path())).argv[0]
except AgentUnavailable:
    pytest.skip("no claude program: `make test-agents` installs one", allow_module_level=True)

pytestmark = pytest.mark.agents


def write(path: str, content: str = "hi\n", tokens: Tokens = FEW) -> Call:
    return Call("Write", {"file_path": path, "content": content}, tokens)


def shell(command: str, tokens: Tokens = FEW) -> Call:
    return Call("Bash", {"command": command, "description": "Do it"}, tokens)


def task(task_id: str = "t1", *, options: dict[str, Any] | None = None, **more: Any) -> Any:
    agent = {"name": "claude", "model": MODEL, "allowed_tools": ["Bash"], **(options or {})}
    return {"id": task_id, "prompt": f"Do {task_id}.", "agent": agent, **more}


class HeldModel(ScriptedModel):
    """Answers nobody before it is let go."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.go = threading.Event()

    def take(self, request: ModelRequest) -> tuple[Step | None, str]:
        taken = super().take(request)
        self.go.wait(PATIENCE)
        return taken


@dataclass
class Stage:
    """A user's machine: a home, a repository, an environment, a ledger."""

    root: Path
    environ: pytest.MonkeyPatch

    @property
    def home(self) -> Path:
        return self.root / "state"

    @property
    def repository(self) -> Path:
        return self.root / "repository"

    def house(self) -> House:
        return open_house(settings=Settings(home=self.home, durability="normal", grace=2.0))

    def use(self, model: ScriptedModel) -> None:
        self.environ.setenv("ANTHROPIC_BASE_URL", model.base_url)

    def request(self, *tasks: Any) -> LaunchRequest:
        plan = self.root / "plan.jsonl"
        plan.write_text("".join(json.dumps(one) + "\n" for one in tasks))
        return LaunchRequest(plan, self.repository, concurrency=2)

    def drive(self, script: Script, *tasks: Any) -> "Seen":
        """Run a plan to its end or its pause."""
        request = self.request(*tasks)
        with ScriptedModel(script) as model:
            self.use(model)
            with self.house() as house:
                bounded(plan_runs.drive_new(house, request, Control()))
            return self.look(model)

    def resume(self, script: Script) -> "Seen":
        """Go on with the paused run, as a later process would."""
        with ScriptedModel(script) as model:
            self.use(model)
            with self.house() as house:
                bounded(plan_runs.drive_resumed(house, "last", Control()))
            return self.look(model)

    def start_runner(self, *tasks: Any) -> subprocess.Popen[bytes]:
        """Run a plan in a process of its own, with a stdin that stays open."""
        plan = str(self.request(*tasks).plan)
        return subprocess.Popen(
            [*RUNNER, "run", plan, "--repo", str(self.repository)],
            env={**os.environ, "COUNTERFOIL_HOME": str(self.home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    def look(self, model: ScriptedModel) -> "Seen":
        with self.house() as house:
            view = run_views.view(house, "last")
            entries = run_views.entries(house, "last", 0, None, 10_000)
            faults = [fault for one in verify_ledger(house, None, {}) for fault in one.faults]
        assert faults == []
        told = [(entry.kind, json.loads(entry.payload or "{}")) for entry in entries]
        return Seen(self, view, told, model.asked)

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.repository, check=True, capture_output=True, text=True
        )
        return done.stdout


@dataclass
class Seen:
    """What is on record after a drive."""

    stage: Stage
    view: RunView
    told: list[tuple[str, dict[str, Any]]]
    asked: tuple[ModelRequest, ...]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [payload for name, payload in self.told if name == kind]

    def one(self, kind: str) -> dict[str, Any]:
        (payload,) = self.of(kind)
        return payload

    @property
    def statuses(self) -> dict[str, str]:
        return {row.task_id: row.status for row in self.view.tasks}

    @property
    def implements(self) -> list[Any]:
        return [row for row in self.view.attempts if row.phase == "implement"]

    def file(self, path: str) -> str:
        return self.stage.git("show", f"{self.view.branch}:{path}")

    def output(self) -> bytes:
        with self.stage.house() as house:
            return run_views.attempt_output(house, "last", self.implements[-1].id)


def bounded(drive: Coroutine[Any, Any, RunView]) -> RunView:
    return asyncio.run(asyncio.wait_for(drive, PATIENCE))


def until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


def alive(attempt_id: str) -> list[str]:
    """Command lines of the living processes that carry an attempt's marker."""
    marker = f"COUNTERFOIL_ATTEMPT={attempt_id}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    for name in [*ClaudeAgent.environment, *os.environ]:
        if name not in ("PATH", "LANG") and not name.startswith("PYTEST"):
            monkeypatch.delenv(name, raising=False)
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv(PROGRAM_VARIABLE, PROGRAM)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "0")
    stage = Stage(tmp_path, monkeypatch)
    stage.repository.mkdir()
    (stage.repository / "readme.txt").write_text("hello\n")
    stage.git("init", "-q", "-b", "main")
    stage.git("add", ".")
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
    stage.git(*identity, "commit", "-q", "-m", "first")
    yield stage
    assert secrets_in(stage.home) == []


def secrets_in(folder: Path) -> list[Path]:
    """Files of the state folder, ledger and artifacts included, that hold the key."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if KEY.encode() in path.read_bytes()]


def test_a_task_that_writes_files_is_merged_and_its_usage_is_the_models(stage):
    seen = stage.drive(
        [
            write("hello.txt", "hi\n", Tokens(100, 11, cache_read=7, cache_write=3)),
            shell("printf there > there.txt", Tokens(200, 22)),
            Say("All done.", Tokens(300, 33, cache_read=5)),
        ],
        task(title="Say hello"),
    )
    assert seen.view.run.status == "succeeded"
    assert seen.statuses == {"t1": "merged"}
    assert (seen.file("hello.txt"), seen.file("there.txt")) == ("hi\n", "there")
    usage = seen.one("task.usage")
    assert usage["model"] == MODEL
    assert (usage["inputTokens"], usage["outputTokens"]) == (600, 66)
    assert (usage["cacheReadTokens"], usage["cacheWriteTokens"]) == (12, 3)
    assert (usage["costSource"], usage["currency"]) == ("reported", "USD")
    (attempt,) = seen.implements
    done = seen.of("dispatch.done")[0]
    assert done["attemptId"] == usage["attemptId"] == attempt.id
    assert (done["outcome"], done["exitCode"]) == ("succeeded", 0)
    assert done["session"] == attempt.session
    assert len(attempt.session) == 36
    diff = seen.one("task.diff")
    assert diff["filesTouched"] == ["hello.txt", "there.txt"]
    assert (diff["insertions"], diff["deletions"]) == (2, 0)
    (duration,) = [one for one in seen.of("task.duration") if one["attemptId"] == attempt.id]
    assert duration["durationMs"] > 0
    assert b"All done." in seen.output()
    assert stage.git("status", "--porcelain") == ""
    assert alive(attempt.id) == []


def test_the_rehearsal_on_the_page_is_merged_with_the_tokens_that_it_says(stage):
    script, plan, commands = re.findall(r"```\w+\n(.*?)```", PAGE.read_text(), re.S)[:3]
    seen = stage.drive(script_from_json(script), json.loads(plan))
    assert seen.statuses == {"hello": "merged"}
    usage = seen.one("task.usage")
    told = f"`{usage['inputTokens']} in, {usage['outputTokens']} out`"
    assert told in PAGE.read_text()
    assert "counterfoil run plan.jsonl --repo repo" in commands


def test_a_rate_limit_pauses_the_run_until_its_reset_and_a_resumed_run_completes(stage):
    stage.environ.delenv("ANTHROPIC_API_KEY")
    stage.environ.setenv("CLAUDE_CODE_OAUTH_TOKEN", KEY)
    paused = stage.drive([rate_limited(resets_at=RESETS_AT)], task())
    run = paused.view.run
    assert (run.status, run.cause) == ("paused", "rate_limit")
    assert paused.of("run.status")[-1]["resetsAt"] == RESETS_AT
    assert paused.statuses == {"t1": "ready"}
    (first,) = paused.implements
    assert (first.outcome, first.error_class) == ("failed", "rate_limit")
    assert paused.one("dispatch.done")["errorClass"] == "rate_limit"
    assert paused.of("task.usage") == []

    seen = stage.resume([write("hello.txt"), Say("Done.")])
    assert seen.view.run.status == "succeeded"
    assert seen.statuses == {"t1": "merged"}
    again, second = seen.implements
    assert again == first
    assert second.id != first.id
    assert second.outcome == "succeeded"
    assert seen.one("task.usage")["attemptId"] == second.id


@pytest.mark.parametrize(
    ("step", "expected"),
    [(out_of_credit(), "billing"), (Cut(), "network")],
    ids=["billing", "cut"],
)
def test_trouble_of_the_surroundings_pauses_the_run_and_keeps_the_task_and_its_work(
    stage, step, expected
):
    seen = stage.drive([write("half.txt"), step], task())
    assert (seen.view.run.status, seen.view.run.cause) == ("paused", expected)
    assert seen.statuses == {"t1": "ready"}
    (attempt,) = seen.implements
    assert (attempt.outcome, attempt.error_class) == ("failed", expected)
    # The cut answer's first event tells of its input: counted when it was read before the cut.
    assert seen.one("task.usage")["inputTokens"] in (40, 80)
    assert seen.one("task.diff")["filesTouched"] == ["half.txt"]
    assert stage.git("show", f"{attempt.candidate}:half.txt") == "hi\n"


def test_a_denied_permission_is_the_tasks_own_failure(stage):
    outside = stage.root / "outside.txt"
    script = [write("hello.txt"), shell(f"touch {outside}"), Say("I could not do it all.")]
    seen = stage.drive(script, task(options={"allowed_tools": []}, retries=0))
    assert seen.view.run.status == "failed"
    assert seen.statuses == {"t1": "failed"}
    done = seen.one("dispatch.done")
    assert (done["outcome"], done["errorClass"]) == ("failed", "permission_denied")
    assert done["exitCode"] == 0
    assert seen.one("task.diff")["filesTouched"] == ["hello.txt"]
    assert not outside.exists()


def test_who_hangs_is_ended_with_all_its_processes_and_fails_its_task(stage):
    script = {
        "Do silent.": [shell("python3 -c 'import time; time.sleep(987)'")],
        "Do slow.": [Hang()],
    }
    silent = task("silent", options={"quiet_seconds": 8}, retries=0)
    seen = stage.drive(script, silent, task("slow", timeout=10, retries=0))
    assert seen.view.run.status == "failed"
    assert seen.statuses == {"silent": "failed", "slow": "failed"}
    classes = {one["task"]: one["errorClass"] for one in seen.of("dispatch.done")}
    assert classes == {"silent": "hang", "slow": "timeout"}
    assert len(seen.asked) == 2
    assert [found for one in seen.implements for found in alive(one.id)] == []


def test_a_failed_gates_output_is_in_the_prompt_of_the_retry(stage):
    check = "test -f fixed.txt || { echo 'the pelican is missing'; exit 1; }"
    gate = {"name": "there", "class": "test", "run": ["sh", "-c", check]}
    seen = stage.drive(
        [
            write("first.txt", tokens=Tokens(100, 1)),
            Say("Done.", Tokens(20, 2)),
            write("fixed.txt", tokens=Tokens(1000, 3)),
            Say("Done now.", Tokens(200, 4)),
        ],
        task(gates=[gate]),
    )
    assert seen.statuses == {"t1": "merged"}
    said = ["the pelican is missing" in request.words for request in seen.asked]
    assert said == [False, False, True, True]
    assert all("Do t1." in request.words for request in seen.asked)
    assert seen.one("gate0.fail")["message"] == "the pelican is missing"
    one, two = seen.implements
    assert (one.ordinal, two.ordinal, one.worktree == two.worktree) == (1, 2, True)
    used = {usage["attemptId"]: usage["inputTokens"] for usage in seen.of("task.usage")}
    assert used == {one.id: 120, two.id: 1200}
    assert (seen.file("first.txt"), seen.file("fixed.txt")) == ("hi\n", "hi\n")


def test_two_tasks_are_at_work_at_the_same_time(stage):
    script = {name: [write(f"{name}.txt"), Say("Done.")] for name in ("Do a", "Do b")}
    with HeldModel(script) as model:
        stage.use(model)
        request = stage.request(task("a"), task("b"))

        async def together() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(plan_runs.drive_new, house, request, Control())
                while len(model.asked) < 2:
                    await anyio.sleep(0.02)
                model.go.set()

        with stage.house() as house:
            asyncio.run(asyncio.wait_for(together(), PATIENCE))
        seen = stage.look(model)
    assert seen.statuses == {"a": "merged", "b": "merged"}
    assert seen.file("Do a.txt") == seen.file("Do b.txt") == "hi\n"
    assert len({usage["attemptId"] for usage in seen.of("task.usage")}) == 2


@pytest.mark.parametrize("meanwhile", ["it works on", "it ends"])
def test_a_killed_runners_claude_is_recovered_under_its_attempt_id_and_counted_once(
    stage, meanwhile
):
    with HeldModel([write("hello.txt"), Say(f"Done with {KEY}.", Tokens(60, 6))]) as model:
        stage.use(model)
        runner = stage.start_runner(task())
        try:
            until(lambda: model.asked)
        finally:
            runner.kill()
            runner.communicate()
        (attempt,) = stage.look(model).implements
        assert alive(attempt.id)
        if meanwhile == "it ends":
            model.go.set()
            until((Path(attempt.folder) / EXIT).exists)
        control = Control()

        async def recover() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(plan_runs.drive_recovered, house, "last", control)
                while not (control.live or model.go.is_set()):
                    await anyio.sleep(0.02)
                model.go.set()

        with stage.house() as house:
            asyncio.run(asyncio.wait_for(recover(), PATIENCE))
        seen = stage.look(model)
    assert seen.statuses == {"t1": "merged"}
    assert [row.id for row in seen.implements] == [attempt.id]
    adopted = [one["attemptId"] for one in seen.of("dispatch.adopted")]
    assert adopted == ([attempt.id] if meanwhile == "it works on" else [])
    assert len(seen.asked) == 2
    usage = seen.one("task.usage")
    assert (usage["attemptId"], usage["inputTokens"]) == (attempt.id, 100)
    (duration,) = [one for one in seen.of("task.duration") if one["attemptId"] == attempt.id]
    assert duration["durationMs"] > 0
    assert b"Done with [REDACTED" in seen.output()
    assert alive(attempt.id) == []


@pytest.mark.parametrize("given_by", ["environment", "plan"])
def test_a_key_that_model_tools_and_gates_echo_is_recorded_nowhere(stage, given_by):
    env = {"ANTHROPIC_API_KEY": KEY} if given_by == "plan" else {}
    if env:
        stage.environ.setenv("ANTHROPIC_API_KEY", "another-key-of-the-user")
    echo = 'echo "$ANTHROPIC_API_KEY"'
    gate = {"name": "loud", "run": ["sh", "-c", f"{echo}; exit 1"], "env": env}
    script = [shell(f"{echo}; echo > out.txt"), Say(f"Your key is {KEY}.")]
    seen = stage.drive(script, task(gates=[gate], env=env, retries=0))
    assert seen.statuses == {"t1": "failed"}
    assert KEY in seen.asked[1].words
    assert seen.asked[0].headers["x-api-key"] == KEY
    assert b"Your key is [REDACTED" in seen.output()
    assert "[REDACTED" in seen.one("gate0.fail")["message"]


def test_a_stdin_that_nobody_closes_is_no_trouble(stage):
    with ScriptedModel([write("hello.txt"), Say("Done.")]) as model:
        stage.use(model)
        runner = stage.start_runner(task())
        with runner:
            assert runner.wait(PATIENCE) == 0
        seen = stage.look(model)
    assert seen.statuses == {"t1": "merged"}


@pytest.mark.parametrize(
    ("prompt", "said", "closed", "end"),
    [
        ("Do it.", b"", False, (0, "Done.")),
        (None, b"Do it.", True, (0, "Done.")),
        (None, b"Do it.", False, None),
    ],
    ids=["nothing comes for three seconds", "the end comes", "the end never comes"],
)
def test_the_program_itself_waits_for_the_end_of_a_stdin_that_has_begun(
    stage, prompt, said, closed, end
):
    """Why its prompt is given as a file: a file has an end."""
    words = [PROGRAM, "-p", *([prompt] if prompt else []), "--model", MODEL]
    with ScriptedModel([Say("Done.")]) as model:
        stage.use(model)
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=stage.repository
        )
        with process:
            try:
                process.stdin.write(said)
                process.stdin.flush()
                if closed:
                    process.stdin.close()
                found = process.wait(6 if end is None else PATIENCE), process.stdout.read()
            except subprocess.TimeoutExpired:
                found = None
            finally:
                process.kill()
        assert found == (end and (end[0], end[1].encode() + b"\n"))
        assert len(model.asked) == (0 if end is None else 1)
