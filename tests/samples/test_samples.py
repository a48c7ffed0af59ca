"""The packaged sample: what unpack leaves, and that its plan can do what the demo claims."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from counterfoil.core.errors import ValueRefused
from counterfoil.samples import PLAN, git, unpack

MERGED = ("parse", "units", "intervals", "windows", "report", "stats")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("sample") / "tidepool")


@pytest.fixture
def checkout(sample: Path, tmp_path: Path) -> Path:
    """A clone in which the tasks do their work at once."""
    git(tmp_path, "clone", "--quiet", str(sample), "checkout")
    folder = tmp_path / "checkout"
    rewrite = folder / "fixes" / "rewrite.py"
    rewrite.write_text(rewrite.read_text().replace("WORK_SECONDS = 0.5", "WORK_SECONDS = 0"))
    git(folder, "-c", "user.name=T", "-c", "user.email=t@e.invalid", "commit", "-qam", "at once")
    return folder


def tasks(folder: Path) -> dict[str, dict[str, list[str]]]:
    lines = [json.loads(line) for line in (folder / PLAN).read_text().splitlines()]
    return {line["id"]: line for line in lines if "id" in line}


def run(folder: Path, argv: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )


def gate_argv(task: dict[str, list[str]]) -> list[str]:
    (gate,) = task["gates"]
    assert isinstance(gate, dict)
    return list(gate["run"])


def test_unpack_makes_a_repository_with_one_commit_and_a_clean_tree(sample: Path) -> None:
    assert git(sample, "rev-list", "--count", "HEAD") == "1"
    assert git(sample, "status", "--porcelain") == ""
    assert git(sample, "branch", "--show-current") == "main"


def test_unpack_leaves_a_folder_with_something_in_it_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ValueRefused):
        unpack(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_unpack_ignores_the_identity_and_hooks_of_whoever_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "commit.gpgsign")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    folder = unpack(tmp_path / "tidepool")
    assert (folder / ".git" / "HEAD").exists()


def test_a_dirty_sample_has_every_kind_of_work_in_progress(tmp_path: Path) -> None:
    folder = unpack(tmp_path / "tidepool", dirty=True)
    status = git(folder, "status", "--porcelain").splitlines()
    assert sorted(line.strip() for line in status) == [
        "?? scratch.txt",
        "A  ideas.md",
        "M tidepool/units.py",
        "MM README.md",
    ]


def test_at_first_every_module_fails_its_own_gate(checkout: Path) -> None:
    for task_id in MERGED:
        assert run(checkout, gate_argv(tasks(checkout)[task_id])).returncode != 0, task_id


def test_the_plan_mends_the_suite_in_the_order_of_its_dependencies(checkout: Path) -> None:
    plan = tasks(checkout)
    gate_output = checkout.parent / "gate-output.txt"
    done: set[str] = set()
    for task_id in MERGED:
        task = plan[task_id]
        assert done >= set(task.get("depends_on", []))
        assert run(checkout, task["run"]).returncode == 0
        gated = run(checkout, gate_argv(task))
        if task_id == "stats":
            assert gated.returncode != 0
            gate_output.write_text(gated.stderr)
            run(checkout, task["run"], COUNTERFOIL_GATE_OUTPUT=str(gate_output))
            gated = run(checkout, gate_argv(task))
        assert gated.returncode == 0, gated.stderr
        done.add(task_id)
    suite = run(checkout, ["python3", "-m", "unittest"])
    assert suite.returncode == 0, suite.stderr
    assert "Ran 0 tests" not in suite.stderr


def test_each_task_changes_only_the_files_that_it_claims(checkout: Path) -> None:
    for task in tasks(checkout).values():
        run(checkout, task["run"])
        git(checkout, "add", "--all")
        changed = git(checkout, "diff", "--cached", "--name-only").split()
        assert changed == task["files"]
        git(checkout, "reset", "--quiet", "--hard")


def test_the_notice_fails_the_same_way_at_every_try(checkout: Path) -> None:
    task = tasks(checkout)["notice"]
    seen = []
    for _ in range(2):
        assert run(checkout, task["run"]).returncode == 0
        gated = run(checkout, gate_argv(task))
        seen.append((gated.returncode, gated.stderr))
    assert seen[0] == seen[1]
    assert seen[0][0] != 0
