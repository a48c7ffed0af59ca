import ast
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil import observability
from counterfoil.core.errors import ValueRefused
from counterfoil.ledger.states import Phase
from counterfoil.observability import (
    PHASES,
    Criterion,
    CriterionKind,
    NormalizedTaskObservability,
    create_attempt_context,
    normalize_task_observability,
)


def ids():
    numbers = count(1)
    return lambda: f"at_{next(numbers)}"


def test_every_phase_of_the_ledger_is_known_here():
    assert list(PHASES) == [phase.value for phase in Phase]


def test_each_phase_and_retry_is_an_attempt_of_its_own():
    new_id = ids()
    contexts = [
        create_attempt_context("run_1", "a", phase, ordinal, new_id)
        for phase in PHASES
        for ordinal in (1, 2)
    ]
    assert len({context.attempt_id for context in contexts}) == 8
    first = contexts[0]
    assert (first.run_id, first.task_id, first.phase, first.ordinal) == (
        "run_1",
        "a",
        "implement",
        1,
    )


@pytest.mark.parametrize(
    ("run_id", "task_id", "phase", "ordinal"),
    [
        ("run_1", "a", "deploy", 1),
        ("run_1", "a", "", 1),
        ("run_1", "a", "fix", 0),
        ("run_1", "a", "fix", -1),
        ("run_1", "a", "fix", True),
        ("run_1", "a", "fix", 1.0),
        ("", "a", "fix", 1),
        ("run_1", "", "fix", 1),
    ],
)
def test_an_impossible_attempt_is_refused_before_an_id_is_minted(
    run_id: str, task_id: str, phase: str, ordinal: int
):
    new_id = ids()
    with pytest.raises(ValueRefused):
        create_attempt_context(run_id, task_id, phase, ordinal, new_id)
    assert new_id() == "at_1"


def test_a_stamp_adds_the_attempt_and_changes_nothing_else():
    context = create_attempt_context("run_1", "a", "review", 1, ids())
    payload = {"task": "a", "verdict": None}
    assert context.stamp(payload) == {"task": "a", "verdict": None, "attemptId": "at_1"}
    assert payload == {"task": "a", "verdict": None}
    assert context.stamp(context.stamp(payload)) == context.stamp(payload)


def test_an_event_of_another_attempt_is_not_taken_over():
    context = create_attempt_context("run_1", "a", "review", 1, ids())
    with pytest.raises(ValueRefused, match="at_9"):
        context.stamp({"attemptId": "at_9"})


@pytest.mark.parametrize("raw", [{}, {"acceptance": None}, {"acceptance": []}, {"id": "a"}])
def test_absent_acceptance_is_empty(raw: dict[str, object]):
    assert normalize_task_observability(raw) == NormalizedTaskObservability((), None, ())


def test_free_text_is_kept_verbatim():
    text = "  GET /health gives 200\n"
    assert normalize_task_observability({"acceptance": text}).free_text == text
    found = normalize_task_observability({"acceptance": ["it builds", ""]})
    assert found == NormalizedTaskObservability((), ("it builds", ""), ())


def test_structured_criteria_are_read_whatever_else_they_carry():
    raw = {
        "acceptance": [
            {"id": "1", "text": "it builds", "kind": "auto", "since": "2020"},
            {"id": "2", "text": "it reads well", "kind": "manual"},
        ],
        "version": 1,
    }
    assert normalize_task_observability(raw) == NormalizedTaskObservability(
        (
            Criterion("1", "it builds", CriterionKind.AUTO),
            Criterion("2", "it reads well", CriterionKind.MANUAL),
        )
    )


@pytest.mark.parametrize(
    ("acceptance", "path"),
    [
        (7, ()),
        ({"id": "1"}, ()),
        ([1, 2], (0,)),
        ([{"id": "1", "text": "x", "kind": "auto"}, "free text"], (1,)),
        ([{"text": "x", "kind": "auto"}], (0,)),
        ([{"id": "", "text": "x", "kind": "auto"}], (0, "id")),
        ([{"id": "1", "text": None, "kind": "auto"}], (0, "text")),
        ([{"id": "1", "text": "x", "kind": ["auto"]}], (0, "kind")),
        ([{"id": "1", "text": "x", "kind": "auto"}] * 2, (1, "id")),
    ],
)
def test_a_broken_criterion_is_told_with_the_path_to_it(
    acceptance: object, path: tuple[str | int, ...]
):
    first = normalize_task_observability({"acceptance": acceptance}).malformed[0]
    assert first.path == ("acceptance", *path)
    assert first.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "text", "kind", "x"]), inner, max_size=4)
    ),
)


@settings(deadline=None)
@given(JSON)
def test_no_acceptance_crashes_the_boundary(acceptance: object):
    found = normalize_task_observability({"acceptance": acceptance})
    assert not (found.acceptance and found.free_text)


def test_the_boundary_imports_the_ground_only():
    tree = ast.parse(Path(observability.__file__).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in modules if module and module.startswith("counterfoil")}
    assert ours == {"counterfoil.core.errors"}
