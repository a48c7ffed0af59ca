"""Runs as a table, one run as an object for programs, and the output of one attempt."""

import difflib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from counterfoil.cli.tally import Tally, Usage
from counterfoil.cli.terminal import is_terminal, print_json
from counterfoil.cli.words import NOTHING, RUN_STYLES, date_time, duration, harmless, harmless_lines
from counterfoil.cli.words import state as state_words
from counterfoil.core.errors import NotFound
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.values import AttemptRow, RunRow, TaskRow

if TYPE_CHECKING:
    from rich.table import Table

    from counterfoil.app.house import House
    from counterfoil.app.run_views import RunView


def run_table(rows: Sequence[RunRow], now: int) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("run", no_wrap=True, min_width=20)
    table.add_column("what", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("started")
    table.add_column("took", justify="right")
    for row in rows:
        table.add_row(
            row.id,
            Text(harmless(f"{row.subject_kind} {row.subject_id}")),
            Text(_standing(row), RUN_STYLES.get(row.status, "")),
            date_time(row.created_at),
            _took(row, now),
        )
    return table


def _standing(row: RunRow) -> str:
    cause = harmless(state_words(row.cause))
    return state_words(row.status) + (f" ({cause})" if cause not in ("", "finished") else "")


def _took(row: RunRow, now: int) -> str:
    ended = row.ended_at or (now if row.status == ExecutionStatus.RUNNING else None)
    if ended is None or row.started_at is None:
        return NOTHING
    return duration((ended - row.started_at) // 1000)


def known_task(view: "RunView", task_id: str) -> TaskRow:
    """Raises ``NotFound`` with the nearest ids."""
    for task in view.tasks:
        if task.task_id == task_id:
            return task
    near = difflib.get_close_matches(task_id, [task.task_id for task in view.tasks], 3)
    raise NotFound(
        f"{view.run.id} has no task {task_id!r}",
        hint=f"did you mean {' or '.join(near)}?" if near else "",
    )


def known_attempt(view: "RunView", name: str) -> AttemptRow:
    """The attempt whose id is, or alone begins with, the name. Raises ``NotFound``."""
    found = [attempt for attempt in view.attempts if attempt.id.startswith(name)]
    exact = [attempt for attempt in found if attempt.id == name] or found
    if len(exact) == 1:
        return exact[0]
    said = "several attempts that begin with" if exact else "no attempt"
    raise NotFound(f"{view.run.id} has {said} {name!r}")


def as_object(
    view: "RunView", tally: Tally, *, task_id: str | None, attempt: AttemptRow | None
) -> dict[str, Any]:
    """The run's rows by their column names, narrowed to a task or an attempt when asked."""

    def wanted(row: AttemptRow) -> bool:
        if attempt is not None:
            return row.id == attempt.id
        return task_id is None or row.task_id == task_id

    attempts = [row for row in view.attempts if wanted(row)]
    ids = {row.id for row in attempts}
    only = attempt.task_id if attempt is not None else task_id
    return {
        "run": asdict(view.run),
        "branch": view.branch,
        "repository": str(view.repository),
        "tasks": [asdict(task) for task in view.tasks if only in (None, task.task_id)],
        "attempts": [{**asdict(row), **_tokens(tally.attempt(row.id))} for row in attempts],
        "gates": [asdict(gate) for gate in view.gates if gate.attempt_id in ids],
        "waits": {key: text for key, text in view.waits.items() if only in (None, key)},
        "worktrees": {
            key: str(path) for key, path in view.worktrees.items() if only in (None, key)
        },
    }


def _tokens(usage: Usage) -> dict[str, int | None]:
    return {"input_tokens": usage.input, "output_tokens": usage.output}


def print_output(house: "House", view: "RunView", name: str, *, as_json: bool) -> None:
    """The recorded output of an attempt, or of a task's last one, on stdout."""
    from counterfoil.app.run_views import attempt_output

    data = attempt_output(house, view.run.id, name)
    text = data.decode("utf-8", "replace")
    if as_json:
        print_json({"run": view.run.id, "of": name, "output": text})
    elif is_terminal(sys.stdout):
        sys.stdout.write(harmless_lines(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    sys.stdout.flush()
