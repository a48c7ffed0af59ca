"""Puts a worktree of ours onto a commit for its next attempt; what is ignored stays."""

import shutil
from pathlib import Path

from counterfoil.adapters.git_command import GitCommand, encode
from counterfoil.adapters.git_harvest import UNFINISHED, reach_worktree, remove_locks
from counterfoil.adapters.git_repository import Repository
from counterfoil.adapters.git_worktrees import absolute, remove_tree, require_ours
from counterfoil.core.errors import GitFailed


def settle(repository: Repository, path: Path, commit: str, ours: Path | None) -> None:
    """Detached at the commit, every tracked file as it says, no other file but ignored ones.

    What stands in the worktree is lost; the caller has pinned it. Built and installed files
    (ignored ones) are kept, so that the next attempt need not make them again. Raises
    ``RepositoryRefused`` for a folder that is not ours.
    """
    path = absolute(path)
    require_ours(repository, path, ours)
    sha = repository.commit_sha(commit)
    git, admin = reach_worktree(repository, path, [])
    if admin is None:
        raise GitFailed(
            f"The worktree {path} is no longer registered in {repository.root}.",
            hint="Harvest it, remove it, and add it again.",
        )
    remove_locks(admin, [])
    _drop_unfinished(admin)
    _point_back(path, admin)
    if _index_hides(git):
        (admin / "index").unlink(missing_ok=True)
    git.run("checkout", "--quiet", "--force", "--detach", "--no-recurse-submodules", sha)
    git.run("clean", "--quiet", "-d", "--force", "--force")
    head = git.run("rev-parse", "HEAD").line
    if head != sha:
        raise GitFailed(f"The worktree {path} stands at {head}, not at {sha}.")


def _drop_unfinished(admin: Path) -> None:
    """A merge or rebase that an agent left would go on in the next attempt."""
    for name in UNFINISHED:
        left = admin / name
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)


def _point_back(path: Path, admin: Path) -> None:
    """Make the worktree's .git file name its registration again, whatever replaced it."""
    pointer = path / ".git"
    wanted = encode(f"gitdir: {admin}\n")
    if pointer.is_dir() and not pointer.is_symlink():
        remove_tree(pointer)
    elif pointer.is_symlink():
        pointer.unlink()
    if not pointer.exists():
        pointer.write_bytes(wanted)


def _index_hides(git: GitCommand) -> bool:
    """True for a damaged index, and for one told to take files as unchanged or absent."""
    listed = git.run("ls-files", "-v", "-z", accepts=())
    return listed.code != 0 or any(entry[0].islower() or entry[0] == "S" for entry in listed.fields)
