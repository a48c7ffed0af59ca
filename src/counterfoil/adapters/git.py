"""The repository that a plan works on, by the git program on PATH."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from counterfoil.adapters import git_fingerprint, git_harvest, git_merge, git_settle, git_worktrees
from counterfoil.adapters.git_command import child_environment
from counterfoil.adapters.git_repository import Repository, find_repository
from counterfoil.core.clock import Clock, SystemClock
from counterfoil.core.errors import GitFailed, RepositoryRefused
from counterfoil.ports.workspace import Harvest, HeadState, MergeConflict, Merged

DEFAULT_TIMEOUT_SECONDS = 600.0


def open_repository(
    path: Path,
    *,
    clock: Clock | None = None,
    lock_folder: Path | None = None,
    worktree_folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> "GitWorkspace":
    """The repository around a path.

    ``worktree_folder`` is ours: only below it are worktrees removed. ``lock_folder`` is where
    the lock file goes, by default the repository's git folder. ``timeout_seconds`` bounds each
    git command. Raises ``RepositoryRefused``: no repository, bare, unborn, git missing or too
    old.
    """
    environment = os.environ if env is None else env
    repository = find_repository(path, environment, clock or SystemClock(), timeout_seconds)
    return GitWorkspace(repository, lock_folder=lock_folder, worktree_folder=worktree_folder)


class GitWorkspace:
    """Implements ``ports.workspace.Workspace``; safe to use from several threads."""

    def __init__(
        self,
        repository: Repository,
        *,
        lock_folder: Path | None = None,
        worktree_folder: Path | None = None,
    ) -> None:
        self.root = repository.root
        self._repository = repository
        self._lock = git_worktrees.RepositoryLock(repository, lock_folder)
        self._worktree_folder = worktree_folder

    def child_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment for agents and gates that work in this repository's worktrees."""
        return child_environment(base, self._repository.identity)

    def head(self) -> HeadState:
        """Where the checkout stands; new files that are not ignored count as dirty."""
        answer = self._repository.git.run(
            "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal"
        )
        headers = [entry for entry in answer.fields if entry.startswith("# ")]
        said = dict(entry[2:].split(" ", 1) for entry in headers)
        sha = said["branch.oid"]
        if sha == "(initial)":
            raise RepositoryRefused(
                f"The branch that is checked out in {self.root} has no commit yet.",
                hint="Commit something first, or switch to another branch.",
            )
        branch = None if said["branch.head"] == "(detached)" else said["branch.head"]
        return HeadState(sha, branch, dirty=len(answer.fields) > len(headers))

    def fingerprint(self) -> dict[str, str]:
        return git_fingerprint.fingerprint(self._repository)

    def resolve(self, ref: str) -> str | None:
        return self._repository.sha(ref)

    def tree_of(self, commit: str) -> str:
        answer = self._repository.git.run(
            "rev-parse", "--verify", "--quiet", "--end-of-options", commit + "^{tree}", accepts=()
        )
        if answer.code != 0:
            raise GitFailed(f"There is no commit {commit!r} in {self.root}.")
        return answer.line

    def add_worktree(self, path: Path, commit: str) -> None:
        git_worktrees.add_worktree(self._repository, self._lock, path, commit)

    def remove_worktree(self, path: Path) -> None:
        git_worktrees.remove_worktree(self._repository, self._lock, path, self._worktree_folder)

    def harvest(self, path: Path, base: str, ref: str, message: str) -> Harvest:
        return git_harvest.harvest(self._repository, path, base, ref, message)

    def settle(self, path: Path, commit: str) -> None:
        git_settle.settle(self._repository, path, commit, self._worktree_folder)

    def merge(self, ours: str, theirs: str, message: str) -> Merged | MergeConflict:
        return git_merge.merge(self._repository, ours, theirs, message)

    def move_ref(self, ref: str, new: str, old: str | None) -> bool:
        return git_merge.move_ref(self._repository, ref, new, old)

    def checked_out_at(self, ref: str) -> Path | None:
        with self._lock.held():  # git cannot list a worktree that another process is making
            return git_merge.checked_out_at(self._repository, ref)

    def patch(self, base: str, commit: str) -> bytes:
        return git_merge.patch(self._repository, base, commit)

    def land(self, branch: str, commit: str, message: str) -> str:
        with self._lock.held():
            return git_merge.land(self._repository, branch, commit, message)

    def worktrees(self) -> Sequence[Path]:
        with self._lock.held():
            return [path for path, _ in git_worktrees.list_worktrees(self._repository)]
