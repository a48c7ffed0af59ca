"""The sample project that the demo repairs: data, and what makes a git repository of it."""

import os
import shutil
import subprocess
from pathlib import Path

from counterfoil.core.errors import GitFailed, ValueRefused

PLAN = "demo.jsonl"
_TIDEPOOL = Path(__file__).parent / "tidepool"
_IDENTITY = ("-c", "user.name=Tidepool", "-c", "user.email=tidepool@example.invalid")


def unpack(folder: Path, *, dirty: bool = False) -> Path:
    """Write the sample into a new or empty folder as a git repository with one commit.

    ``dirty`` leaves the checkout as a developer at work would: a changed tracked file, one
    staged and changed again, a staged new one, and an untracked one. Returns the folder.
    Raises ``ValueRefused`` when something is there already, ``GitFailed`` when git refuses.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueRefused(
            f"The sample cannot be written to {folder}: something is there already.",
            hint="Name a folder that does not exist yet.",
        )
    shutil.copytree(
        _TIDEPOOL,
        folder,
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder / "gitignore").rename(folder / ".gitignore")
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, *_IDENTITY, "commit", "--quiet", "--message=A library whose tests fail")
    if dirty:
        _work_in_progress(folder)
    return folder


def _work_in_progress(folder: Path) -> None:
    """The plan also edits units.py: what is written here must survive that untouched."""
    readme, units = folder / "README.md", folder / "tidepool" / "units.py"
    readme.write_text(readme.read_text() + "\nIdea: sunrise times.\n")
    git(folder, "add", "README.md")
    readme.write_text(readme.read_text() + "Idea: wind.\n")
    units.write_text(units.read_text() + "\nFATHOM = 1.8288\n")
    (folder / "ideas.md").write_text("staged, not committed\n")
    git(folder, "add", "ideas.md")
    (folder / "scratch.txt").write_text("never added\n")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, deaf to the user's own settings; returns its output.

    Raises ``GitFailed``.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise GitFailed(f"git {arguments[0]} failed in {folder}: {done.stderr.strip()}")
    return done.stdout.strip()
