"""``run``: launch a plan on a repository and drive it to its end or to a pause."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from counterfoil.cli.commands import Commands
from counterfoil.cli.driving import Shown, drive
from counterfoil.cli.exit_codes import Exit
from counterfoil.cli.options import json_option, ledger_option, plain_option
from counterfoil.core.errors import PlanInvalid

if TYPE_CHECKING:
    from counterfoil.app.house import House
    from counterfoil.app.plan_runs import Control
    from counterfoil.app.run_views import RunView


@click.command()
@click.argument(
    "plan", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PLAN"
)
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    show_default="the current folder",
    metavar="PATH",
    help="The git repository that the tasks work on.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    metavar="N",
    help="How many tasks run side by side. [default: the plan's, else COUNTERFOIL_CONCURRENCY]",
)
@click.option("--agent", metavar="NAME", help="The agent of prompt tasks that name none.")
@click.option(
    "--base", metavar="REV", help="The commit to start from. [default: where HEAD stands]"
)
@click.option(
    "--key",
    metavar="KEY",
    help="A name of your own: while a run of that key is unfinished, there is no second one.",
)
@ledger_option
@json_option("One JSON object for each journal entry, and one that closes the run.")
@plain_option
def run(
    plan: Path,
    repo: Path,
    concurrency: int | None,
    agent: str | None,
    base: str | None,
    key: str | None,
    ledger: Path | None,
    as_json: bool,
    plain: bool,
) -> Exit:
    """Run a plan on a repository, to its end.

    Every task gets a git worktree of its own. When its work passes the gates it is merged into a
    run branch; your checkout is never touched. On a terminal you see every task as it goes;
    elsewhere you get a line for each thing that happens. Ctrl-C ends the attempts, keeps their
    work and pauses the run; SIGTERM leaves the agents at work for `counterfoil runs recover`.

    \b
    Example:
      counterfoil run plan.jsonl
      counterfoil run plan.jsonl --repo ../library --concurrency 2
      counterfoil run plan.jsonl --json > journal.jsonl
    """

    async def launch(house: "House", control: "Control") -> "RunView":
        from counterfoil.app.plan_runs import LaunchRequest, drive_new

        request = LaunchRequest(
            plan=plan,
            repository=repo,
            concurrency=concurrency,
            agent=agent,
            base=base,
            run_key=key,
        )
        return await drive_new(house, request, control)

    try:
        return drive(ledger, Shown.chosen(as_json=as_json, plain=plain), launch)
    except PlanInvalid as error:
        error.hint = f"all of it: {Commands().check(str(plan))}"
        raise
