"""Options that several commands share, and how they find the ledger and a run."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from counterfoil.core.errors import NotFound

if TYPE_CHECKING:
    from counterfoil.app.house import House

LAST = "last"
"""The newest run, wherever a run is named."""

F = TypeVar("F", bound=Callable[..., Any])


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
    from counterfoil.ledger import runs
    from counterfoil.ledger.record import expect

    ledger = house.ledger
    if name != LAST:
        return expect(ledger.read(lambda connection: runs.find(connection, ledger.scope, name))).id
    newest = ledger.read(lambda connection: runs.newest(connection, ledger.scope, 1))
    if not newest:
        raise NotFound("there is no run yet", hint="start one: counterfoil run plan.jsonl")
    return newest[0].id
