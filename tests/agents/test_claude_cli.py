"""The adapter against the real program and a scripted model: what it does, not what it says.

Skipped where no program is installed: ``make test-agents`` brings one.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from counterfoil.agents.claude import ClaudeAgent
from counterfoil.agents.claude_stream import ClaudeReader
from counterfoil.core.errors import AgentUnavailable
from counterfoil.ports.agent import Brief, ErrorClass, Report
from counterfoil.testing.model_script import (
    Call,
    Cut,
    Hang,
    Say,
    Script,
    Tokens,
    bad_key,
    broken,
    out_of_credit,
    prompt_too_long,
    rate_limited,
)
from counterfoil.testing.scripted_model import ScriptedModel

PATIENCE = 60.0
WRITE = Call("Bash", {"command": "printf hi > hello.txt", "description": "Write the file"})
RESETS_AT = 4_000_000_000


try:
    PROGRAM = ClaudeAgent().launch(Brief("t", "t", "p", None, Path(), Path())).argv[0]
except AgentUnavailable:
    pytest.skip("no claude program: `make test-agents` installs one", allow_module_level=True)

pytestmark = pytest.mark.agents


@dataclass
class Ended:
    """One run of the program, over."""

    exit_code: int
    report: Report
    finished: bool
    stderr: str


@dataclass
class Desk:
    """A home, a worktree and a way to run the program there against a script."""

    root: Path
    agent: ClaudeAgent = field(default_factory=ClaudeAgent)

    @property
    def worktree(self) -> Path:
        return self.root / "worktree"

    def env(self, model: ScriptedModel, **changes: str) -> dict[str, str]:
        own = {
            "HOME": str(self.root / "home"),
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.root),
            "ANTHROPIC_BASE_URL": model.base_url,
            "ANTHROPIC_API_KEY": "sk-scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "0",
        } | changes
        assert set(own) <= set(self.agent.environment)
        return own

    def brief(self, **changes: Any) -> Brief:
        options = {"program": PROGRAM, "model": "claude-sonnet-4-5"} | changes.pop("options", {})
        values = {"prompt": "Write hello.txt.", "feedback": None, "session": None} | changes
        return Brief(
            task_id="t1",
            title="Say hello",
            run=None,
            worktree=self.worktree,
            folder=self.root,
            options=options,
            **values,
        )

    def start(self, model: ScriptedModel, brief: Brief, **env: str) -> subprocess.Popen[bytes]:
        """Start as a keeper does: stdin, stdout and stderr are files, the session is its own."""
        launch = self.agent.launch(brief)
        (self.root / "stdin").write_bytes(launch.stdin)
        with (
            (self.root / "stdin").open("rb") as stdin,
            (self.root / "stdout").open("wb") as stdout,
            (self.root / "stderr").open("wb") as stderr,
        ):
            return subprocess.Popen(
                launch.argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=self.worktree,
                env=self.env(model, **env) | dict(launch.env),
                start_new_session=True,
            )

    def end(self, process: subprocess.Popen[bytes]) -> Ended:
        """Wait for the end and read everything that was written."""
        try:
            code = process.wait(PATIENCE)
        finally:
            process.kill()
        reader = self.read()
        stderr = (self.root / "stderr").read_bytes()
        return Ended(code, reader.report(stderr), reader.finished, stderr.decode())

    def read(self) -> ClaudeReader:
        reader = self.agent.reader()
        for line in (self.root / "stdout").read_bytes().split(b"\n"):
            reader.feed(line)
        return reader

    def run(self, script: Script, *, env: dict[str, str] | None = None, **brief: Any) -> Ended:
        with ScriptedModel(script) as model:
            return self.end(self.start(model, self.brief(**brief), **(env or {})))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.worktree.mkdir()
    (tmp_path / "home").mkdir()
    return desk


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_task_is_done_and_its_usage_is_exact(desk):
    ended = desk.run(
        [WRITE, Say("All done.", Tokens(input=100, output=7, cache_read=20, cache_write=3))],
        options={"allowed_tools": ["Bash"]},
    )
    assert ended.exit_code == 0
    assert (desk.worktree / "hello.txt").read_text() == "hi"
    assert ended.finished
    report = ended.report
    assert report.terminal is not None
    assert report.terminal.ok
    assert report.message == "All done."
    assert report.session
    assert report.version
    assert report.model == "claude-sonnet-4-5"
    assert (report.denials, report.unread_lines) == (0, 0)
    (usage,) = report.usage
    assert (usage.input_tokens, usage.output_tokens) == (140, 12)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (20, 3)
    assert usage.cost_source == "reported"
    assert usage.currency == "USD"


def test_edits_in_the_worktree_need_no_permission(desk):
    write = Call("Write", {"file_path": str(desk.worktree / "a.txt"), "content": "a\n"})
    ended = desk.run([write, Say("Done.")])
    assert (desk.worktree / "a.txt").read_text() == "a\n"
    assert ended.report.denials == 0


@pytest.mark.parametrize("tool", ["Bash", "Write"])
def test_what_needs_permission_is_denied_with_exit_code_0_and_nothing_is_written(desk, tool):
    outside = desk.root / "home" / "outside.txt"
    arguments = {
        "Bash": {"command": f"touch {outside}", "description": "Write outside"},
        "Write": {"file_path": str(outside), "content": "x"},
    }
    ended = desk.run([Call(tool, arguments[tool]), Say("I could not do it.")])
    assert ended.exit_code == 0
    assert ended.report.terminal is not None
    assert ended.report.terminal.ok
    assert ended.report.denials == 1
    assert list(desk.worktree.iterdir()) == []
    assert not outside.exists()


@pytest.mark.parametrize(
    ("step", "expected", "said"),
    [
        (rate_limited(retry_after_seconds=30), ErrorClass.RATE_LIMIT, "429"),
        (out_of_credit(), ErrorClass.BILLING, "Credit balance is too low"),
        (bad_key(), ErrorClass.AUTH, "Invalid API key"),
        (broken(500), ErrorClass.PROVIDER, "500"),
        (broken(529), ErrorClass.PROVIDER, "529"),
        (Cut(), ErrorClass.NETWORK, "Connection"),
        (prompt_too_long(), ErrorClass.CONTEXT_OVERFLOW, "too long"),
        (Say("No.", stop="refusal"), ErrorClass.REFUSED, "can't help"),
        (Say("So much", stop="max_tokens"), ErrorClass.LIMIT, "output token"),
    ],
    ids=lambda value: str(value) if isinstance(value, ErrorClass) else "",
)
def test_an_api_that_refuses_fails_the_attempt_with_its_class(desk, step, expected, said):
    ended = desk.run([step])
    assert ended.exit_code == 1
    assert ended.finished
    assert ended.report.terminal is not None
    assert not ended.report.terminal.ok
    assert ended.report.error_class is expected
    assert said in ended.report.message


def test_a_used_up_subscription_window_names_its_reset_time(desk):
    login = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-scripted"}
    ended = desk.run([rate_limited(resets_at=RESETS_AT)], env=login)
    assert ended.report.error_class is ErrorClass.RATE_LIMIT
    assert ended.report.resets_at == RESETS_AT


def test_an_answer_cut_after_work_keeps_the_work_and_its_usage(desk):
    ended = desk.run([WRITE, Cut()], options={"allowed_tools": ["Bash"]})
    assert ended.exit_code == 1
    assert ended.report.error_class is ErrorClass.NETWORK
    assert (desk.worktree / "hello.txt").exists()
    # The cut answer's first event tells of its input: counted when it was read before the cut.
    assert [u.input_tokens in (40, 80) for u in ended.report.usage] == [True]


def test_nobody_listening_is_trouble_of_the_network(desk):
    ended = desk.run([Say("x")], env={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    assert ended.report.error_class is ErrorClass.NETWORK


def test_a_missing_key_is_trouble_of_the_login(desk):
    ended = desk.run([Say("x")], env={"ANTHROPIC_API_KEY": ""})
    assert ended.report.error_class is ErrorClass.AUTH


@pytest.mark.parametrize("options", [{"max_turns": 1}, {"max_budget_usd": 0.0000001}])
def test_a_limit_of_the_plan_ends_the_run_as_a_limit(desk, options):
    ended = desk.run([WRITE], options=options)
    assert ended.exit_code == 1
    assert ended.report.error_class is ErrorClass.LIMIT
    assert [u.input_tokens for u in ended.report.usage] == [40]


def test_a_resumed_session_counts_only_what_it_used_itself(desk):
    first = desk.run([Say("one", Tokens(input=100, output=10))])
    again = desk.run([Say("two", Tokens(input=30, output=3))], session=first.report.session)
    assert again.report.session == first.report.session
    assert [(u.input_tokens, u.output_tokens) for u in again.report.usage] == [(30, 3)]
    costs = [float(run.report.usage[0].cost or 0) for run in (first, again)]
    assert costs[0] > costs[1] > 0


def test_a_session_that_is_gone_is_a_failure_that_says_so(desk):
    ended = desk.run([Say("x")], session="00000000-0000-4000-8000-000000000000")
    assert ended.exit_code == 1
    assert ended.report.terminal is not None
    assert not ended.report.terminal.ok
    assert "No conversation found" in ended.report.message
    assert ended.report.usage == ()


def test_a_price_for_an_unknown_model_is_not_believed(desk):
    ended = desk.run([Say("ok")], options={"model": "scripted-1"})
    (usage,) = ended.report.usage
    assert (usage.model, usage.input_tokens, usage.cost) == ("scripted-1", 40, None)


def test_a_long_prompt_and_the_gates_output_reach_the_model_whole(desk, tmp_path):
    feedback = tmp_path / "gate.log"
    feedback.write_text("E   assert 1 == 2\n")
    with ScriptedModel([Say("ok")]) as model:
        prompt = "begin " + "long " * 60_000 + "end."
        ended = desk.end(desk.start(model, desk.brief(prompt=prompt, feedback=feedback)))
        words = model.asked[0].words
    assert ended.exit_code == 0
    assert prompt in words
    assert "E   assert 1 == 2" in words


def test_the_key_reaches_the_model_and_no_step_is_taken_by_a_side_request(desk):
    with ScriptedModel([Say("ok")]) as model:
        desk.end(desk.start(model, desk.brief()))
        (request,) = model.asked
    assert request.headers["x-api-key"] == "sk-scripted"
    assert "Bash" in request.tools


def test_a_model_that_never_answers_leaves_a_run_without_a_result(desk):
    with ScriptedModel([Hang()]) as model:
        process = desk.start(model, desk.brief())
        until(lambda: model.asked)
        until(lambda: desk.read().report().session)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        ended = desk.end(process)
    assert ended.exit_code == 143
    assert not ended.finished
    assert ended.report.terminal is None
    assert ended.report.usage == ()


def test_a_run_ended_between_retries_names_what_it_waited_for(desk):
    with ScriptedModel([rate_limited(retry_after_seconds=20)]) as model:
        process = desk.start(model, desk.brief(), CLAUDE_CODE_MAX_RETRIES="3")
        until(lambda: desk.read().report().error_class)
        process.send_signal(signal.SIGTERM)
        ended = desk.end(process)
    assert ended.report.terminal is None
    assert ended.report.error_class is ErrorClass.RATE_LIMIT


def test_a_run_killed_after_an_answer_used_an_unknown_amount(desk):
    slow = Call("Bash", {"command": "python3 -c 'import time; time.sleep(60)'"})
    with ScriptedModel([slow]) as model:
        process = desk.start(model, desk.brief(options={"allowed_tools": ["Bash"]}))
        until(lambda: desk.read().report().usage)
        process.send_signal(signal.SIGTERM)
        ended = desk.end(process)
    (usage,) = ended.report.usage
    assert usage.model == "claude-sonnet-4-5"
    assert usage.input_tokens is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_bypassing_permissions_as_root_is_refused_and_explained(desk):
    ended = desk.run([Say("x")], options={"permission_mode": "bypassPermissions"})
    assert ended.exit_code == 1
    assert "root" in ended.report.message


def test_permissions_can_be_bypassed_in_a_declared_sandbox(desk):
    ended = desk.run(
        [WRITE, Say("ok")],
        options={"permission_mode": "bypassPermissions"},
        env={"IS_SANDBOX": "1"},
    )
    assert ended.report.terminal is not None
    assert ended.report.terminal.ok
    assert (desk.worktree / "hello.txt").exists()


def test_a_wrong_option_is_explained_by_stderr(desk):
    ended = desk.run([Say("x")], options={"args": ["--no-such-option"]})
    assert ended.exit_code == 1
    assert ended.report.terminal is None
    assert "--no-such-option" in ended.report.message


@pytest.mark.slow
def test_a_stdin_left_open_without_a_prompt_ends_the_run_instead_of_hanging(desk):
    with ScriptedModel([Say("x")]) as model:
        launch = desk.agent.launch(desk.brief())
        process = subprocess.Popen(
            launch.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=desk.worktree,
            env=desk.env(model),
        )
        with process:
            try:
                assert process.wait(PATIENCE) == 1
                assert b"no stdin data" in process.stderr.read()
            finally:
                process.kill()
        assert model.asked == ()


def test_three_runs_at_once_share_a_home(desk, tmp_path):
    names = ("task-one", "task-two", "task-three")
    script: Script = {name: [Say(f"Did {name}.")] for name in names}
    desks = [Desk(tmp_path / name) for name in names]
    with ScriptedModel(script) as model:
        running = []
        for each in desks:
            each.worktree.mkdir(parents=True)
            brief = each.brief(prompt=f"Do {each.root.name}.")
            running.append(each.start(model, brief, HOME=str(desk.root / "home")))
        ends = [each.end(process) for each, process in zip(desks, running, strict=True)]
    assert [e.report.message for e in ends] == [f"Did {name}." for name in names]
