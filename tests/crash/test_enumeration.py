"""The runner is killed at every durable write and boundary of a two-task plan, and recovered."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("enumerate_points.py")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("crash"))],
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def row(report: str, kind: str, name: str) -> str:
    found = re.search(rf"^{kind} +{name} .*$", report, re.MULTILINE)
    assert found, f"{kind} {name} is not in the report"
    return found[0]


@pytest.mark.slow
def test_every_point_keeps_every_promise(report: str) -> None:
    points, kept = re.findall(r"(\d+) points, (\d+) kept every promise", report)[0]
    assert points == kept
    assert int(points) > 60
    assert "point not reached" not in report


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["leased", "started", "exited", "harvested", "gated", "intent", "ref_moved"]
)
def test_both_tasks_are_struck_at_each_boundary(report: str, name: str) -> None:
    assert " 2 points:" in row(report, "boundary", name)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_every_durable_write_is_struck_from_both_sides(report: str, when: str) -> None:
    assert int(re.findall(r"(\d+) points", row(report, "commit", when))[0]) > 15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["after_lock", "before_spawn", "after_spawn", "before_record"])
def test_a_living_attempt_is_adopted_and_not_given_out_again(report: str, name: str) -> None:
    assert "2 × completed, 2 attempts" in row(report, "runner", name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["before_lock", "after_lock", "before_spawn", "after_spawn", "before_record"]
)
def test_an_attempt_whose_keeper_died_is_given_out_again(report: str, name: str) -> None:
    assert "completed, 3 attempts" in row(report, "keeper", name)


@pytest.mark.slow
def test_an_attempt_whose_keeper_died_after_its_record_is_not_given_out_again(report: str) -> None:
    assert "completed, 2 attempts" in row(report, "keeper", "after_record")
