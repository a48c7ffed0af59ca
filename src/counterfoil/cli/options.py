"""Options that several commands share, and how they find the ledger and a run."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from counterfoil.cli.commands import Commands
from counterfoil.core.errors import NotFound

if TYPE_CHECKING:
    from counterfoil.app.house import House

F = TypeVar("F", bound=Callable[..., Any])


class InOrder(click.Group):
    """A group whose commands are listed in the order in which they were defined."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def json_option(text: str = "One JSON document on stdout instead of text.") -> Callable[[F], F]:
    return click.option("--json", "as_json", is_flag=True, help=text)


def ledger_option(command: F) -> F:
    return click.option(
        "--ledger",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The ledger's file. [default: COUNTERFOIL_LEDGER, else ledger.db in COUNTERFOIL_HOME]",
    )(command)


def plain_option(command: F) -> F:
    return click.option(
        "--plain", is_flag=True, help="Lines instead of the live view, on a terminal too."
    )(command)


def run_argument(command: F) -> F:
    return click.argument("run", metavar="RUN")(command)


@contextlib.contextmanager
def opened(ledger: Path | None) -> "Iterator[House]":
    """The house on the ledger that was named, or on the settings' own."""
    from counterfoil.app.house import open_house

    with open_house(ledger) as house:
        yield house


def run_id(house: "House", name: str) -> str:
    """The id of the run that a name means: an id, its unique beginning, or ``last``.

    Raises ``NotFound``, and ``Conflict`` when several begin like that.
    """
    from counterfoil.app.run_views import find

    try:
        return find(house, name).id
    except NotFound as error:
        error.hint = error.hint or Commands().runs()
        raise
