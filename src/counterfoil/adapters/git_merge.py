"""Merges without a checkout, refs moved by compare-and-swap, and the one act that lands."""

from pathlib import Path

from counterfoil.adapters.git_command import Answer, encode
from counterfoil.adapters.git_repository import DURABLE, Repository
from counterfoil.adapters.git_worktrees import list_worktrees
from counterfoil.core.errors import GitFailed, RefMoved, RepositoryRefused
from counterfoil.ports.workspace import MergeConflict, Merged

_HEADS = "refs/heads/"


def merge(repository: Repository, ours: str, theirs: str, message: str) -> Merged | MergeConflict:
    """A merge commit of two commits, ours first; no checkout, no ref.

    It is a merge commit also where a fast-forward would do: every task is then one
    first-parent commit of the run's branch.
    """
    args = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs)
    answer = repository.git.run(*args, accepts=(0, 1), settings=DURABLE)
    if not answer.out:
        # A commit that is not there also ends with 1, but without a tree.
        raise repository.git.failed(args, answer)
    tree, *paths = answer.fields
    if answer.code == 1:
        return MergeConflict(tuple(dict.fromkeys(path for path in paths if path)))
    return Merged(repository.write_commit(tree, [ours, theirs], message), tree)


def move_ref(repository: Repository, ref: str, new: str, old: str | None) -> bool:
    """Compare-and-swap, durable. False: the ref was elsewhere.

    Raises ``GitFailed`` when it was where it should be and yet could not be moved.
    """
    expected = old or "0" * len(new)
    args = ("update-ref", "--no-deref", ref, new, expected)
    answer = repository.git.run(*args, accepts=(), settings=DURABLE)
    if answer.code == 0:
        return True
    if ref.startswith("refs/") and repository.sha(ref) != old:
        return False
    raise repository.git.failed(args, answer)


def checked_out_at(repository: Repository, ref: str) -> Path | None:
    """The worktree, the main one included, in which a branch is checked out."""
    full = ref if ref.startswith("refs/") else _HEADS + ref
    places = (path for path, branch in list_worktrees(repository) if branch == full)
    return next(places, None)


def patch(repository: Repository, base: str, commit: str) -> bytes:
    """The difference as a patch that ``git apply`` takes, binary files included."""
    return repository.git.run(
        "diff-tree",
        "-r",
        "-p",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--ignore-submodules=none",
        base,
        commit,
    ).out


def land(repository: Repository, branch: str, commit: str, message: str) -> str:
    """Bring a commit into a branch: fast-forward where possible, else a merge commit.

    A branch that is checked out moves together with its checkout, or not at all.
    """
    ref = branch if branch.startswith("refs/") else _HEADS + branch
    name = ref.removeprefix(_HEADS)
    old = repository.sha(ref)
    if old is None:
        raise RepositoryRefused(
            f"There is no branch {name} in {repository.root}.",
            hint=f"Make it first: git branch {name} {commit}",
        )
    theirs = repository.commit_sha(commit)
    if repository.descends(old, theirs):
        return old
    new = _landing(repository, name, old, theirs, message)
    place = checked_out_at(repository, ref)
    if place is None:
        if not move_ref(repository, ref, new, old):
            raise _moved(name)
    else:
        _fast_forward(repository, place, name, new)
    return new


def _landing(repository: Repository, name: str, old: str, theirs: str, message: str) -> str:
    if repository.descends(theirs, old):
        return theirs
    merged = merge(repository, old, theirs, message)
    if isinstance(merged, MergeConflict):
        raise RepositoryRefused(
            f"{theirs[:12]} conflicts with {name} in {_listed(merged.paths)}; nothing was changed.",
            hint=f"Merge by hand: git switch {name}, git merge {theirs}, resolve, git commit.",
            details={"paths": list(merged.paths)},
        )
    return merged.commit


def _fast_forward(repository: Repository, place: Path, name: str, new: str) -> None:
    """Git itself refuses to overwrite local changes, before it touches a file."""
    if not place.is_dir():
        raise RepositoryRefused(
            f"{name} is checked out at {place}, which is gone; nothing was changed.",
            hint="Run git worktree prune, or bring the folder back.",
        )
    git = repository.git.at(place)
    args = ("merge", "--ff-only", "--quiet", "--no-autostash", "--no-verify-signatures", new)
    answer = git.run(*args, accepts=(), settings=DURABLE)
    if answer.code == 0:
        return
    paths = _in_the_way(answer)
    if paths:
        raise RepositoryRefused(
            f"Local changes in {place} stand in the way: {_listed(paths)}; nothing was changed.",
            hint=f"Commit or stash them there, then land again, or: git merge {new}",
            details={"paths": list(paths)},
        )
    if b"fast-forward" in answer.err:
        raise _moved(name)
    failure: GitFailed = git.failed(args, answer)
    raise RepositoryRefused(
        f"{name} is checked out at {place}, and git refused to move it: {failure.message}",
        hint=f"Finish what is going on there, then land again, or: git merge {new}",
        details=failure.details,
    ) from failure


def _in_the_way(answer: Answer) -> tuple[str, ...]:
    lines = (answer.out + answer.err).splitlines()
    paths = [line.strip() for line in lines if line.startswith(b"\t")]
    return tuple(dict.fromkeys(path.decode("utf-8", "surrogateescape") for path in paths))


def _moved(name: str) -> RefMoved:
    return RefMoved(
        f"{name} moved while the work was landing; nothing was changed.", hint="Land again."
    )


def _listed(paths: tuple[str, ...]) -> str:
    shown = ", ".join(encode(path).decode("utf-8", "replace") for path in paths[:5])
    return shown if len(paths) <= 5 else f"{shown} and {len(paths) - 5} more"
