"""A plan as a tree of waves, and its faults as lines that editors can jump to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counterfoil.cli.words import count, harmless

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from counterfoil.plans.model import Fault, Plan, Task


def fault_lines(file: Path, faults: "Iterable[Fault]") -> Iterator[str]:
    """``plan.jsonl:3:7: CYCLE message``, and below it the hint, where there is one."""
    for fault in faults:
        where = f"{harmless(str(file))}:{fault.line}:{fault.column}"
        yield f"{where}: {fault.code} {harmless(fault.message)}"
        if fault.hint:
            yield f"    hint: {harmless(fault.hint)}"


def plan_tree(plan: "Plan") -> "Tree":
    from rich.text import Text
    from rich.tree import Tree

    from counterfoil.plans.graph import waves

    found = waves(plan.tasks)
    tasks = {task.id: task for task in plan.tasks}
    size = f"  {count(len(tasks), 'task')} in {count(len(found), 'wave')}"
    tree = Tree(Text.assemble((harmless(plan.name), "bold"), (size, "dim")))
    for number, wave in enumerate(found, 1):
        when = "starts at once" if number == 1 else f"after wave {number - 1}"
        branch = tree.add(Text.assemble(f"wave {number}", (f"  {when}", "dim")))
        for task_id in wave:
            branch.add(_task(tasks[task_id]))
    for note in plan.notes:
        tree.add(Text(f"note: {harmless(note)}", "dim"))
    return tree


def _task(task: "Task") -> "Text":
    from rich.text import Text

    title = "" if task.title == task.id else f"  {harmless(task.title)}"
    parts: list[str | tuple[str, str]] = [(harmless(task.id), "bold"), title]
    parts.extend((f"\n{label} {text}", "dim") for label, text in _details(task).items() if text)
    return Text.assemble(*parts)


def _details(task: "Task") -> Mapping[str, str]:
    agent = f"agent {task.agent}" if task.agent else "the default agent"
    work = f"command {' '.join(task.run)}" if task.run else agent
    return {
        "after": _named(task.depends_on),
        "by": harmless(work),
        "claims": _named(task.files),
        "gates": _named([gate.name for gate in task.gates]),
    }


def _named(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return harmless(", ".join(names[:most])) + more
