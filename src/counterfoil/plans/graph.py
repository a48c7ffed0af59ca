"""The graph of a plan's tasks as values: cycles, order, waves, who waits for whom.

An edge leads from a task to what it depends on; dependencies that name no task are passed over
(the parser refuses them). Nothing here recurses, so a chain of 10,000 tasks is nothing special.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence

from counterfoil.plans.model import Task

Edges = Mapping[str, Sequence[str]]

MAX_CYCLES = 50
"""How many cycles are told at once; the rest shows when these are gone."""


def cycles(edges: Edges, limit: int = MAX_CYCLES) -> tuple[tuple[str, ...], ...]:
    """Cycles as the ids on them, each once, begun at its first task in the order of ``edges``.

    Every knot of tasks that wait for one another shows at least one, up to ``limit`` in all.
    A task that depends on itself is a cycle of one.
    """
    order = {task_id: place for place, task_id in enumerate(edges)}
    found: list[tuple[str, ...]] = []
    for cycle in _back_edges(edges):
        first = min(range(len(cycle)), key=lambda place: order[cycle[place]])
        found.append((*cycle[first:], *cycle[:first]))
        if len(found) == limit:
            break
    return tuple(found)


def _back_edges(edges: Edges) -> Iterator[list[str]]:
    """Walk depth first; every edge back into the walk's own path closes one cycle."""
    depth: dict[str, int] = {}
    done: set[str] = set()
    for root in edges:
        if root in done:
            continue
        path = [root]
        depth[root] = 0
        pending = [iter(dict.fromkeys(edges[root]))]
        while pending:
            target = next(pending[-1], None)
            if target is None:
                pending.pop()
                leaving = path.pop()
                del depth[leaving]
                done.add(leaving)
            elif target in depth:
                yield path[depth[target] :]
            elif target in edges and target not in done:
                depth[target] = len(path)
                path.append(target)
                pending.append(iter(dict.fromkeys(edges[target])))


def dependents(tasks: Sequence[Task]) -> dict[str, tuple[str, ...]]:
    """For every task the tasks that depend on it directly, in plan order."""
    found: dict[str, list[str]] = {task.id: [] for task in tasks}
    for task in tasks:
        for dependency in dict.fromkeys(task.depends_on):
            if dependency in found:
                found[dependency].append(task.id)
    return {task_id: tuple(waiting) for task_id, waiting in found.items()}


def topological_order(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Every task after its dependencies, otherwise in plan order.

    Raises ``ValueError`` naming a cycle.
    """
    place = {task.id: number for number, task in enumerate(tasks)}
    unmet = _unmet(tasks)
    waiting = dependents(tasks)
    ready = [place[task_id] for task_id, count in unmet.items() if count == 0]
    heapq.heapify(ready)
    order: list[str] = []
    while ready:
        task_id = tasks[heapq.heappop(ready)].id
        order.append(task_id)
        for dependent in waiting[task_id]:
            unmet[dependent] -= 1
            if unmet[dependent] == 0:
                heapq.heappush(ready, place[dependent])
    _refuse_cycle(tasks, len(order))
    return tuple(order)


def waves(tasks: Sequence[Task]) -> tuple[tuple[str, ...], ...]:
    """Tasks by how many must be done before them in a row; a wave depends on earlier ones only.

    Each wave is in plan order. Raises ``ValueError`` naming a cycle.
    """
    level: dict[str, int] = {}
    depends_on = {task.id: task.depends_on for task in tasks}
    for task_id in topological_order(tasks):
        before = (level[other] for other in depends_on[task_id] if other in level)
        level[task_id] = 1 + max(before, default=-1)
    found: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for task in tasks:
        found[level[task.id]].append(task.id)
    return tuple(tuple(wave) for wave in found)


def _unmet(tasks: Sequence[Task]) -> dict[str, int]:
    known = {task.id for task in tasks}
    return {task.id: len(known.intersection(task.depends_on)) for task in tasks}


def _refuse_cycle(tasks: Sequence[Task], ordered: int) -> None:
    if ordered < len(tasks):
        (cycle,) = cycles({task.id: task.depends_on for task in tasks}, limit=1)
        raise ValueError(f"the tasks depend on one another: {cycle_text(cycle)}")


def cycle_text(cycle: Sequence[str]) -> str:
    """A cycle as people read it, ``a -> b -> a``; a long one shortened in the middle."""
    shown = list(cycle)
    if len(shown) > 12:
        shown[6:-5] = [f"({len(cycle) - 11} more)"]
    return " -> ".join([*shown, cycle[0]])
