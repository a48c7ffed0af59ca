"""``runs``: what a recorded run shows, against one that has really happened."""

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from counterfoil.cli.exit_codes import Exit


def test_a_run_is_shown_with_states_reasons_and_what_to_do(recorded: Any) -> None:
    result = recorded.call("runs", "show", "last")
    assert result.exit_code == Exit.OK
    for part in (
        "three failed after",
        "1 blocked, 1 merged, 1 failed",
        "gate never failed",
        "is blocked by bad",
        f"counterfoil/{recorded.run_id}",
        str(recorded.repository),
        f"counterfoil runs show {recorded.run_id} --task=bad  (see what failed)",
    ):
        assert part in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("cut", [0, 4])
def test_a_run_is_found_by_its_id_and_its_unique_beginning(cut: int, recorded: Any) -> None:
    name = recorded.run_id[: len(recorded.run_id) - cut]
    assert recorded.ask("runs", "show", name)["run"]["id"] == recorded.run_id


def test_one_task_is_shown_with_what_its_gate_said(recorded: Any) -> None:
    text = recorded.call("runs", "show", "last", "--task", "bad").stdout
    for part in ("implement 1", "never failed", "exit code 3", "| it is not signed", "Worktree"):
        assert part in text


def test_rows_as_json_can_be_narrowed_to_a_task(recorded: Any) -> None:
    told = recorded.ask("runs", "show", "last", "--task", "bad")
    assert [task["task_id"] for task in told["tasks"]] == ["bad"]
    (attempt,) = told["attempts"]
    assert attempt["task_id"] == "bad"
    assert attempt["input_tokens"] is None, "unknown is null, never 0"
    assert [gate["gate"] for gate in told["gates"]] == ["never"]
    assert set(told["worktrees"]) <= {"bad"}


def test_one_attempt_is_shown_with_all_that_was_recorded(recorded: Any) -> None:
    (attempt,) = recorded.ask("runs", "show", "last", "--task", "bad")["attempts"]
    text = recorded.call("runs", "show", "last", "--attempt", attempt["id"]).stdout
    for part in (attempt["base"], attempt["candidate"], attempt["tree"], "exit code 0"):
        assert part in text
    told = recorded.ask("runs", "show", "last", "--attempt", attempt["id"])
    assert [one["id"] for one in told["attempts"]] == [attempt["id"]]


def test_the_output_of_an_attempt_is_printed_as_it_was_recorded(recorded: Any) -> None:
    result = recorded.call("runs", "show", "last", "--task", "bad", "--output")
    assert "working on it\n" in result.stdout
    told = recorded.ask("runs", "show", "last", "--task", "bad", "--output")
    assert told["output"] == result.stdout


def test_output_needs_to_know_whose(recorded: Any) -> None:
    result = recorded.call("runs", "show", "last", "--output")
    assert result.exit_code == Exit.USAGE
    assert "--task or --attempt" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs", "show", "nope"], "counterfoil runs list"),
        (["runs", "show", "last", "--task", "goood"], "did you mean good?"),
        (["runs", "show", "last", "--attempt", "at_nope"], "no attempt 'at_nope'"),
        (["runs", "show", "last", "--attempt", "at_"], "several attempts"),
        (["runs", "resume", "last"], "not paused"),
        (["runs", "recover", "last"], "has ended"),
        (["runs", "land", "last"], "not succeeded"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], said: str, recorded: Any) -> None:
    result = recorded.call(*words)
    assert result.exit_code == Exit.REFUSED
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert result.stdout == ""


def test_runs_are_listed(recorded: Any) -> None:
    text = recorded.call("runs", "list").stdout
    assert recorded.run_id in text
    assert "plan three" in text
    assert "failed" in text
    assert [run["id"] for run in recorded.ask("runs", "list")["runs"]] == [recorded.run_id]


def test_an_empty_ledger_says_how_to_begin(call: Any) -> None:
    assert "counterfoil run plan.jsonl" in call("runs", "list").stdout
    result = call("runs", "show", "last")
    assert result.exit_code == Exit.REFUSED
    assert "there is no run yet" in result.stderr


def test_the_journal_is_printed_in_its_order(recorded: Any) -> None:
    told = recorded.ask("runs", "events", "last")
    assert [event["seq"] for event in told["events"]] == list(range(1, told["nextSince"] + 1))
    assert told["run"] == recorded.run_id
    text = recorded.call("runs", "events", "last").stdout
    assert len(text.splitlines()) == len(told["events"])
    assert "bad: gate never failed" in text
    assert "\x1b" not in text


def test_the_journal_can_be_read_from_a_place_on_and_for_one_task(recorded: Any) -> None:
    whole = recorded.ask("runs", "events", "last")["events"]
    part = recorded.ask("runs", "events", "last", "--since", "5", "--task", "bad")["events"]
    assert part == [event for event in whole if event["seq"] > 5 and event.get("taskId") == "bad"]
    assert part
    nothing = recorded.ask("runs", "events", "last", "--since", "100000")
    assert nothing["events"] == []
    assert nothing["nextSince"] == 100000


def test_following_a_run_that_has_ended_ends(recorded: Any) -> None:
    result = recorded.call("runs", "events", "last", "--follow", "--json")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert events == recorded.ask("runs", "events", "last")["events"]


def test_output_on_a_terminal_cannot_command_it(recorded: Any, kit: Any, tmp_path: Path) -> None:
    plan = kit.plan(
        tmp_path / "loud.jsonl", kit.shell("loud", r"printf 'a\033[2Jb\n'; echo 1 > loud.txt")
    )
    home = tmp_path / "home"
    kit.process("run", plan, "--repo", recorded.repository, home=home)
    words = ("runs", "show", "last", "--task", "loud", "--output")
    assert "a\x1b[2Jb" in kit.process(*words, home=home).stdout, "a pipe gets the bytes"
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*kit.command, *words],
        env=kit.environment(home) | {"TERM": "xterm"},
        stdout=theirs,
    ) as started:
        started.wait(timeout=60)
        os.close(theirs)
        shown = os.read(ours, 4096)
    os.close(ours)
    assert b"a\\x1b[2Jb" in shown
