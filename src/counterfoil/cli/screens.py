"""The screens of a run: how it closed, where it stands, one of its tasks, one attempt."""

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from counterfoil.cli import tasks_table
from counterfoil.cli.commands import Commands
from counterfoil.cli.next_step import log_command, next_step
from counterfoil.cli.tally import Tally
from counterfoil.cli.terminal import ascii_only, print_block, print_line
from counterfoil.cli.words import (
    RUN_STYLES,
    TASK_MARKS,
    commit,
    date_time,
    duration,
    harmless,
    harmless_lines,
    state,
)
from counterfoil.ledger.states import (
    RUN_ENDS,
    AttemptStatus,
    ExecutionStatus,
    GateResult,
    Phase,
    TaskStatus,
)
from counterfoil.ledger.values import AttemptRow, GateRow

if TYPE_CHECKING:
    from rich.console import Console

    from counterfoil.app.run_views import RunView

LABEL = 11
"""How wide the words before a line's content are."""

GATE_LINES = 12
"""How many of a failed gate's last lines are shown."""

MOST_TASKS = 500
"""How many tasks a screen lists."""

INTERRUPTED = "It was interrupted; the work of its attempts is kept."


def closing(
    out: "Console", view: "RunView", tally: Tally, commands: Commands, now: int, head: str = ""
) -> None:
    """What happened, where the work and the logs are, and the one command to go on with."""
    out.print()
    _headline(out, view, now)
    _tasks(out, view, tally, now)
    out.print()
    _places(out, view)
    if head:
        _labelled(out, "Head", head, "  (keep it elsewhere; `counterfoil verify` takes it)")
    _labelled(out, "Logs", log_command(view, commands))
    step = next_step(view, commands)
    _labelled(out, "Next", step.command, f"  ({step.meaning})")


def overview(out: "Console", view: "RunView", tally: Tally, commands: Commands, now: int) -> None:
    """A run as it stands now."""
    run = view.run
    _headline(out, view, now)
    _tasks(out, view, tally, now)
    out.print()
    _labelled(out, "Run", run.id)
    _labelled(out, "Started", date_time(run.started_at or run.created_at))
    if tally.all.known:
        _labelled(out, "Tokens", str(tally.all))
    _places(out, view)
    _labelled(out, "Logs", log_command(view, commands))
    if run.status == ExecutionStatus.RUNNING:
        _labelled(out, "Follow", commands.follow(run.id))
        _labelled(out, "Next", commands.recover(run.id), "  (if its process is gone)")
    else:
        step = next_step(view, commands)
        _labelled(out, "Next", step.command, f"  ({step.meaning})")


def task_page(
    out: "Console", view: "RunView", task_id: str, tally: Tally, commands: Commands, now: int
) -> None:
    """One task: why it stands where it does, its attempts, and the gates that judged them."""
    task = next(one for one in view.tasks if one.task_id == task_id)
    mark = TASK_MARKS[task.status]
    print_line(out, (harmless(task.task_id), "bold"), "  ", harmless(task.title))
    why = harmless(task.reason or view.waits.get(task_id, ""))
    _labelled(out, "State", state(task.status), f": {why}" if why else "", style=mark.style)
    if task.merged_commit:
        _labelled(out, "Merged as", task.merged_commit)
    if task_id in view.worktrees:
        _labelled(out, "Worktree", harmless(str(view.worktrees[task_id])))
    attempts = [attempt for attempt in view.attempts if attempt.task_id == task_id]
    for attempt in attempts:
        out.print()
        _attempt(out, attempt, tally, now)
        _gates(out, [gate for gate in view.gates if gate.attempt_id == attempt.id], tally)
        if attempt.phase != Phase.MERGE:
            _labelled(out, "Output", commands.attempt_output(view.run.id, attempt.id))
    if not attempts:
        _labelled(out, "Attempts", "none yet")


def attempt_page(
    out: "Console", view: "RunView", attempt: AttemptRow, tally: Tally, commands: Commands, now: int
) -> None:
    """One attempt with everything that was recorded of it."""
    print_line(out, (harmless(attempt.task_id), "bold"), f"  {attempt.phase} {attempt.ordinal}")
    _attempt(out, attempt, tally, now)
    _gates(out, [gate for gate in view.gates if gate.attempt_id == attempt.id], tally)
    _labelled(out, "Started", date_time(attempt.started_at))
    _labelled(out, "Ended", date_time(attempt.ended_at))
    for label, value in (
        ("Base", attempt.base),
        ("Candidate", attempt.candidate),
        ("Tree", attempt.tree),
        ("Session", attempt.session),
        ("Process", _process(attempt.exit_json)),
    ):
        if value:
            _labelled(out, label, harmless(value))
    _labelled(out, "Output", commands.attempt_output(view.run.id, attempt.id))


