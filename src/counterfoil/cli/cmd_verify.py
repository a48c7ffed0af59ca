"""``verify``: prove that the ledger is what was recorded."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from counterfoil.cli.exit_codes import Exit
from counterfoil.cli.options import json_option, ledger_option, opened, run_id
from counterfoil.cli.terminal import console, print_json, print_line
from counterfoil.cli.words import count, harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from counterfoil.ledger.verify import Findings

_HEAD = re.compile(r"(?:(?P<run>[^=]+)=)?(?P<cursor>\d+-[0-9a-f]{8})")


@click.command()
@click.argument("run", metavar="[RUN]", required=False)
@click.option(
    "--head",
    "heads",
    multiple=True,
    metavar="[RUN=]CURSOR",
    help="A head that was kept elsewhere, such as 42-0a1b2c3d; may be given several times.",
)
@ledger_option
@json_option()
def verify(run: str | None, heads: tuple[str, ...], ledger: Path | None, as_json: bool) -> Exit:
    """Prove that the ledger is what was recorded.

    One run, or everything: walks each chain of the journal, compares every row with what
    the journal says of it, and hashes every artifact again. That nothing was cut off the end of
    a chain can only be proven against a head that you kept elsewhere: each result names its
    head, and --head takes it. The exit code is 1 when something is not as it was recorded.

    \b
    Example:
      counterfoil verify
      counterfoil verify last --head 42-0a1b2c3d
      counterfoil verify --head run_0198f2=42-0a1b2c3d
    """
    from counterfoil.app.maintenance import verify_ledger

    with opened(ledger) as house:
        name = run_id(house, run) if run is not None else None
        kept = {}
        for head in heads:
            stream, cursor = _head(head, name)
            kept[run_id(house, stream)] = cursor
        found = verify_ledger(house, name, kept)
    if as_json:
        print_json(
            {
                "ok": all(one.ok for one in found),
                "streams": [{**asdict(one), "ok": one.ok} for one in found],
            }
        )
    else:
        _tell(console(), found)
    return Exit.OK if all(one.ok for one in found) else Exit.FOUND


def _head(given: str, run: str | None) -> tuple[str, str]:
    match = _HEAD.fullmatch(given)
    if match is None:
        raise click.BadParameter(
            f"{given!r} is no head; it looks like 42-0a1b2c3d", param_hint="--head"
        )
    stream = match["run"] or run
    if stream is None:
        raise click.BadParameter(
            f"{given!r} does not say of which run; write RUN={given}", param_hint="--head"
        )
    return stream, match["cursor"]


def _tell(out: "Console", found: "Sequence[Findings]") -> None:
    for one in found:
        verdict = ("as recorded", "green") if one.ok else ("NOT as recorded", "red")
        print_line(
            out,
            f"{harmless(one.stream)}  ",
            verdict,
            f"  {count(one.entries, 'entry', 'entries')}, {count(one.artifacts, 'artifact')}",
            f", head {one.head}",
        )
        for fault in one.faults:
            print_line(out, f"    {harmless(fault)}")
    for said in dict.fromkeys(one.completeness for one in found if one.ok):
        print_line(out, ("note: ", "dim"), harmless(said))
    bad = sum(1 for one in found if not one.ok)
    if not found:
        print_line(out, "The ledger is empty: there is nothing to verify.")
    elif bad:
        print_line(out, f"{bad:,} of {count(len(found), 'chain')} not as recorded")
    else:
        print_line(out, f"Everything is as it was recorded: {count(len(found), 'chain')}.")
