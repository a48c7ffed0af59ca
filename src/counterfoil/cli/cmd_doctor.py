"""``doctor``: whether this machine has what runs need."""

from dataclasses import asdict
from pathlib import Path

import click

from counterfoil.cli.exit_codes import Exit
from counterfoil.cli.options import json_option
from counterfoil.cli.terminal import ascii_only, console, print_json, print_line
from counterfoil.cli.words import count, harmless


@click.command()
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="PATH",
    help="Also look whether runs can work on this repository.",
)
@json_option()
def doctor(repo: Path | None, as_json: bool) -> Exit:
    """Look whether this machine has what runs need.

    Git, the ledger, the agents, a repository. Every check that fails comes with
    the way out; the exit code is then 1.

    \b
    Example:
      counterfoil doctor
      counterfoil doctor --repo ../library
    """
    from counterfoil.app.maintenance import doctor as examine
    from counterfoil.app.settings import load_settings

    checks = examine(load_settings(), repo)
    bad = [check for check in checks if not check.ok]
    if as_json:
        print_json({"ok": not bad, "checks": [asdict(check) for check in checks]})
        return Exit.FOUND if bad else Exit.OK
    out = console()
    signs = ("+", "x") if ascii_only(out.file) else ("✓", "✗")
    for check in checks:
        sign = (signs[0], "green") if check.ok else (signs[1], "red")
        print_line(out, sign, f" {harmless(check.name)}: {harmless(check.detail)}")
        if check.hint and not check.ok:
            print_line(out, f"    {harmless(check.hint)}")
    print_line(out, f"{count(len(bad), 'thing')} to mend" if bad else "Everything is there.")
    return Exit.FOUND if bad else Exit.OK
