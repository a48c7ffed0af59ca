"""The screens of a run tell what happened, where things are, and how to go on."""

import io
from pathlib import Path
from typing import Any

import pytest

from counterfoil.cli import screens
from counterfoil.cli.commands import Commands
from counterfoil.cli.next_step import log_command, next_step
from counterfoil.cli.tally import Tally
from counterfoil.cli.terminal import console
from counterfoil.ledger.states import (
    AttemptOutcome,
    ExecutionStatus,
    GateResult,
    Phase,
    TaskStatus,
)


def closing(view: Any, tally: Tally | None = None, ledger: Path | None = None) -> str:
    stream = io.StringIO()
    screens.closing(
        console(stream),
        view,
        tally or Tally(),
        Commands(ledger),
        view.run.updated_at,
        "12-0a1b2c3d",
    )
    return stream.getvalue()


def last_line(text: str) -> str:
    return text.rstrip().splitlines()[-1]


def test_the_closing_screen_shows_the_head_to_keep(rows: Any) -> None:
    assert "\nHead       12-0a1b2c3d  (keep it elsewhere" in closing(rows.view())


def test_a_run_that_succeeded_is_to_be_landed(rows: Any) -> None:
    text = closing(rows.view())
    assert "tidepool succeeded after 12 s: 2 merged" in text
    assert f"counterfoil/{rows.run_id}" in text
    assert last_line(text).startswith(f"Next       counterfoil runs land {rows.run_id}  (")


def test_a_run_that_changed_nothing_is_not_to_be_landed(rows: Any) -> None:
    idle = rows.view(tasks=(rows.task("a", TaskStatus.NO_CHANGE, accepted=1),))
    assert f"counterfoil runs show {rows.run_id}  (" in last_line(closing(idle))


def test_a_run_that_failed_leads_to_what_failed(rows: Any) -> None:
    view = rows.view(
        rows.run(ExecutionStatus.FAILED, cause="finished", error_message="2 tasks: 1 failed"),
        tasks=(
            rows.task("good", TaskStatus.MERGED),
            rows.task("bad", TaskStatus.FAILED, reason="gate suite failed (test)"),
            rows.task("late", TaskStatus.BLOCKED, reason="is blocked by bad (failed)"),
        ),
        attempts=(rows.attempt("good"), rows.attempt("bad"), rows.attempt("bad", 2)),
        gates=(rows.gate("bad", GateResult.FAIL),),
        worktrees={"bad": Path("kept/bad")},
    )
    text = closing(view)
    assert "tidepool failed after 12 s: 1 blocked, 1 merged, 1 failed" in text
    assert "2 tasks: 1 failed" not in text, "its own counts say that already"
    assert "gate suite failed (test)" in text
    assert "is blocked by bad (failed)" in text
    assert "Kept       kept/bad  (bad)" in text
    assert f"runs show {rows.run_id} --attempt at_bad1 --output" in text, "the gate's log"
    assert f"counterfoil runs show {rows.run_id} --task=bad  (" in last_line(text)


@pytest.mark.parametrize(
    ("status", "cause", "verb"),
    [
        (ExecutionStatus.PAUSED, "shutdown", "resume"),
        (ExecutionStatus.PAUSED, "rate_limit", "resume"),
        (ExecutionStatus.WAITING_APPROVAL, "approval", "resume"),
        (ExecutionStatus.RUNNING, "", "recover"),
        (ExecutionStatus.QUEUED, "", "recover"),
    ],
)
def test_an_open_run_is_to_be_taken_up(rows: Any, status: str, cause: str, verb: str) -> None:
    run = rows.run(status, cause=cause, ended_at=None, error_message="resets at 14:05")
    view = rows.view(run, tasks=(rows.task("a", TaskStatus.READY),), attempts=())
    text = closing(view)
    assert f"counterfoil runs {verb} {rows.run_id}  (" in last_line(text)
    assert ("rate limit: resets at 14:05" in text) == (cause == "rate_limit")
    assert (screens.INTERRUPTED in text) == (cause == "shutdown")
    assert f"counterfoil runs events {rows.run_id}" in text, "there is no output yet"


def test_a_canceled_run_without_a_troubled_task_is_only_to_be_looked_at(rows: Any) -> None:
    view = rows.view(rows.run(ExecutionStatus.CANCELED))
    assert next_step(view, Commands()).command == f"counterfoil runs show {rows.run_id}"


def test_logs_lead_to_the_attempt_that_went_wrong(rows: Any) -> None:
    view = rows.view(
        attempts=(
            rows.attempt("parse", outcome=AttemptOutcome.FAILED),
            rows.attempt("units"),
        )
    )
    assert log_command(view, Commands()).endswith("--task=parse --output")
    assert log_command(rows.view(), Commands()).endswith("--task=units --output")


