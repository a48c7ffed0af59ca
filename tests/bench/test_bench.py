"""The benchmarks say what they must, on tiny sizes; nothing here asserts a time."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.figures import Figure, Findings, MeasurementFailed, Sizes, interleave, ratio
from bench.limits import BY_KEY, LIMITS, missed, unmeasured
from bench.plan import PlanSizes, per_task
from bench.runner import RunnerSizes
from bench.start import StartSizes
from bench.steps import StepSizes
from bench.worker import Worker

from bench import __main__ as command
from bench import plan, report, runner, start, steps

TARGETS = {
    "steps.sync_over_floor": (1.6, True),
    "steps.async_over_floor": (2.0, True),
    "steps.dbos_over_sync": (2.5, False),
    "steps.dbos_wal_over_wide": (6.0, False),
    "plan.no_op_last_over_first": (1.3, True),
    "plan.change_last_over_first": (1.3, True),
    "start.help": (300.0, True),
}
"""What the project promises: bound, and whether it is a greatest or a least value."""


def figure(key: str, value: float) -> Figure:
    return Figure(key, value, "x", "what it is")


def keys(found: Findings) -> set[str]:
    assert all(figure.value > 0 for figure in found.figures)
    return {figure.key for figure in found.figures}


# The table of limits


def test_the_table_of_limits_is_complete() -> None:
    assert {limit.key: (limit.bound, limit.at_most) for limit in LIMITS} == TARGETS
    assert len(BY_KEY) == len(LIMITS)


def test_a_bound_that_is_reached_is_kept_and_one_that_is_passed_is_named() -> None:
    assert missed([figure("steps.sync_over_floor", 1.6), figure("steps.dbos_over_sync", 2.5)]) == []
    assert missed([figure("steps.sync_over_floor", 1.61), figure("steps.dbos_over_sync", 2.4)]) == [
        "steps.sync_over_floor is 1.61 x, and must be <= 1.6",
        "steps.dbos_over_sync is 2.40 x, and must be >= 2.5",
    ]
    assert missed([figure("steps.sync", 99.0)]) == []


def test_limits_without_a_figure_are_known() -> None:
    assert unmeasured([figure(key, 1.0) for key in TARGETS if key != "start.help"]) == [
        "start.help"
    ]


# Rounds


def test_every_contender_has_its_turn_in_every_round() -> None:
    order: list[str] = []

    def takes(name: str) -> Callable[[], float]:
        return lambda: order.append(name) or float(len(order))  # type: ignore[func-returns-value]

    series = interleave({name: takes(name) for name in "abc"}, 20)
    rounds = ["".join(order[at : at + 3]) for at in range(0, 60, 3)]
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) > 3
    assert {name: len(taken) for name, taken in series.items()} == {"a": 20, "b": 20, "c": 20}


def test_a_ratio_compares_what_was_taken_in_the_same_round() -> None:
    assert ratio({"a": [2.0, 40.0, 6.0], "b": [1.0, 20.0, 2.0]}, "a", "b") == 2.0


def test_one_stall_does_not_decide_what_a_task_costs() -> None:
    ended = [float(number) for number in range(50)]
    stalled = [at + (1000 if at > 25 else 0) for at in ended]
    assert per_task(ended) == per_task(stalled) == 1.0


# Measurements


@pytest.mark.slow
def test_steps_are_measured_beside_their_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.importlib.util, "find_spec", lambda _name: None)
    found = steps.measure(tmp_path, StepSizes(2, 4, 1, 2, width=3))
    assert keys(found) >= {
        "steps.floor",
        "steps.sync_over_floor",
        "steps.async_over_floor",
        "steps.wide",
        "steps.wide_in_one",
        "steps.wide_over_floor",
        "steps.statements",
    }
    assert found.skipped == (steps.NO_PEER,)


@pytest.mark.slow
def test_a_peer_that_is_installed_is_measured(tmp_path: Path) -> None:
    pytest.importorskip("dbos", reason="the extra bench is not installed")
    found = steps.measure(tmp_path, StepSizes(1, 3, 1, 2, width=3))
    assert {"steps.dbos_over_sync", "steps.dbos_wal_over_wide"} <= keys(found)
    assert found.skipped == ()


def test_a_worker_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(MeasurementFailed, match="KeyError: 'nobody'"):
        Worker("nobody", tmp_path / "nobody")


@pytest.mark.slow
def test_attempts_and_plans_are_measured(tmp_path: Path) -> None:
    found = runner.measure(tmp_path / "runner", RunnerSizes(1, 2))
    assert keys(found) == {
        "runner.attempt",
        "runner.bare",
        "runner.own",
        "runner.attempt_over_bare",
    }
    found = plan.measure(tmp_path / "plan", PlanSizes(4, 2))
    assert {"plan.no_op_last_over_first", "plan.change_last_over_first"} <= keys(found)


@pytest.mark.slow
def test_a_start_is_measured_with_and_without_compiled_code(tmp_path: Path) -> None:
    found = start.measure(tmp_path, StartSizes(1))
    assert keys(found) == {"start.help", "start.help_uncompiled", "start.python"}


# The command


def measuring(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = Findings((figure("start.help", value),), skipped=("a peer is missing",))
    table = {"start": (lambda _folder, _sizes: findings, Sizes(None, None))}
    monkeypatch.setattr(command, "MEASUREMENTS", table)


def test_check_fails_and_names_what_was_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measuring(301.0, monkeypatch)
    folder = ["--folder", str(tmp_path)]
    assert command.main(folder) == 0
    assert command.main([*folder, "--check"]) == 1
    said = capsys.readouterr().out
    assert "missed: start.help is 301.00 x, and must be <= 300" in said
    assert "skipped: a peer is missing" in said
    assert "not checked: steps.sync_over_floor" in said


def test_a_measurement_that_fails_is_told_and_the_others_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_folder: Path, _sizes: None) -> Findings:
        raise MeasurementFailed("the plan ended paused")

    measuring(12.0, monkeypatch)
    table = {"plan": (fail, Sizes(None, None)), **command.MEASUREMENTS}
    monkeypatch.setattr(command, "MEASUREMENTS", table)
    assert command.main(["--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "failed: plan: the plan ended paused" in said
    assert "start.help" in said


def test_figures_are_written_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring(12.0, monkeypatch)
    written = tmp_path / "figures.json"
    folder = ["--folder", str(tmp_path)]
    assert command.main([*folder, "--check", "start"]) == 0
    assert list(tmp_path.iterdir()) == []
    assert command.main([*folder, "--write", str(written)]) == 0
    document = json.loads(written.read_text())
    assert document["figures"] == {"start.help": 12.0}
    assert document["skipped"] == ["a peer is missing"]


def test_the_report_tells_the_limit_of_a_figure() -> None:
    lines = report.table({"start": Findings((figure("start.help", 1.0),))}).splitlines()
    assert lines == ["start.help  1.00  x  <= 300 kept  what it is"]
