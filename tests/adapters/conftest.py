"""Real repositories for the tests of this room, free of the machine's own git settings."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.adapters.git import GitWorkspace, open_repository
from counterfoil.core.clock import SystemClock


class StillClock:
    """Wall time stands at one second past 1970-01-02; durations are real."""

    def now_us(self) -> int:
        return 86_401_000_000

    def monotonic(self) -> float:
        return SystemClock().monotonic()


class Repo:
    """A repository with one commit on main, and a folder for its worktrees beside it."""

    def __init__(self, root: Path, env: dict[str, str]) -> None:
        self.root = root
        self.env = env
        self.worktrees = root.parent / "worktrees"

    def git(self, *args: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.root, env=self.env, capture_output=True, check=False
        )
        assert done.returncode == 0, (args, done.stderr)
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def write(self, name: str, content: str | bytes, cwd: Path | None = None) -> Path:
        path = (cwd or self.root) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def commit(self, files: dict[str, str | bytes], cwd: Path | None = None) -> str:
        for name, content in files.items():
            self.write(name, content, cwd)
        self.git("add", "-A", cwd=cwd)
        self.git("commit", "-q", "-m", f"change {' '.join(files)}", cwd=cwd)
        return self.git("rev-parse", "HEAD", cwd=cwd)

    def open(self, **options: Any) -> GitWorkspace:
        defaults: dict[str, Any] = {
            "env": self.env,
            "clock": StillClock(),
            "worktree_folder": self.worktrees,
        }
        return open_repository(self.root, **{**defaults, **options})

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def git_env(tmp_path: Path) -> dict[str, str]:
    """An environment in which git knows nobody."""
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }


@pytest.fixture
def make_repo(tmp_path: Path, git_env: dict[str, str]) -> Callable[..., Repo]:
    """Call with the folder's name; ``files`` are those of the first commit."""

    def make(name: str = "repo", files: dict[str, str | bytes] | None = None) -> Repo:
        root = tmp_path / name
        root.mkdir(parents=True)
        repo = Repo(root, git_env)
        repo.git("init", "-q", "-b", "main")
        with (root / ".git" / "config").open("a") as config:
            config.write("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        repo.commit(files or {"a.txt": "one\n", "b.txt": "two\n"})
        return repo

    return make


@pytest.fixture
def repo(make_repo: Callable[..., Repo]) -> Repo:
    return make_repo()