def test_commands_repeat_the_ledger_and_are_never_cut(rows: Any) -> None:
    ledger = Path("a folder/" + "long" * 40 + ".db")
    assert last_line(closing(rows.view(), ledger=ledger)).count("long") == 40


def test_a_narrow_terminal_loses_no_reason(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    view = rows.view(
        rows.run(ExecutionStatus.FAILED),
        tasks=(rows.task("bad", TaskStatus.FAILED, reason="the retry changed nothing at all"),),
    )
    assert "bad: the retry changed nothing at all" in closing(view)


def test_hostile_texts_are_shown_and_not_obeyed(rows: Any, kit: Any) -> None:
    view = rows.view(
        rows.run(ExecutionStatus.PAUSED, subject_id=kit.hostile, error_message=kit.hostile),
        tasks=(rows.task(kit.hostile, TaskStatus.FAILED, title=kit.hostile, reason=kit.hostile),),
        attempts=(rows.attempt(kit.hostile, id="at_1", agent=kit.hostile, message=kit.hostile),),
        gates=(rows.gate(kit.hostile, GateResult.FAIL, attempt_id="at_1"),),
        worktrees={kit.hostile: Path(kit.hostile)},
        repository=Path(kit.hostile),
        branch=kit.hostile,
    )
    stream = io.StringIO()
    out = console(stream)
    for screen in (screens.closing, screens.overview):
        screen(out, view, Tally(), Commands(), kit.start)
    screens.task_page(out, view, kit.hostile, Tally(), Commands(), kit.start)
    screens.attempt_page(out, view, view.attempts[0], Tally(), Commands(), kit.start)
    shown = stream.getvalue()
    commands = [line for line in shown.splitlines() if "counterfoil runs" in line]
    assert commands
    assert "[red]boo[/red] \\x1b[31m\\x07\\u202e :smile: ✓" in shown
    assert not set(shown) & set("\x1b\x07\u202e\r")


def test_a_task_page_tells_attempts_gates_and_what_a_gate_said(rows: Any, kit: Any) -> None:
    tally = Tally()
    said = "\n".join(f"line {number}" for number in range(40))
    gate = {"attemptId": "at_bad1", "gate": "suite", "tree": "a" * 40, "message": said}
    tally.add("gate0.fail", gate)
    view = rows.view(
        tasks=(rows.task("bad", TaskStatus.FAILED, title="Make it good", reason="no luck"),),
        attempts=(
            rows.attempt("bad", message="it ended well", end_cause="failed:other"),
            rows.attempt("bad", 1, phase=Phase.MERGE, id="at_merge"),
        ),
        gates=(rows.gate("bad", GateResult.FAIL, fail_class="test", exit_code=2),),
        worktrees={"bad": Path("kept/bad")},
    )
    stream = io.StringIO()
    screens.task_page(console(stream), view, "bad", tally, Commands(), kit.start)
    text = stream.getvalue()
    for part in (
        "bad  Make it good",
        "State      failed: no luck",
        "Worktree   kept/bad",
        "implement 1  succeeded (failed:other), 1.5 s, agent claude",
        "it ended well",
        "suite failed (test) on tree aaaaaaaaaa, 0.2 s, exit code 2  make test",
        "| line 39",
        "--attempt at_bad1 --output",
    ):
        assert part in text
    assert "| line 3\n" not in text, "only the end is shown"
    assert "--attempt at_merge" not in text, "a merge has no output"


def test_a_task_that_was_not_tried_says_what_it_waits_for(rows: Any, kit: Any) -> None:
    view = rows.view(
        tasks=(rows.task("a", TaskStatus.WAITING),), attempts=(), waits={"a": "waits for b"}
    )
    stream = io.StringIO()
    screens.task_page(console(stream), view, "a", Tally(), Commands(), kit.start)
    assert "waiting: waits for b" in stream.getvalue()
    assert "none yet" in stream.getvalue()


def test_an_overview_of_a_running_run_says_how_to_follow_it(rows: Any, kit: Any) -> None:
    view = rows.view(rows.run(ExecutionStatus.RUNNING, ended_at=None))
    stream = io.StringIO()
    screens.overview(console(stream), view, Tally(), Commands(), kit.start + 60_000_000)
    text = stream.getvalue()
    assert "tidepool running for 1 min 00 s" in text
    assert f"counterfoil runs events {rows.run_id} --follow" in text
    assert "(if its process is gone)" in text


def test_a_plan_of_thousands_is_not_listed_in_full(rows: Any) -> None:
    tasks = [rows.task(f"t{number}", TaskStatus.MERGED) for number in range(2_000)]
    tasks.append(rows.task("bad", TaskStatus.FAILED, reason="no luck"))
    text = closing(rows.view(rows.run(ExecutionStatus.FAILED), tasks=tuple(tasks)))
    assert "and 1,501 more: 1,501 merged" in text
    assert "no luck" in text
