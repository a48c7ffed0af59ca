"""Gate results: a tree is judged once by a gate in an environment."""

import json
from typing import Any

import pytest

from counterfoil.ledger import gates, runs
from counterfoil.ledger.gates import Judged
from counterfoil.ledger.states import FailClass


def judged(**changed: Any) -> Judged:
    given = {
        "tree": "t" * 40,
        "gate": "tests",
        "environment": "e",
        "command": ("pytest", "-q"),
        "cwd": ".",
        "exit_code": 0,
        "duration_ms": 5,
        **changed,
    }
    return Judged(**given)


def record(bench: Any, driver: Any, attempt: Any, what: Judged, **more: Any) -> Any:
    return bench.submit(lambda unit: gates.record(unit, bench.scope, driver, attempt, what, **more))


def passed(bench: Any, driver: Any, **changed: Any) -> Any:
    what = judged(**changed)
    return bench.read(
        lambda connection: gates.passed(
            connection, bench.scope, driver.run_id, what.tree, what.gate, what.environment
        )
    )


def test_a_pass_answers_for_its_tree_gate_and_environment_only(bench: Any) -> None:
    driver = bench.running()
    attempt = bench.attempt(driver)
    row = record(bench, driver, attempt, judged())
    assert passed(bench, driver).id == row.id
    assert passed(bench, driver) == row
    for other in ({"tree": "u"}, {"gate": "lint"}, {"environment": "f"}):
        assert passed(bench, driver, **other) is None
    entry = bench.entries(driver.run_id)[-1]
    assert (entry.kind, json.loads(entry.payload)["command"]) == ("gate0.pass", ["pytest", "-q"])
    assert bench.faults() == []


@pytest.mark.parametrize("fail_class", FailClass)
def test_a_failure_tells_how_and_never_passes_for_a_pass(bench: Any, fail_class: FailClass) -> None:
    driver = bench.running()
    attempt = bench.attempt(driver)
    what = judged(exit_code=1, fail_class=fail_class, message="1 failed", fingerprint="f")
    row = record(bench, driver, attempt, what, output_artifact_id="art_1")
    assert (row.result, row.fail_class, row.output_artifact_id) == ("fail", fail_class, "art_1")
    assert passed(bench, driver) is None
    entry = bench.entries(driver.run_id)[-1]
    payload = json.loads(entry.payload)
    assert (entry.kind, payload["failClass"], payload["exitCode"]) == (
        "gate0.fail",
        fail_class,
        1,
    )
    assert (payload["message"], payload["artifact"]) == ("1 failed", "art_1")
    assert bench.faults() == []


def test_a_reused_pass_is_told_and_adds_no_row(bench: Any) -> None:
    driver = bench.running()
    attempt = bench.attempt(driver)
    record(bench, driver, attempt, judged())
    record(bench, driver, attempt, judged(reused=True))
    rows = bench.read(lambda connection: gates.of_run(connection, bench.scope, driver.run_id))
    assert len(rows) == 1
    assert json.loads(bench.entries(driver.run_id)[-1].payload)["reused"] is True
    assert bench.faults() == []


def test_secrets_of_a_command_are_recorded_nowhere(bench: Any) -> None:
    bench.redactor.register("hunter2-hunter2")
    driver = bench.running()
    attempt = bench.attempt(driver)
    row = record(bench, driver, attempt, judged(command=("curl", "hunter2-hunter2")))
    assert json.loads(row.command) == ["curl", "[REDACTED:secret]"]
    assert "hunter2" not in bench.entries(driver.run_id)[-1].payload


def test_a_stale_driver_records_no_gate(bench: Any) -> None:
    late = bench.running()
    attempt = bench.attempt(late)
    bench.do(
        lambda unit: runs.take(
            unit, bench.scope, runs.get(unit.connection, bench.scope, late.run_id), "hd_2"
        )
    )
    assert record(bench, late, attempt, judged()).code == "STALE_FENCE"
    assert passed(bench, late) is None
