"""One row for each task: its state, its attempts, its time, its tokens, and why it is there."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterfoil.cli.tally import Tally, Usage
from counterfoil.cli.words import NOTHING, TASK_MARKS, commit, duration, harmless, state
from counterfoil.core.limits import cut
from counterfoil.ledger.states import AttemptStatus, Phase, TaskStatus
from counterfoil.ledger.values import AttemptRow, TaskRow

if TYPE_CHECKING:
    from rich.console import OverflowMethod
    from rich.table import Table

    from counterfoil.app.run_views import RunView

NARROW = 60
"""Below this many columns a row is only state, task and time."""

WIDE = 100
"""From here on agent and tokens have a place."""

TITLED = 130
"""From here on titles have a place."""

TITLE_CHARACTERS = 45

_URGENCY = (
    frozenset({TaskStatus.RUNNING}),
    frozenset({TaskStatus.PAUSED, TaskStatus.WAITING_DECISION}),
    frozenset({TaskStatus.FAILED, TaskStatus.CONFLICT}),
    frozenset({TaskStatus.READY}),
    frozenset({TaskStatus.WAITING, TaskStatus.BLOCKED}),
)


@dataclass(frozen=True, slots=True)
class TaskLine:
    """What a row tells, before it is laid out. Texts are harmless."""

    task_id: str
    title: str
    status: str
    why: str
    tries: int
    phase: str
    agent: str
    time: str
    usage: Usage


def task_lines(view: "RunView", tally: Tally, now: int) -> list[TaskLine]:
    """A line for each task, in plan order. ``now``: microseconds, for what is still at work."""
    attempts: dict[str, list[AttemptRow]] = {}
    for attempt in view.attempts:
        attempts.setdefault(attempt.task_id, []).append(attempt)
    return [
        _line(task, attempts.get(task.task_id, []), view.waits.get(task.task_id, ""), tally, now)
        for task in view.tasks
    ]


def _line(
    task: TaskRow, attempts: Sequence[AttemptRow], wait: str, tally: Tally, now: int
) -> TaskLine:
    tried = [attempt for attempt in attempts if attempt.phase != Phase.MERGE]
    last = tried[-1] if tried else None
    at_work = task.status == TaskStatus.RUNNING
    return TaskLine(
        task_id=harmless(task.task_id),
        title=harmless(task.title),
        status=task.status,
        why=harmless(task.reason or _merged(task) or ("" if at_work else wait)),
        tries=len(tried),
        phase=f"{last.phase} {last.ordinal}" if last else "",
        agent=harmless(last.agent) if last else "",
        time=duration(time_taken(attempts, now)),
        usage=tally.task(task.task_id),
    )


def _merged(task: TaskRow) -> str:
    return f"as {commit(task.merged_commit)}" if task.merged_commit else ""


def time_taken(attempts: Iterable[AttemptRow], now: int) -> int | None:
    """Milliseconds of all attempts, open ones until ``now``; None when nothing is known."""
    known = [
        (now - (attempt.started_at or attempt.created_at)) // 1000
        if attempt.status != AttemptStatus.ENDED
        else attempt.duration_ms
        for attempt in attempts
    ]
    measured = [milliseconds for milliseconds in known if milliseconds is not None]
    return sum(measured) if measured else None


def table(lines: Sequence[TaskLine], *, width: int, ascii_only: bool, one_line: bool) -> "Table":
    """The rows as they fit into ``width`` columns; ``one_line`` cuts instead of folding."""
    from rich.table import Table
    from rich.text import Text

    overflow: OverflowMethod = "crop" if ascii_only else "ellipsis"
    grid = Table.grid(padding=(0, 1), expand=one_line)
    grid.add_column(no_wrap=True)
    grid.add_column(
        no_wrap=one_line, overflow=overflow if one_line else "fold", max_width=max(12, width // 4)
    )
    grid.add_column(no_wrap=True, overflow=overflow)
    columns = _columns(width, lines)
    for name in columns:
        right = name == "time"
        flexible = name == "why"
        grid.add_column(
            no_wrap=one_line or not flexible,
            overflow=overflow if one_line or not flexible else "fold",
            justify="right" if right else "left",
            ratio=1 if flexible and one_line else None,
        )
    for line in lines:
        mark = TASK_MARKS[line.status]
        sign = mark.ascii if ascii_only else mark.sign
        cells = [_cell(line, name) for name in columns]
        grid.add_row(
            Text(sign, mark.style),
            Text(line.task_id),
            Text(state(line.status), mark.style),
            *(
                Text(cell, "dim" if name != "why" else "")
                for name, cell in zip(columns, cells, strict=True)
            ),
        )
    return grid


def _columns(width: int, lines: Sequence[TaskLine]) -> tuple[str, ...]:
    """The columns behind id and state that fit, and that have something to tell."""
    if width < NARROW:
        return ("time",)
    if width < WIDE:
        return ("tries", "time", "why")
    titled = width >= TITLED and any(line.title != line.task_id for line in lines)
    used = any(line.usage.known for line in lines)
    titles, tokens = ("title",) * titled, ("tokens",) * used
    return ("phase", "agent", "time", *tokens, *titles, "why")


def _cell(line: TaskLine, name: str) -> str:
    match name:
        case "time":
            return line.time
        case "title":
            title, shortened = cut(line.title, TITLE_CHARACTERS)
            return f"{title.rstrip()}..." if shortened else title
        case "tries":
            return f"try {line.tries}" if line.tries else NOTHING
        case "phase":
            return line.phase or NOTHING
        case "agent":
            return line.agent or NOTHING
        case "tokens":
            return str(line.usage)
        case _:
            return line.why


def most_urgent(lines: Sequence[TaskLine], most: int) -> tuple[list[TaskLine], str]:
    """At most so many lines in plan order, chosen by what moves or needs somebody.

    The text says what the others are; empty when there are none.
    """
    if len(lines) <= most:
        return list(lines), ""
    by_urgency = sorted(range(len(lines)), key=lambda place: _urgency(lines[place].status))
    chosen, left = sorted(by_urgency[: max(most, 0)]), by_urgency[max(most, 0) :]
    rest = counts(lines[place].status for place in left)
    return [lines[place] for place in chosen], f"and {len(left):,} more: {rest}"


def _urgency(status: str) -> int:
    return next((rank for rank, some in enumerate(_URGENCY) if status in some), len(_URGENCY))


def counts(statuses: Iterable[str]) -> str:
    """``5 merged, 1 failed``, in the order of the states' own list."""
    found = Counter(statuses)
    return ", ".join(f"{found[one]:,} {state(one)}" for one in TaskStatus if found[one])
