"""``runs``: look at recorded runs, take one up again, and land its work."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from counterfoil.cli import run_screens, screens
from counterfoil.cli.commands import Commands
from counterfoil.cli.driving import Shown, drive
from counterfoil.cli.exit_codes import Exit
from counterfoil.cli.following import all_entries, follow, tally_of
from counterfoil.cli.options import (
    InOrder,
    json_option,
    ledger_option,
    opened,
    plain_option,
    run_argument,
    run_id,
)
from counterfoil.cli.sentences import as_object, line
from counterfoil.cli.terminal import console, print_block, print_json, print_line
from counterfoil.cli.words import commit, harmless

if TYPE_CHECKING:
    from counterfoil.app.house import House
    from counterfoil.app.plan_runs import Control
    from counterfoil.app.run_views import RunView


@click.group(cls=InOrder)
def runs() -> None:
    """Look at recorded runs, take one up again, land its work.

    RUN is a run's id, the beginning of it that no other run shares, or `last` for the newest.

    \b
    Example:
      counterfoil runs list
      counterfoil runs show last
    """


@runs.command("list")
@click.option(
    "--most",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="N",
    help="How many, the newest first.",
)
@ledger_option
@json_option()
def list_(most: int, ledger: Path | None, as_json: bool) -> Exit:
    """List runs, the newest first.

    Each with what was run, where it stands, when it began, and how long it took.

    \b
    Example:
      counterfoil runs list
      counterfoil runs list --most 100 --json
    """
    from counterfoil.app.run_views import list_runs

    with opened(ledger) as house:
        rows = list_runs(house, most)
        if as_json:
            print_json({"runs": [asdict(row) for row in rows]})
        elif rows:
            print_block(console(), run_screens.run_table(rows, house.ledger.clock.now_us()))
        else:
            click.echo(f"No run yet. Start one with: {Commands(ledger).run('plan.jsonl')}")
    return Exit.OK


@runs.command()
@run_argument
@click.option("--task", "task_id", metavar="T", help="One task: its attempts and their gates.")
@click.option("--attempt", "attempt_id", metavar="A", help="One attempt, by its id.")
@click.option(
    "--output", is_flag=True, help="What the attempt's process printed (a task's last attempt)."
)
@ledger_option
@json_option()
def show(
    run: str,
    task_id: str | None,
    attempt_id: str | None,
    output: bool,
    ledger: Path | None,
    as_json: bool,
) -> Exit:
    """Show a run, one of its tasks, or one attempt.

    A run is shown with its tasks, why each stands where it does, and what comes next.
    With --task, one task with its attempts and the gates that judged them. With --output, what
    an attempt's process printed, after redaction: as it was recorded when written to a file or a
    pipe, with control characters spelled out on a terminal.

    \b
    Example:
      counterfoil runs show last
      counterfoil runs show last --task parse
      counterfoil runs show last --task parse --output
    """
    from counterfoil.app.run_views import view

    if output and task_id is None and attempt_id is None:
        raise click.UsageError("--output needs --task or --attempt.")
    with opened(ledger) as house:
        found = view(house, run_id(house, run))
        if task_id is not None:
            run_screens.known_task(found, task_id)
        attempt = None if attempt_id is None else run_screens.known_attempt(found, attempt_id)
        if output:
            run_screens.print_output(house, found, attempt_id or task_id or "", as_json=as_json)
            return Exit.OK
        tally = tally_of(all_entries(house, found.run.id))
        if as_json:
            print_json(run_screens.as_object(found, tally, task_id=task_id, attempt=attempt))
            return Exit.OK
        out, commands, now = console(), Commands(ledger), house.ledger.clock.now_us()
        if attempt is not None:
            screens.attempt_page(out, found, attempt, tally, commands, now)
        elif task_id is not None:
            screens.task_page(out, found, task_id, tally, commands, now)
        else:
            screens.overview(out, found, tally, commands, now)
    return Exit.OK


@runs.command()
@run_argument
@click.option(
    "--since",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    metavar="N",
    help="Only entries after this sequence number.",
)
@click.option("--task", "task_id", metavar="T", help="Only entries of this task.")
@click.option("--follow", "following", is_flag=True, help="Go on until the run has ended.")
@ledger_option
@json_option("One JSON document; with --follow one JSON object for each entry.")
def events(
    run: str,
    since: int,
    task_id: str | None,
    following: bool,
    ledger: Path | None,
    as_json: bool,
) -> Exit:
    """Print a run's journal.

    Everything that happened, in order, each entry with its sequence number.

    \b
    Example:
      counterfoil runs events last
      counterfoil runs events last --since 40 --task parse
      counterfoil runs events last --follow
    """
    with opened(ledger) as house:
        name = run_id(house, run)
        found = follow if following else all_entries
        documents = []
        seq = since
        for entry in found(house, name, since, task_id):
            seq = entry.seq
            if not as_json:
                click.echo(f"{entry.seq:>5}  {line(entry)}")
            elif following:
                print_json(as_object(entry))
            else:
                documents.append(as_object(entry))
        if as_json and not following:
            print_json({"run": name, "events": documents, "nextSince": seq})
    return Exit.OK


_SHOWN_AS_JSON = json_option("One JSON object for each journal entry, and one that closes the run.")


@runs.command()
@run_argument
@ledger_option
@_SHOWN_AS_JSON
@plain_option
def recover(run: str, ledger: Path | None, as_json: bool, plain: bool) -> Exit:
    """Take up a run whose process is gone.

    After a crash, a reboot, or SIGTERM. Attempts that are still at work are adopted,
    those that ended meanwhile are judged, and the rest of the plan goes on. A run that another
    process drives is refused.

    \b
    Example:
      counterfoil runs recover last
    """

    async def take_up(house: "House", control: "Control") -> "RunView":
        from counterfoil.app.plan_runs import drive_recovered

        return await drive_recovered(house, run_id(house, run), control)

    shown = Shown.chosen(as_json=as_json, plain=plain)
    return drive(ledger, shown, take_up, known_run=run)


@runs.command()
@run_argument
@click.option(
    "--concurrency", type=click.IntRange(1, 256), metavar="N", help="How many tasks side by side."
)
@ledger_option
@_SHOWN_AS_JSON
@plain_option
def resume(
    run: str, concurrency: int | None, ledger: Path | None, as_json: bool, plain: bool
) -> Exit:
    """Go on with a run that is paused.

    By Ctrl-C, or by trouble that had to pass first. Work that was kept is taken up
    where it was left.

    \b
    Example:
      counterfoil runs resume last
      counterfoil runs resume last --concurrency 1
    """

    async def go_on(house: "House", control: "Control") -> "RunView":
        from counterfoil.app.plan_runs import drive_resumed

        return await drive_resumed(house, run_id(house, run), control, concurrency)

    shown = Shown.chosen(as_json=as_json, plain=plain)
    return drive(ledger, shown, go_on, known_run=run)


@runs.command()
@run_argument
@click.option(
    "--into", metavar="BRANCH", help="The branch to merge into. [default: the one it began from]"
)
@ledger_option
@json_option()
def land(run: str, into: str | None, ledger: Path | None, as_json: bool) -> Exit:
    """Merge a run's branch into a branch of yours.

    One explicit act: until then, nothing of the run is on any branch but its own.

    \b
    Example:
      counterfoil runs land last
      counterfoil runs land last --into main
    """
    from counterfoil.app.run_views import land as land_run

    with opened(ledger) as house:
        name = run_id(house, run)
        branch, old, new = land_run(house, name, into)
    if as_json:
        print_json({"run": name, "branch": branch, "old": old, "new": new})
        return Exit.OK
    moved = f": {commit(old)} -> {commit(new)}" if old != new else " already"
    print_line(console(), f"{harmless(branch)} has the work of {name}{moved}")
    return Exit.OK
