"""The second example: its plan reads, its archive is pinned, and it spares what is not its own."""

import subprocess
import sys
from pathlib import Path

from counterfoil.plans.parser import parse_plan

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = EXAMPLES / "second-plan"


def test_its_plan_reads_and_its_gate_is_the_suite_of_the_project() -> None:
    plan = parse_plan((FOLDER / "plan.jsonl").read_bytes(), name="plan.jsonl")
    assert len(plan.tasks) == 6
    assert {task.gates[0].name for task in plan.tasks} == {"suite"}


def test_the_tasks_that_run_side_by_side_claim_different_files() -> None:
    plan = parse_plan((FOLDER / "plan.jsonl").read_bytes(), name="plan.jsonl")
    text, data = plan.task("modernise-text"), plan.task("modernise-data")
    assert text.files
    assert not set(text.files) & set(data.files)


def test_its_archive_is_pinned_by_hash() -> None:
    (line,) = (FOLDER / "sdist.txt").read_text().splitlines()
    assert "==" in line
    assert "--hash=sha256:" in line


def test_a_folder_that_is_not_its_own_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "second_plan.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "holds something else" in done.stderr
    assert (tmp_path / "mine.txt").exists()
