"""Writes the generated parts of the reference pages; ``--check`` says which are out of date."""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
from pydantic_core import PydanticUndefined

from counterfoil.app.settings import Settings
from counterfoil.cli import exit_codes
from counterfoil.cli.main import cli
from counterfoil.core.errors import CounterfoilError
from counterfoil.ledger import events, states
from counterfoil.ports.agent import ErrorClass

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
BLOCK = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end generated: )", re.DOTALL)
NOTE = "<!-- Written by `make docs`; do not edit between these two lines. -->\n"


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )


def events_block() -> str:
    parts = []
    for kind in events.KINDS.values():
        parts.append(f"\n### `{kind.name}`\n\n{kind.doc}\n\n")
        rows = (
            (f"`{name}`", field.type_names, "yes" if field.required else "no", field.doc)
            for name, field in kind.fields.items()
        )
        parts.append(table(("field", "type", "always", "meaning"), rows))
    return "".join(parts) + "\n"


def states_block() -> str:
    parts = []
    machines = {
        "Runs": states.RUN_MOVES,
        "Steps": states.STEP_MOVES,
        "Tasks": states.TASK_MOVES,
        "Attempts": states.ATTEMPT_MOVES,
        "Holders": states.HOLDER_MOVES,
    }
    for title, moves in machines.items():
        rows = (
            (f"`{source}`", ", ".join(f"`{target}`" for target in sorted(targets)) or "nothing")
            for source, targets in moves.items()
        )
        parts.append(f"\n## {title}\n\n")
        parts.append(table(("from", "to"), rows))
        parts.append(f"\n{diagram(moves)}")
    parts.append("\n## Outcomes of an attempt\n\n")
    parts.append(", ".join(f"`{outcome}`" for outcome in states.AttemptOutcome) + "\n")
    parts.append("\n## Classes of failure\n\n")
    rows = (
        (f"`{word}`", "the surroundings: the run is parked" if word.of_surroundings else "the task")
        for word in ErrorClass
    )
    parts.append(table(("class", "whose failure"), rows))
    return "".join(parts) + "\n"


def diagram(moves: states.Moves) -> str:
    arrows = (
        f"    {source} --> {target}\n"
        for source, targets in moves.items()
        for target in sorted(targets)
    )
    return "```mermaid\nstateDiagram-v2\n" + "".join(arrows) + "```\n"


def all_errors(kind: type[CounterfoilError] = CounterfoilError) -> Iterator[type[CounterfoilError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from all_errors(child)


def errors_block() -> str:
    rows = (
        (
            f"`{kind.code}`",
            (kind.__doc__ or "").partition("\n")[0],
            str(int(exit_codes.BY_ERROR[kind.code])),
        )
        for kind in all_errors()
    )
    return table(("code", "meaning", "exit code"), rows)


def exit_codes_block() -> str:
    rows = ((str(int(code)), meaning) for code, meaning in exit_codes.MEANINGS.items())
    return table(("exit code", "meaning"), rows)


def settings_block() -> str:
    rows = (
        (
            f"`COUNTERFOIL_{name.upper()}`",
            "see the text" if field.default in (PydanticUndefined, None) else f"`{field.default}`",
            field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )
    return table(("variable", "default", "meaning"), rows)


def cli_block() -> str:
    parts = []
    for words, command in commands(cli, ("counterfoil",)):
        context = click.Context(command, info_name=" ".join(words), terminal_width=96)
        parts.append(f"\n## `{' '.join(words)}`\n\n```text\n{command.get_help(context)}\n```\n")
    return "".join(parts) + "\n"


def commands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from commands(command.commands[name], (*words, name))


BLOCKS: Mapping[str, Callable[[], str]] = {
    "events": events_block,
    "states": states_block,
    "errors": errors_block,
    "exit-codes": exit_codes_block,
    "settings": settings_block,
    "cli": cli_block,
}


def written(page: str) -> str:
    """A page with its generated parts as they should be. Raises ``KeyError`` for an unknown one."""
    return BLOCK.sub(lambda match: f"{match[1]}{NOTE}{BLOCKS[match['name']]()}{match[3]}", page)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 on a drift")
    given = parser.parse_args()
    stale = []
    for path in sorted(REFERENCE.glob("*.md")):
        page = path.read_text("utf-8")
        fresh = written(page)
        if fresh != page:
            stale.append(path.name)
            if not given.check:
                path.write_text(fresh, "utf-8")
    if stale:
        print(f"{'out of date' if given.check else 'written'}: {', '.join(stale)}")
    return 1 if stale and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
