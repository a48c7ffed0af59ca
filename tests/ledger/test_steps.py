"""Durable steps: recorded once, retried after a failure, exact at every size."""

import itertools
from typing import Any

import pytest

from counterfoil.ledger import runs, steps
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.steps import StepEnd
from counterfoil.ledger.values import Scope

SMALL, LARGE = {"a": 1}, "x" * 20_000
SIZES = {"small": SMALL, "large": LARGE}


def end(bench: Any, value: Any, error: str = "", key: str = "s") -> StepEnd:
    prepared = bench.ledger.prepare(value)
    stored = bench.ledger.keep_exact(prepared)
    return StepEnd(key, "step", prepared, bench.clock.now_us(), overflow=stored, error_code=error)


def record(bench: Any, driver: Any, what: StepEnd, *, known: bool = False) -> Any:
    return bench.submit(lambda unit: steps.record(unit, bench.scope, driver, what, known=known))


def get(bench: Any, driver: Any, key: str = "s") -> Any:
    return bench.read(lambda connection: steps.get(connection, bench.scope, driver.run_id, key))


def value_of(bench: Any, row: Any) -> str:
    return row.result_json or bench.blobs.get(row.result_sha256).decode()


@pytest.mark.parametrize("size", SIZES)
def test_a_result_is_kept_exactly_at_every_size(bench: Any, size: str) -> None:
    driver = bench.running()
    what = end(bench, SIZES[size])
    step_id = record(bench, driver, what)
    row = get(bench, driver)
    assert (row.id, row.status, row.error_code) == (step_id, ExecutionStatus.SUCCEEDED, "")
    assert (row.result_json is None) == (size == "large") == (row.result_artifact_id is not None)
    assert value_of(bench, row) == what.result.inline or what.result.overflow.decode()
    assert (row.result_size, row.result_sha256) == (what.result.size, what.result.sha256)
    assert bench.faults() == []


@pytest.mark.parametrize(("before", "after"), [*itertools.product(SIZES, SIZES)])
def test_a_failed_step_that_succeeds_later_answers_with_the_later_result(
    bench: Any, before: str, after: str
) -> None:
    driver = bench.running()
    record(bench, driver, end(bench, {"failed": SIZES[before]}, "ValueError"))
    failed = get(bench, driver)
    assert (failed.status, failed.error_code) == ("failed", "ValueError")
    bench.clock.advance(1)
    what = end(bench, {"worked": SIZES[after]})
    record(bench, driver, what, known=True)
    row = get(bench, driver)
    assert (row.id, row.status, row.error_code) == (failed.id, "succeeded", "")
    assert (row.result_json is None) == (after == "large") == (row.result_artifact_id is not None)
    assert '"worked"' in value_of(bench, row)
    assert row.started_at == failed.started_at
    assert row.ended_at == bench.clock.now_us()
    assert bench.faults() == []


def test_a_failed_step_may_fail_again_and_each_time_is_told(bench: Any) -> None:
    driver = bench.running()
    record(bench, driver, end(bench, 1, "ValueError"))
    record(bench, driver, end(bench, 2, "KeyError"), known=True)
    assert get(bench, driver).error_code == "KeyError"
    kinds = [entry.kind for entry in bench.entries(driver.run_id)]
    assert kinds.count("step.recorded") == 2
    assert bench.faults() == []


def test_a_step_that_succeeded_cannot_be_recorded_again(bench: Any) -> None:
    driver = bench.running()
    record(bench, driver, end(bench, 1))
    assert record(bench, driver, end(bench, 2)).code == "CONFLICT"
    assert record(bench, driver, end(bench, 2), known=True).code == "ILLEGAL_MOVE"
    assert get(bench, driver).result_json == "1"
    assert bench.faults() == []


@pytest.mark.parametrize("size", SIZES)
def test_a_late_driver_hears_of_its_fence_and_not_of_the_other_drivers_row(
    bench: Any, size: str
) -> None:
    late = bench.running()
    present = bench.do(
        lambda unit: runs.take(
            unit, bench.scope, runs.get(unit.connection, bench.scope, late.run_id), "hd_2"
        )
    )
    record(bench, present, end(bench, 1))
    for key in ("s", "t"):
        assert record(bench, late, end(bench, SIZES[size], key=key)).code == "STALE_FENCE"
    assert get(bench, present).result_json == "1"
    assert get(bench, present, "t") is None
    assert bench.faults() == []


def test_steps_belong_to_their_scope(bench: Any) -> None:
    driver = bench.running()
    record(bench, driver, end(bench, 1))
    other = Scope("other")
    assert bench.read(lambda connection: steps.of_run(connection, other, driver.run_id)) == []
    assert bench.refused(
        lambda unit: steps.record(unit, other, driver, end(bench, 1), known=False)
    ) == ("NOT_FOUND")


def test_the_message_of_a_step_is_redacted(bench: Any) -> None:
    bench.redactor.register("hunter2-hunter2")
    driver = bench.running()
    what = StepEnd(
        "s",
        "step",
        bench.ledger.prepare(None),
        0,
        error_code="E",
        error_message="hunter2-hunter2 \ud800",
    )
    record(bench, driver, what)
    assert get(bench, driver).error_message == "[REDACTED:secret] \\ud800"
