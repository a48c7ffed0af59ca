"""Runs a plan on a PyPI project's source distribution: lint, modernise, type, test, by commands.

Downloads the archive that ``second-plan/sdist.txt`` pins, puts it under git, runs
``second-plan/plan.jsonl`` on it, and then runs the project's own suite on the run branch.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent / "second-plan"
BIN = Path(sys.executable).parent
MARK = ".counterfoil-second-plan"
IDENTITY = ("-c", "user.name=Second plan", "-c", "user.email=second-plan@example.invalid")
SUITE = ("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")


class PlanFell(Exception):
    """Something that should have gone well did not."""


def main(argv: Sequence[str] | None = None) -> int:
    """Play it in a folder; 0 only if all tasks end well and the suite passes at the end."""
    parser = argparse.ArgumentParser(prog="second_plan.py", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to play; emptied first if it is our own")
    folder: Path = parser.parse_args(argv).folder.resolve()
    try:
        empty(folder)
        print("downloading the source distribution (pinned, hash checked)", flush=True)
        repository = under_git(unpacked(downloaded(folder), folder))
        print(f"its own suite before: {suite(repository, folder)}", flush=True)
        run(repository, folder)
        branch = run_branch(repository)
        checkout = folder / "run-branch"
        git(folder, "clone", "--quiet", "--branch", branch, str(repository), str(checkout))
        print(f"its own suite on {branch}: {suite(checkout, folder)}")
        print(git(repository, "diff", "--shortstat", f"main...{branch}"))
    except PlanFell as error:
        print(f"second plan: {error}", file=sys.stderr)
        return 1
    return 0


def empty(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise PlanFell(f"{folder} holds something else; name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()


def downloaded(folder: Path) -> Path:
    """The archive. Its build backend is one of our own pinned tools, so nothing else is fetched."""
    pip = (sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check")
    only = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes")
    call((*pip, *only, "--dest", str(folder), "-r", str(HERE / "sdist.txt")), folder)
    (archive,) = folder.glob("*.tar.gz")
    return archive


def unpacked(archive: Path, folder: Path) -> Path:
    shutil.unpack_archive(archive, folder)
    return folder / archive.name.removesuffix(".tar.gz")


def under_git(repository: Path) -> Path:
    (repository / ".gitignore").write_text("__pycache__/\n")
    git(repository, "init", "--quiet", "--initial-branch=main")
    git(repository, "add", "--all")
    git(repository, *IDENTITY, "commit", "--quiet", "--message=As it was published")
    return repository


def run(repository: Path, folder: Path) -> None:
    """Run the plan on this terminal; every task must end merged or without a change."""
    counterfoil = str(BIN / "counterfoil")
    argv = (counterfoil, "run", str(HERE / "plan.jsonl"), "--repo", str(repository))
    code = subprocess.run(argv, env=environment(folder), check=False).returncode
    if code != 0:
        raise PlanFell(f"the run ended with exit code {code}")
    (row,) = json.loads(call((counterfoil, "runs", "list", "--json"), folder))["runs"]
    shown = json.loads(call((counterfoil, "runs", "show", row["id"], "--json"), folder))
    ended = {task["task_id"]: task["status"] for task in shown["tasks"]}
    planned = [json.loads(line) for line in (HERE / "plan.jsonl").read_text().splitlines()]
    for task_id in (task["id"] for task in planned if "id" in task):
        expected = "no_change" if task_id == "test" else "merged"
        if ended.get(task_id) != expected:
            raise PlanFell(f"task {task_id} ended {ended.get(task_id)}, not {expected}")


def run_branch(repository: Path) -> str:
    names = git(repository, "for-each-ref", "--format=%(refname:short)", "refs/heads/counterfoil/")
    if len(names.split()) != 1:
        raise PlanFell(f"expected one run branch, found: {names or 'none'}")
    return names


def suite(checkout: Path, folder: Path) -> str:
    """The last line of the project's own test suite. Raises ``PlanFell`` when it fails."""
    return call(SUITE, folder, cwd=checkout).strip().splitlines()[-1]


def git(folder: Path, *arguments: str) -> str:
    return call(("git", *arguments), folder, cwd=folder).strip()


def call(argv: Sequence[str], folder: Path, *, cwd: Path | None = None) -> str:
    """The output of a command that must succeed. Raises ``PlanFell`` with the end of its words."""
    done = subprocess.run(
        argv, cwd=cwd, env=environment(folder), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-800:]
        raise PlanFell(f"{' '.join(argv)} ended with {done.returncode}: {said}")
    return done.stdout


def environment(folder: Path) -> Mapping[str, str]:
    return {
        **os.environ,
        "COUNTERFOIL_HOME": str(folder / "state"),
        "PATH": str(BIN) + os.pathsep + os.environ.get("PATH", os.defpath),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


if __name__ == "__main__":
    sys.exit(main())