def _headline(out: "Console", view: "RunView", now: int) -> None:
    run = view.run
    open_at = now if run.status == ExecutionStatus.RUNNING else run.updated_at
    took = ((run.ended_at or open_at) - (run.started_at or run.created_at)) // 1000
    verb = "for" if run.status == ExecutionStatus.RUNNING else "after"
    counts = tasks_table.counts(task.status for task in view.tasks)
    print_line(
        out,
        (harmless(run.subject_id), "bold"),
        " ",
        (state(run.status), RUN_STYLES.get(run.status, "")),
        f" {verb} {duration(took)}",
        f": {counts}" if counts else "",
    )
    if run.status not in RUN_ENDS and run.cause:
        why = harmless(run.error_message)
        print_line(out, INTERRUPTED if run.cause == "shutdown" else f"{state(run.cause)}: {why}")


def _tasks(out: "Console", view: "RunView", tally: Tally, now: int) -> None:
    lines, rest = tasks_table.most_urgent(tasks_table.task_lines(view, tally, now), MOST_TASKS)
    plain = ascii_only(out.file)
    block = tasks_table.table(lines, width=out.width, ascii_only=plain, one_line=False)
    print_block(out, block)
    if rest:
        print_line(out, f"{rest} (--json lists all)")
    if out.width < tasks_table.NARROW:
        for line in lines:
            if line.why and line.status != TaskStatus.MERGED:
                print_line(out, f"{line.task_id}: {line.why}")


def _places(out: "Console", view: "RunView") -> None:
    where = harmless(str(view.repository))
    _labelled(out, "Branch", harmless(view.branch), f"  in {where}")
    for task_id, path in view.worktrees.items():
        _labelled(out, "Kept", harmless(str(path)), f"  ({harmless(task_id)})")


def _attempt(out: "Console", attempt: AttemptRow, tally: Tally, now: int) -> None:
    if attempt.status == AttemptStatus.ENDED:
        cause = harmless(attempt.end_cause)
        how = state(attempt.outcome) + (f" ({cause})" if cause not in ("", "finished") else "")
    else:
        how = state(attempt.status)
    time = tasks_table.time_taken([attempt], now)
    print_line(
        out,
        (f"{attempt.phase} {attempt.ordinal}", "bold"),
        f"  {how}, {duration(time)}, agent {harmless(attempt.agent)}",
        f", {usage} tokens" if (usage := tally.attempt(attempt.id)).known else "",
        (f"  {attempt.id}", "dim"),
    )
    if attempt.message:
        _labelled(out, "Said", harmless(attempt.message))


def _gates(out: "Console", gates: Sequence[GateRow], tally: Tally) -> None:
    for gate in gates:
        passed = gate.result == GateResult.PASS
        kind = f" ({gate.fail_class})" if gate.fail_class else ""
        code = "" if passed or gate.exit_code is None else f", exit code {gate.exit_code}"
        verdict = ("passed", "green") if passed else (f"failed{kind}", "red")
        print_line(
            out,
            f"{'Gate':<{LABEL}}{harmless(gate.gate)} ",
            verdict,
            f" on tree {commit(gate.tree)}, {duration(gate.duration_ms)}{code}",
            (f"  {harmless(_argv(gate.command))}", "dim"),
        )
        words = tally.gate_words.get((gate.attempt_id, gate.gate, gate.tree), "")
        for said in harmless_lines(words).rstrip().splitlines()[-GATE_LINES:]:
            print_line(out, f"{'':<{LABEL}}| {said}")


def _argv(command: str) -> str:
    """A recorded argv (a JSON list) as a shell would take it."""
    try:
        words = json.loads(command)
    except ValueError:
        return command
    return shlex.join(str(word) for word in words) if isinstance(words, list) else command


def _process(exit_json: str | None) -> str:
    """How the process ended, from its recorded exit."""
    if exit_json is None:
        return ""
    found = json.loads(exit_json)
    names = ("cause", "exit_code", "signal")
    return ", ".join(f"{n.replace('_', ' ')} {found[n]}" for n in names if found.get(n) is not None)


def _labelled(out: "Console", label: str, content: str, more: str = "", *, style: str = "") -> None:
    print_line(out, (f"{label:<{LABEL}}", "dim"), (content, style), more)
