import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.plans.graph import cycle_text, cycles, dependents, topological_order, waves
from counterfoil.plans.model import Task

NAMES = "abcdefg"
GRAPHS = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=4), max_size=7
)


def plan(edges: dict[str, list[str]]) -> list[Task]:
    return [
        Task(id=task_id, title=task_id, prompt="x", depends_on=tuple(targets))
        for task_id, targets in edges.items()
    ]


def can_reach_itself(edges: dict[str, list[str]], start: str) -> bool:
    seen: set[str] = set()
    pending = [target for target in edges[start] if target in edges]
    while pending:
        task_id = pending.pop()
        if task_id not in seen:
            seen.add(task_id)
            pending.extend(target for target in edges[task_id] if target in edges)
    return start in seen


def test_waves_hold_what_may_run_side_by_side():
    tasks = plan({"d": ["b", "c"], "a": [], "b": ["a"], "c": ["a"], "e": []})
    assert waves(tasks) == (("a", "e"), ("b", "c"), ("d",))
    assert topological_order(tasks) == ("a", "b", "c", "d", "e")
    assert dependents(tasks) == {"d": (), "a": ("b", "c"), "b": ("d",), "c": ("d",), "e": ()}


def test_an_empty_plan_has_no_waves():
    assert waves([]) == ()
    assert topological_order([]) == ()


def test_a_cycle_is_told_from_its_first_task_and_only_once():
    assert cycles({"a": ["b", "b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == (("a", "b", "c"),)
    assert cycles({"c": ["a"], "a": ["c"]}) == (("c", "a"),)
    assert cycles({"a": ["a"]}) == (("a",),)


def test_two_cycles_through_one_task_are_two():
    assert cycles({"a": ["b", "c"], "b": ["a"], "c": ["a"]}) == (("a", "b"), ("a", "c"))


def test_an_order_of_tasks_that_wait_for_one_another_is_refused_by_name():
    with pytest.raises(ValueError, match="b -> c -> b"):
        topological_order(plan({"a": [], "b": ["c"], "c": ["b"]}))


def test_a_chain_of_ten_thousand_tasks_needs_no_recursion():
    chain = {f"t{n}": [f"t{n + 1}"] for n in range(10_000)} | {"t10000": []}
    assert cycles(chain) == ()
    assert len(waves(plan(chain))) == 10_001
    (ring,) = cycles(chain | {"t10000": ["t0"]})
    assert len(ring) == 10_001
    assert len(cycle_text(ring)) < 200


def test_a_knot_of_many_cycles_shows_as_many_as_asked_for():
    knot = {str(n): [str(m) for m in range(60) if m != n] for n in range(60)}
    found = cycles(knot, limit=7)
    assert len(set(found)) == 7


@settings(deadline=None)
@given(GRAPHS)
def test_cycles_are_real_distinct_and_missed_by_no_knot(edges: dict[str, list[str]]):
    found = cycles(edges, limit=1_000)
    assert len(set(found)) == len(found)
    for cycle in found:
        assert len(set(cycle)) == len(cycle)
        for source, target in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            assert target in edges[source]
    on_a_cycle = {task_id for task_id in edges if can_reach_itself(edges, task_id)}
    assert bool(found) == bool(on_a_cycle)
    assert {task_id for cycle in found for task_id in cycle} <= on_a_cycle


@settings(deadline=None)
@given(GRAPHS)
def test_a_wave_depends_on_earlier_waves_only_and_on_the_last_of_them(
    edges: dict[str, list[str]],
):
    tasks = plan(edges)
    if cycles(edges):
        with pytest.raises(ValueError):
            waves(tasks)
        return
    order = topological_order(tasks)
    assert sorted(order) == sorted(edges)
    level = {task_id: n for n, wave in enumerate(waves(tasks)) for task_id in wave}
    for task_id, targets in edges.items():
        before = [level[target] for target in targets if target in edges]
        assert level[task_id] == 1 + max(before, default=-1)
        assert all(order.index(t) < order.index(task_id) for t in targets if t in edges)
