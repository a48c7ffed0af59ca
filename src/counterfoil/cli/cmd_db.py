"""``db``: bring the ledger's schema up to date, and tell what is in it."""

from pathlib import Path

import click

from counterfoil.cli.exit_codes import Exit
from counterfoil.cli.options import InOrder, json_option, ledger_option, opened
from counterfoil.cli.terminal import console, print_json, print_line
from counterfoil.cli.words import count, harmless, state


@click.group(cls=InOrder)
def db() -> None:
    """Look after the ledger's database.

    \b
    Example:
      counterfoil db info
    """


@db.command()
@ledger_option
@json_option()
def migrate(ledger: Path | None, as_json: bool) -> Exit:
    """Bring the ledger's schema up to date, and say what was done.

    Every command does this when it opens the ledger; this one does nothing else. A ledger that
    a newer version wrote is refused, not changed.

    \b
    Example:
      counterfoil db migrate
    """
    from counterfoil.app.maintenance import migrate as bring_up_to_date
    from counterfoil.app.settings import load_settings

    settings = load_settings()
    if ledger is not None:
        settings = settings.model_copy(update={"ledger": ledger})
    applied = bring_up_to_date(settings)
    if as_json:
        print_json({"ledger": str(settings.ledger_file), "applied": applied})
        return Exit.OK
    out = console()
    for name in applied:
        print_line(out, f"applied {harmless(name)}")
    done = count(len(applied), "migration") + " applied" if applied else "nothing to do"
    print_line(out, f"{harmless(str(settings.ledger_file))} is up to date: {done}")
    return Exit.OK


@db.command()
@ledger_option
@json_option()
def info(ledger: Path | None, as_json: bool) -> Exit:
    """Tell where the ledger is, its schema, its size, and how much is in it.

    \b
    Example:
      counterfoil db info
      counterfoil db info --json
    """
    from counterfoil.app.maintenance import info as ask

    with opened(ledger) as house:
        found = ask(house)
    if as_json:
        print_json(found)
        return Exit.OK
    out = console()
    width = max((len(str(key)) for key in found), default=0) + 2
    for key, value in found.items():
        shown = f"{value:,}" if type(value) is int else _in_words(value)
        print_line(out, f"{state(key):<{width}}{harmless(shown)}")
    return Exit.OK


def _in_words(value: object) -> str:
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)
