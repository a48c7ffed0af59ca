"""The command line, the environment and the search for the program; no program is started."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from counterfoil.agents import claude
from counterfoil.agents.claude import ClaudeAgent, bundled_program
from counterfoil.core.errors import AgentUnavailable, ValueRefused
from counterfoil.ports.agent import ErrorClass

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-claude-code.md"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "bin" / "claude"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def agent(program):
    return ClaudeAgent(environ={"PATH": str(program.parent)})


def test_the_command_line_streams_events_and_takes_the_prompt_on_stdin(agent, program, a_brief):
    launch = agent.launch(a_brief())
    assert launch.argv == (
        str(program),
        "-p",
        "--permission-mode",
        "acceptEdits",
        "--output-format",
        "stream-json",
        "--verbose",
    )
    assert launch.stdin == b"Write hello.txt."
    assert "--dangerously-skip-permissions" not in launch.argv
    assert launch.quiet_seconds is not None
    assert launch.quiet_seconds > 600


def test_options_become_arguments(agent, a_brief):
    options = {
        "model": "sonnet",
        "permission_mode": "plan",
        "allowed_tools": ["Bash(git *)", "Edit"],
        "disallowed_tools": ["WebFetch"],
        "max_turns": 30,
        "max_budget_usd": 2.5,
        "args": ["--bare"],
    }
    argv = agent.launch(a_brief(options=json.loads(json.dumps(options)))).argv
    given = dict(pairwise(argv))
    assert given["--model"] == "sonnet"
    assert given["--permission-mode"] == "plan"
    assert given["--allowedTools"] == "Bash(git *),Edit"
    assert given["--disallowedTools"] == "WebFetch"
    assert given["--max-turns"] == "30"
    assert given["--max-budget-usd"] == "2.5"
    assert argv[-1] == "--bare"
    assert "--resume" not in argv


def test_how_long_it_may_be_silent_is_an_option_and_no_argument(agent, a_brief):
    launch = agent.launch(a_brief(options={"quiet_seconds": 30}))
    assert launch.quiet_seconds == 30
    assert not any("quiet" in word for word in launch.argv)


def test_an_earlier_session_is_resumed_by_its_id(agent, a_brief):
    argv = agent.launch(a_brief(session="0198f2aa-0000-7000-8000-000000000001")).argv
    assert argv[argv.index("--resume") + 1] == "0198f2aa-0000-7000-8000-000000000001"
    assert "--session-id" not in argv


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"permision_mode": "plan"}, "unknown options: permision_mode"),
        ({"allowed_tools": "Bash"}, "allowed_tools is a list of texts"),
        ({"args": [1]}, "args is a list of texts"),
        ({"quiet_seconds": 0}, "quiet_seconds is 0"),
        ({"quiet_seconds": "60"}, "quiet_seconds is '60'"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_by_name(agent, a_brief, options, said):
    with pytest.raises(ValueRefused, match=said):
        agent.launch(a_brief(options=options))


def test_the_option_wins_over_the_variable_and_the_variable_over_the_path(
    program, a_brief, tmp_path
):
    for name in ("from-option", "from-variable"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    environ = {
        "PATH": str(program.parent),
        "COUNTERFOIL_CLAUDE": str(tmp_path / "from-variable"),
    }
    agent = ClaudeAgent(environ=environ)
    option = {"program": str(tmp_path / "from-option")}
    assert agent.launch(a_brief(options=option)).argv[0] == str(tmp_path / "from-option")
    assert agent.launch(a_brief()).argv[0] == str(tmp_path / "from-variable")


def test_a_named_program_that_is_not_there_is_not_replaced_by_another(program, a_brief):
    agent = ClaudeAgent(environ={"PATH": str(program.parent), "COUNTERFOIL_CLAUDE": "/no/claude"})
    with pytest.raises(AgentUnavailable, match="/no/claude"):
        agent.launch(a_brief())


def test_a_missing_program_is_answered_with_the_ways_to_get_it(a_brief, monkeypatch):
    monkeypatch.setattr(claude, "find_spec", lambda name: None)
    with pytest.raises(AgentUnavailable) as refused:
        ClaudeAgent(environ={"PATH": "/nowhere"}).launch(a_brief())
    assert "COUNTERFOIL_CLAUDE" in refused.value.hint
    assert "claude-agent-sdk" in refused.value.hint


def test_the_wheels_own_program_is_found_without_importing_the_wheel(
    a_brief, tmp_path, monkeypatch
):
    package = tmp_path / "claude_agent_sdk"
    (package / "_bundled").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package / "_bundled" / "claude").write_text("#!/bin/sh\n")
    (package / "_bundled" / "claude").chmod(0o755)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert bundled_program() == str(package / "_bundled" / "claude")
    argv = ClaudeAgent(environ={"PATH": "/nowhere"}).launch(a_brief()).argv
    assert argv[0] == str(package / "_bundled" / "claude")


def test_keys_are_declared_for_redaction_and_foreign_session_state_is_not_taken_over():
    assert "ANTHROPIC_API_KEY" in ClaudeAgent.secrets
    assert "CLAUDE_CODE_OAUTH_TOKEN" in ClaudeAgent.secrets
    inherited = {"CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDECODE"}
    assert not inherited & set(ClaudeAgent.environment)


def test_the_page_names_every_option_variable_and_class_of_failure():
    page = PAGE.read_text()
    named = set(re.findall(r"`(\w+)`", page))
    variables = {name for name in ClaudeAgent.environment if name.isupper()}
    assert named >= {*claude._OPTIONS, *variables, *ErrorClass}
    listed = page.partition("## What it sees")[2].partition("## What each")[0]
    assert set(re.findall(r"`([A-Z_]{2,})`", listed)) == variables
