"""``plan``: check a plan and show its order, without running anything."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from counterfoil.cli.exit_codes import Exit
from counterfoil.cli.options import InOrder, json_option
from counterfoil.cli.plan_screens import fault_lines, plan_tree
from counterfoil.cli.terminal import console, print_block, print_json, print_line
from counterfoil.cli.words import count, harmless
from counterfoil.core.errors import PlanInvalid

if TYPE_CHECKING:
    from counterfoil.plans.model import Fault, Plan

_FILE = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE"
)


@click.group(cls=InOrder)
def plan() -> None:
    """Check and show plans.

    A plan is JSONL: one task a line with an `id` and either a `prompt` for an agent or a `run`
    (the words of a command). All other fields have defaults.

    \b
    Example of a plan:
      {"id": "parse", "run": ["python3", "fix_parse.py"]}
      {"id": "docs", "prompt": "Describe the parser", "depends_on": ["parse"]}

    \b
    Example:
      counterfoil plan check plan.jsonl
    """


@plan.command()
@_FILE
@json_option()
def check(file: Path, as_json: bool) -> Exit:
    """Read a plan and tell everything that is wrong with it.

    Each fault comes with its line and column, a code, and the way out. A plan without faults is
    counted: its tasks, its dependencies, and the waves in which they could run. The exit code is
    1 when there are faults.

    \b
    Example:
      counterfoil plan check plan.jsonl
    """
    read, faults = _read(file)
    if as_json:
        print_json(_checked(file, read, faults))
    elif read is None:
        for line in fault_lines(file, faults):
            click.echo(line)
        click.echo(f"{harmless(str(file))} has {count(len(faults), 'fault')}")
    else:
        _tell_good(file, read)
    return Exit.FOUND if faults else Exit.OK


@plan.command()
@_FILE
@json_option()
def show(file: Path, as_json: bool) -> Exit:
    """Show a plan in waves: what can start at once, and what comes after it.

    Tasks of one wave could run side by side, as far as slots and the files that they claim
    allow. Nothing is run.

    \b
    Example:
      counterfoil plan show plan.jsonl
    """
    from counterfoil.app.plan_inputs import check_plan
    from counterfoil.plans.graph import waves

    read = check_plan(file)
    if as_json:
        print_json(
            {
                "name": read.name,
                "header": dict(read.header),
                "waves": [list(wave) for wave in waves(read.tasks)],
                "tasks": [dict(task.raw) for task in read.tasks],
                "notes": list(read.notes),
            }
        )
    else:
        print_block(console(), plan_tree(read))
    return Exit.OK


def _read(file: Path) -> "tuple[Plan | None, tuple[Fault, ...]]":
    from counterfoil.app.plan_inputs import check_plan
    from counterfoil.plans.model import Fault

    try:
        return check_plan(file), ()
    except PlanInvalid as error:
        found = error.details.get("faults", ())
        return None, tuple(one if isinstance(one, Fault) else Fault(**one) for one in found)


def _shape(read: "Plan") -> dict[str, int]:
    from counterfoil.plans.graph import waves

    return {
        "tasks": len(read.tasks),
        "dependencies": sum(len(task.depends_on) for task in read.tasks),
        "waves": len(waves(read.tasks)),
    }


def _tell_good(file: Path, read: "Plan") -> None:
    shape = _shape(read)
    out = console()
    print_line(
        out,
        f"{harmless(str(file))} is a good plan: {count(shape['tasks'], 'task')}, "
        f"{count(shape['dependencies'], 'dependency', 'dependencies')}, "
        f"{count(shape['waves'], 'wave')}",
    )
    for note in read.notes:
        print_line(out, f"note: {harmless(note)}")


def _checked(file: Path, read: "Plan | None", faults: "tuple[Fault, ...]") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "file": str(file),
        "ok": read is not None,
        **(_shape(read) if read is not None else {}),
        "notes": list(read.notes) if read is not None else [],
        "faults": [asdict(fault) for fault in faults],
    }
