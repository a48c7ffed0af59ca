"""A small git repository for plans to run on, and one attempt's git work done bare."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from counterfoil.adapters.git_repository import DURABLE

FILES = 40
SETTINGS = [flag for setting in (*DURABLE, "gc.auto=0") for flag in ("-c", setting)]
IDENTITY = ("-c", "user.name=Bench", "-c", "user.email=bench@example.invalid")


def make_repository(folder: Path) -> Path:
    """A repository with one commit of small files in a few folders."""
    folder.mkdir(parents=True)
    for number in range(FILES):
        path = folder / file_of(number)
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"LINES = {number}\n" * 30)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, *IDENTITY, "commit", "--quiet", "--message=start")
    return folder


def file_of(number: int) -> str:
    """The file that a task rewrites: the repository stays as large as it was."""
    return f"part{number % 4}/module{number % FILES}.py"


def rewriting(number: int) -> tuple[str, ...]:
    """A command that rewrites the file of a task, differently in every task."""
    return ("sh", "-c", f"echo 'LINES = {number}' > {file_of(number)}")


def git(folder: Path, *arguments: str) -> str:
    """Run git as the runner does: synced, deaf to the user's settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *SETTINGS, *arguments], cwd=folder, env=env, check=True, capture_output=True
    )
    return done.stdout.decode().strip()


@dataclass(slots=True)
class BareAttempts:
    """The git work of attempts that each rewrite one file, and nothing around it."""

    repository: Path
    worktrees: Path
    branch: str = "refs/heads/bare"
    done: int = 0

    def attempt(self) -> None:
        """Worktree, one process, harvest, merge, ref, and the worktree away again."""
        number, self.done = self.done, self.done + 1
        worktree = self.worktrees / f"task{number}"
        old = git(self.repository, "rev-parse", self.branch if number else "HEAD")
        git(self.repository, "worktree", "add", "--quiet", "--detach", str(worktree), old)
        subprocess.run(rewriting(number), cwd=worktree, check=True)
        git(worktree, "add", "-A")
        tree = git(worktree, "write-tree")
        made = git(worktree, *IDENTITY, "commit-tree", tree, "-p", old, "-m", "work")
        merged = git(self.repository, "merge-tree", "--write-tree", old, made)
        parents = ("-p", old, "-p", made)
        new = git(self.repository, *IDENTITY, "commit-tree", merged, *parents, "-m", "merge")
        expected = old if number else "0" * len(new)
        git(self.repository, "update-ref", self.branch, new, expected)
        git(self.repository, "worktree", "remove", "--force", str(worktree))
