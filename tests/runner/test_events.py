"""What the journal tells of a run: nothing twice, nothing invented, nothing without its attempt."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import counterfoil
from counterfoil.adapters.git import GitWorkspace
from counterfoil.app import run_views
from counterfoil.ledger import events

OF_AN_ATTEMPT = frozenset(
    {
        "task.dispatch",
        "dispatch.start",
        "dispatch.adopted",
        "dispatch.done",
        "task.usage",
        "task.duration",
        "task.diff",
        "gate0.pass",
        "gate0.fail",
        "merge.intent",
        "merge.done",
        "merge.conflict",
    }
)


@pytest.fixture
def told(stage: Any, kit: Any) -> Any:
    """A run with a retry, a conflict, a failure and a merge."""
    both = (
        f"touch {stage.folder}/m-$N; until [ -e {stage.folder}/m-1 ] && [ -e {stage.folder}/m-2 ]; "
        "do sleep 0.02; done; echo $N > a.txt"
    )
    again = 'test -n "$COUNTERFOIL_GATE_OUTPUT" && touch again; echo 1 > one.txt'
    return stage.run(
        kit.sh(
            "retried",
            again,
            gates=[kit.gate("again", "test -e again || { echo 'FAILED x::y'; exit 7; }")],
        ),
        kit.sh("left", both, env={"N": "1"}),
        kit.sh("right", both, env={"N": "2"}),
        kit.sh("bad", "exit 9", retries=0),
        concurrency=4,
    )


def test_every_entry_of_an_attempt_names_it(told: Any) -> None:
    attempts = {one.id: one for one in told.view.attempts}
    related = [entry for entry in told.entries if entry.kind in OF_AN_ATTEMPT]
    assert {"merge.conflict", "gate0.fail", "merge.done"} <= {entry.kind for entry in related}
    for entry in related:
        assert entry.payload["attemptId"] == entry.attempt
        assert entry.payload["task"] == entry.task == attempts[entry.attempt].task_id
        if "phase" in entry.payload:
            assert entry.payload["phase"] == attempts[entry.attempt].phase


def test_an_attempts_entries_come_in_the_order_of_its_life(told: Any) -> None:
    order = ["task.dispatch", "dispatch.start", "dispatch.done", "task.duration"]
    for attempt in told.view.attempts:
        kinds = [entry.kind for entry in told.entries if entry.attempt == attempt.id]
        lived = [kind for kind in kinds if kind in order]
        assert lived == [kind for kind in order if kind in lived]
        assert kinds[0] == "task.dispatch"
    ids = [entry.attempt for entry in told.of("task.dispatch")]
    assert len(ids) == len(set(ids))


def test_a_failed_gate_tells_the_command_as_it_was_run(told: Any) -> None:
    [failed] = told.payloads("gate0.fail")
    assert failed["task"] == "retried"
    assert failed["message"] == "FAILED x::y"
    assert failed["failClass"] == "test"
    assert failed["command"] == ["sh", "-c", "test -e again || { echo 'FAILED x::y'; exit 7; }"]
    assert failed["cwd"] == "."
    assert failed["exitCode"] == 7
    assert failed["artifact"]


def test_a_diff_is_of_the_attempt_against_its_own_base(told: Any) -> None:
    first, second = told.payloads("task.diff", "retried")
    assert (first["filesTouched"], first["insertions"], first["deletions"]) == (["one.txt"], 1, 0)
    assert second["filesTouched"] == ["again"]
    assert told.payloads("task.diff", "bad")[0]["filesTouched"] == []
    [left] = told.payloads("task.diff", "left")
    assert (left["filesTouched"], left["insertions"], left["deletions"]) == (["a.txt"], 1, 3)


def test_durations_are_measured_and_plausible(stage: Any, kit: Any) -> None:
    began = time.monotonic()
    played = stage.run(
        kit.sh("one", "sleep 0.3; echo 1 > one.txt", gates=[kit.gate("slow", "sleep 0.3")])
    )
    most = (time.monotonic() - began) * 1000
    durations = {told["phase"]: told["durationMs"] for told in played.payloads("task.duration")}
    assert 300 <= durations["implement"] <= most
    assert 0 <= durations["merge"] <= most
    [passed] = played.payloads("gate0.pass")
    assert 300 <= passed["durationMs"] <= most
    assert durations["implement"] == played.tries("one")[0].duration_ms


def test_a_diff_that_cannot_be_measured_is_absent_and_the_note_says_why(
    stage: Any, kit: Any
) -> None:
    played = stage.run(kit.agent("one", "delete-worktree", retries=0))
    assert played.payloads("task.diff") == []
    done = played.done("one")
    assert (done["outcome"], done["errorClass"]) == ("unknown", "workspace")
    assert any("gone" in note for note in done["notes"])
    assert played.statuses() == {"one": "failed"}


def test_usage_is_told_once_as_a_delta_of_the_attempt(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = stage.folder / "claude"
    words = " ".join(kit.agent_argv)
    program.write_text(f"#!/bin/sh\nexec {words} claude-init claude-says claude-says -\n")
    program.chmod(0o755)
    monkeypatch.setenv("COUNTERFOIL_CLAUDE", str(program))
    prompt = "Do it:\nstep write:one.txt=1\nstep claude-result\n"
    played = stage.run(
        {"id": "one", "prompt": prompt, "agent": "claude"},
        {"id": "two", "prompt": prompt.replace("one", "two"), "agent": "claude"},
        kit.sh("plain", "echo 1 > plain.txt"),
    )
    assert played.status == ("succeeded", "finished")
    for task_id in ("one", "two"):
        [usage] = played.payloads("task.usage", task_id)
        assert {name: usage[name] for name in usage if name.endswith("Tokens")} == {
            "inputTokens": 240,
            "outputTokens": 39,
            "cacheReadTokens": 16,
            "cacheWriteTokens": 8,
        }
        assert usage["cost"] == "0.0017928"
    assert played.payloads("task.usage", "plain") == []


def test_the_intent_of_a_merge_is_recorded_before_the_branch_moves(stage: Any, kit: Any) -> None:
    seen: list[tuple[str, str, list[str]]] = []

    def look(name: str) -> None:
        if name in ("intent", "ref_moved"):
            [branch] = stage.refs("refs/heads/counterfoil")
            entries = run_views.entries(house, branch.rpartition("/")[2], 0, None, 1000)
            kinds = [entry.kind for entry in entries if entry.kind.startswith("merge.")]
            seen.append((name, stage.git("rev-parse", branch), kinds))

    with stage.house() as house:
        played = stage.run(kit.sh("one", "echo 1 > one.txt"), boundary=look, house=house)
    [intent] = played.payloads("merge.intent")
    assert seen == [
        ("intent", intent["old"], ["merge.intent"]),
        ("ref_moved", intent["new"], ["merge.intent"]),
    ]
    assert intent["ref"] == f"refs/heads/{played.view.branch}"
    assert stage.git("rev-parse", f"{intent['new']}^{{tree}}") == intent["tree"]


def test_the_checkout_is_watched_and_its_change_names_who_was_at_work(stage: Any, kit: Any) -> None:
    spoil = f"echo more >> {stage.repository}/a.txt; echo new > {stage.repository}/new.txt"
    played = stage.run(kit.sh("one", f"{spoil}; echo 1 > one.txt"))
    [told] = played.payloads("run.checkout_changed")
    assert told["changed"] == ["file:a.txt", "file:new.txt"]
    assert told["attempts"][0] == played.tries("one")[0].id
    assert any("checkout changed" in notice for notice in played.notices)


def test_a_change_of_the_checkout_is_told_once_though_two_look_at_the_same_time(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    looked_again = threading.Event()
    really = GitWorkspace.fingerprint

    def fingerprint(workspace: GitWorkspace) -> dict[str, str]:
        looks.append(len(looks))
        number, seen = looks[-1], really(workspace)
        if number == 1:
            (stage.repository / "a.txt").write_text("more\n")
            looked_again.wait(1.0)
        elif number == 2:
            looked_again.set()
        return seen

    monkeypatch.setattr(GitWorkspace, "fingerprint", fingerprint)
    played = stage.run(kit.sh("one", "true"), kit.sh("two", "true"))
    assert len(looks) == 3
    assert len(played.payloads("run.checkout_changed")) == 1


def test_secrets_of_the_environment_are_not_in_the_record(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-test-0f1e2d3c4b5a69788796a5b4c3d2e1f0"
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    program = stage.folder / "claude"
    words = " ".join(kit.agent_argv)
    program.write_text(
        f"#!/bin/sh\necho key $ANTHROPIC_API_KEY >&2\nexec {words} write:one.txt=1 claude-ok\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("COUNTERFOIL_CLAUDE", str(program))
    played = stage.run({"id": "one", "prompt": "Do it.", "agent": "claude"})
    assert played.status == ("succeeded", "finished")
    assert b"key [REDACTED" in played.output("one")
    held = [
        path
        for path in Path(stage.home).rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
    assert held == []


def test_every_kind_that_is_declared_is_told_by_some_room() -> None:
    source = Path(counterfoil.__file__).parent
    rooms = [path for path in source.rglob("*.py") if path.name != "events.py"]
    text = "\n".join(path.read_text() for path in rooms)
    constants = {
        value.name: name
        for name, value in vars(events).items()
        if isinstance(value, events.EventKind)
    }
    assert constants.keys() == events.KINDS.keys()
    silent = [kind for kind, name in constants.items() if f"events.{name}" not in text]
    assert silent == []
