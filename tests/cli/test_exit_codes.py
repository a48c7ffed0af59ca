"""The table of exit codes is complete and says what happens."""

import inspect

import pytest

from counterfoil.cli import exit_codes
from counterfoil.cli.exit_codes import Exit
from counterfoil.core import errors
from counterfoil.core.errors import CounterfoilError, IntegrityFault, NotFound
from counterfoil.ledger.states import ExecutionStatus

TREE = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, CounterfoilError)
]


def test_every_error_code_of_the_tree_has_an_exit_code() -> None:
    assert {kind.code for kind in TREE} == set(exit_codes.BY_ERROR)


def test_every_exit_code_has_a_meaning() -> None:
    assert set(exit_codes.MEANINGS) == set(Exit)


def test_every_status_of_a_run_ends_the_process_with_a_code() -> None:
    assert set(exit_codes.BY_STATUS) == set(ExecutionStatus)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.PlanInvalid("x"), 2),
        (NotFound("x"), 4),
        (errors.GitFailed("x"), 5),
        (IntegrityFault("x"), 6),
        (CounterfoilError("x"), 70),
    ],
)
def test_an_error_ends_with_the_code_of_its_kind(error: CounterfoilError, code: int) -> None:
    assert exit_codes.of_error(error) == code


def test_ctrl_c_counts_only_where_it_paused_the_run() -> None:
    assert exit_codes.of_run(ExecutionStatus.PAUSED, interrupted=True) is Exit.INTERRUPTED
    assert exit_codes.of_run(ExecutionStatus.PAUSED) is Exit.PAUSED
    assert exit_codes.of_run(ExecutionStatus.SUCCEEDED, interrupted=True) is Exit.OK
    assert exit_codes.of_run(ExecutionStatus.FAILED, interrupted=True) is Exit.FOUND
    assert exit_codes.of_run(ExecutionStatus.RUNNING) is Exit.LEFT
