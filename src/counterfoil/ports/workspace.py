"""The repository that a plan works on: worktrees, harvests, merges without a checkout."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class HeadState:
    """Where the developer's checkout stands. ``branch`` is None when HEAD is detached."""

    sha: str
    branch: str | None
    dirty: bool


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed path; counts are None for binary files. Undecodable bytes are surrogates."""

    path: str
    insertions: int | None
    deletions: int | None


@dataclass(frozen=True, slots=True)
class Harvest:
    """All work of an attempt as one delta from its base, pinned under a ref.

    ``commit`` carries ``tree`` and descends from ``base``; ``empty`` means that the tree is
    the base's tree. ``head`` is where the worktree's HEAD stood; ``notes`` tell what was
    mended or odd (a stale lock removed, HEAD moved, …).
    """

    base: str
    head: str
    commit: str
    tree: str
    empty: bool
    files: tuple[FileChange, ...]
    notes: tuple[str, ...] = ()

    @property
    def insertions(self) -> int:
        return sum(change.insertions or 0 for change in self.files)

    @property
    def deletions(self) -> int:
        return sum(change.deletions or 0 for change in self.files)


@dataclass(frozen=True, slots=True)
class Merged:
    """A merge made without a checkout."""

    commit: str
    tree: str


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """The paths that both sides changed."""

    paths: tuple[str, ...]


class Workspace(Protocol):
    """One repository. Every method blocks; callers run it in a worker thread.

    Raises ``GitFailed`` (argv, exit code, the end of stderr) and ``RepositoryRefused``.
    """

    root: Path

    def head(self) -> HeadState:
        """Raises ``RepositoryRefused`` for a bare or an unborn repository."""
        ...

    def fingerprint(self) -> dict[str, str]:
        """The developer's checkout as {what: hash}: HEAD, index, each dirty or new file."""
        ...

    def resolve(self, ref: str) -> str | None:
        """The full SHA of a ref or revision, or None."""
        ...

    def tree_of(self, commit: str) -> str: ...

    def add_worktree(self, path: Path, commit: str) -> None:
        """A detached worktree at exactly this commit; undoes its own half when it fails."""
        ...

    def remove_worktree(self, path: Path) -> None:
        """Remove a worktree of ours. The caller has pinned its work before."""
        ...

    def harvest(self, path: Path, base: str, ref: str, message: str) -> Harvest:
        """Everything committed, uncommitted and untracked since base, pinned under ``ref``.

        Does not touch the worktree's files or index; no process may be alive in it.
        """
        ...

    def settle(self, path: Path, commit: str) -> None:
        """Put a worktree of ours onto a commit; ignored files stay. Its work is pinned before."""
        ...

    def merge(self, ours: str, theirs: str, message: str) -> Merged | MergeConflict:
        """Merge two commits into a new commit object; no checkout, no ref."""
        ...

    def move_ref(self, ref: str, new: str, old: str | None) -> bool:
        """Compare-and-swap; ``old`` None: the ref must not exist. False: it was elsewhere."""
        ...

    def child_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """``base`` without git's own variables, and with what keeps git from asking."""
        ...

    def checked_out_at(self, ref: str) -> Path | None:
        """The worktree in which a branch is checked out, if any."""
        ...

    def patch(self, base: str, commit: str) -> bytes: ...

    def land(self, branch: str, commit: str, message: str) -> str:
        """Merge a commit into a branch, wherever it is checked out; returns the new SHA.

        Raises ``RefMoved`` or ``RepositoryRefused`` when local changes or a conflict stand in
        the way; nothing is changed then.
        """
        ...

    def worktrees(self) -> Sequence[Path]: ...
