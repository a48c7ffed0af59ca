"""The rows of tasks, at any width."""

from typing import Any

import pytest
from rich.console import Console

from counterfoil.cli import tasks_table
from counterfoil.cli.tally import Tally
from counterfoil.ledger.states import AttemptStatus, Phase, TaskStatus


def drawn(lines: Any, width: int, *, ascii_only: bool = False, one_line: bool = True) -> str:
    out = Console(width=width, markup=False, emoji=False, highlight=False)
    with out.capture() as captured:
        out.print(tasks_table.table(lines, width=width, ascii_only=ascii_only, one_line=one_line))
    return captured.get()


@pytest.fixture
def lines(rows: Any, kit: Any) -> Any:
    view = rows.view(
        tasks=(
            rows.task("parse", TaskStatus.MERGED, merged_commit="c" * 40),
            rows.task("units", TaskStatus.RUNNING, title=kit.hostile),
            rows.task("report" * 20, TaskStatus.WAITING, title="Report"),
            rows.task("notice", TaskStatus.FAILED, reason="tried twice: gate signed failed"),
        ),
        attempts=(
            rows.attempt("parse", 1),
            rows.attempt("parse", 2, duration_ms=None),
            rows.attempt("parse", 1, phase=Phase.MERGE, agent="merge", duration_ms=500),
            rows.attempt("units", 1, status=AttemptStatus.RUNNING, duration_ms=None),
        ),
        waits={"units": "is at work", "report" * 20: "waits for parse"},
    )
    tally = Tally()
    usage = {"task": "parse", "attemptId": "at_parse1", "inputTokens": 1200, "outputTokens": 30}
    tally.add("task.usage", usage)
    return tasks_table.task_lines(view, tally, kit.start + 7_000_000)


def test_a_row_tells_state_tries_agent_time_tokens_and_why(lines: Any) -> None:
    parse, units, report, notice = lines
    assert (parse.tries, parse.phase, parse.agent, parse.time) == (
        2,
        "implement 2",
        "claude",
        "2.0 s",
    )
    assert str(parse.usage) == "1.2k in, 30 out"
    assert parse.why == "as cccccccccc"
    assert (units.why, units.time) == ("", "7.0 s")
    assert (report.why, report.time, report.phase) == ("waits for parse", "-", "")
    assert notice.why == "tried twice: gate signed failed"


@pytest.mark.parametrize("width", [40, 59, 60, 80, 99, 100, 130, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_row_is_wider_than_the_terminal(width: int, ascii_only: bool, lines: Any) -> None:
    text = drawn(lines, width, ascii_only=ascii_only)
    rows_drawn = text.splitlines()
    assert len(rows_drawn) == len(lines), "one line for each task"
    assert all(len(row) <= width for row in rows_drawn)
    assert all(word in text for word in ("merged", "running", "waiting", "failed"))
    if ascii_only:
        assert "…" not in text
        assert text.replace("✓", "").isascii(), "only the user's own title may not be"


def test_a_closing_row_folds_instead_of_losing_its_reason(lines: Any) -> None:
    text = drawn(lines, 60, one_line=False)
    assert "gate signed failed" in " ".join(text.split())
    ids = "".join(row[2:17].strip() for row in text.splitlines())
    assert "report" * 20 in ids


def test_titles_are_shown_where_there_is_room_and_markup_is_text(lines: Any) -> None:
    text = drawn(lines, 200)
    assert "[red]boo[/red] \\x1b[31m\\x07\\u202e :smile:" in text
    assert "[red]" not in drawn(lines, 100)


def test_tokens_have_no_column_while_nothing_is_known(rows: Any, kit: Any) -> None:
    lines = tasks_table.task_lines(rows.view(), Tally(), kit.start)
    assert " in, " not in drawn(lines, 120)


def test_what_moves_or_needs_somebody_is_shown_first_in_plan_order(rows: Any, kit: Any) -> None:
    states = [TaskStatus.MERGED] * 5 + [TaskStatus.WAITING, TaskStatus.FAILED, TaskStatus.RUNNING]
    view = rows.view(tasks=tuple(rows.task(f"t{n}", one) for n, one in enumerate(states)))
    shown, rest = tasks_table.most_urgent(tasks_table.task_lines(view, Tally(), kit.start), 3)
    assert [line.task_id for line in shown] == ["t5", "t6", "t7"]
    assert rest == "and 5 more: 5 merged"
    assert tasks_table.most_urgent(shown, 3) == (shown, "")
    assert tasks_table.most_urgent(shown, -1)[0] == []


def test_counts_come_in_one_order() -> None:
    statuses = [TaskStatus.MERGED, TaskStatus.WAITING_DECISION, TaskStatus.MERGED]
    assert tasks_table.counts(statuses) == "1 waiting decision, 2 merged"
