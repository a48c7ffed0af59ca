"""The work of an attempt as one delta: committed, uncommitted and untracked alike.

A temporary index takes it in, so that the worktree's files and its own index stay as they
were. The worktree is addressed through its registration in the repository, never through its
``.git`` file, which an agent may have replaced.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from counterfoil.adapters.git_command import GitCommand, decode, encode
from counterfoil.adapters.git_repository import Repository
from counterfoil.adapters.git_worktrees import absolute, admin_folder
from counterfoil.core.errors import GitFailed
from counterfoil.ports.workspace import FileChange, Harvest

_LINK = "160000"
_LOCKS = ("index.lock", "HEAD.lock")
UNFINISHED = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
}
_TAKING = ("core.untrackedCache=false", "core.splitIndex=false")
# Objects of one command are synced together, once: as durable, and independent of their number.
_BATCHED = ("core.fsync=all,-index", "core.fsyncMethod=batch")
# Past this number of files their objects go into one pack: a few syncs instead of one each.
_MANY = 500
_PACKED = ("core.bigFileThreshold=0",)
_NOTES_KEPT = 20


@dataclass(frozen=True, slots=True)
class _Stand:
    """Where base and the worktree's HEAD are."""

    base: str
    base_tree: str
    head: str
    head_tree: str
    descends: bool


@dataclass(slots=True)
class _Taking:
    """A worktree being taken in: git with the temporary index, and what there is to tell."""

    git: GitCommand
    path: Path
    notes: list[str]
    tracked: list[str] = field(default_factory=list)
    many: bool = False


def harvest(repository: Repository, path: Path, base: str, ref: str, message: str) -> Harvest:
    """One delta from ``base``, pinned under ``ref`` before anything can be removed.

    The commit is the worktree's own HEAD where that says it all, else a new one on top of
    HEAD, else (HEAD does not descend from base) one on top of base, with that foreign HEAD
    pinned under ``ref`` + "-head". Commits of changed links to other repositories are fetched
    and pinned under ``ref`` + "-link-N", as they would go with the worktree.
    """
    notes: list[str] = []
    git, admin = reach_worktree(repository, path, notes)
    remove_locks(admin, notes)
    stand = _stand(repository, git, admin, base, notes)
    with tempfile.TemporaryDirectory(prefix="counterfoil-index-") as scratch:
        index = Path(scratch) / "index"
        taking = _Taking(git.knowing(GIT_INDEX_FILE=str(index)), path, notes)
        _start_index(taking, admin, index, stand.head)
        tree = _take_in(taking)
        files, links = _changes(repository, stand.base_tree, tree)
        strangers = links.keys() - set(taking.tracked) if links else set()
        if strangers:
            tree = _leave_out(taking, sorted(strangers))
            files, _ = _changes(repository, stand.base_tree, tree)
    empty = tree == stand.base_tree
    commit = _commit(repository, stand, tree, message)
    pins = {ref: commit}
    if not stand.descends or (empty and stand.head != stand.base):
        pins[ref + "-head"] = stand.head
    repository.point(pins)
    _pin_links(repository, path, sorted(links), ref, notes)
    return Harvest(stand.base, stand.head, commit, tree, empty, files, tuple(notes))


def reach_worktree(
    repository: Repository, path: Path, notes: list[str]
) -> tuple[GitCommand, Path | None]:
    """Git in a worktree by way of its registration, and the folder of that, if it is there.

    Raises ``GitFailed`` for a worktree that is gone.
    """
    path = absolute(path)
    gone = "Nothing of this attempt's work can be kept; run the task again."
    if path.is_symlink() or not path.is_dir():
        raise GitFailed(f"The worktree {path} is gone; there is nothing to harvest.", hint=gone)
    admin = admin_folder(repository, path)
    if not (path / ".git").is_file():
        if not any(path.iterdir()):
            raise GitFailed(f"The worktree {path} was emptied, .git included.", hint=gone)
        notes.append("The worktree's .git file was removed or replaced.")
    if admin is None:
        notes.append("The worktree was no longer registered: its HEAD and index are unknown.")
    place = (f"--git-dir={admin or repository.common_dir}", f"--work-tree={path}")
    return repository.git.at(path, *place), admin


def remove_locks(admin: Path | None, notes: list[str]) -> None:
    """No process is alive in the worktree, so a lock in its own folder is a left-over."""
    if admin is None:
        return
    for name in _LOCKS:
        with contextlib.suppress(FileNotFoundError):
            (admin / name).unlink()
            notes.append(f"A stale {name} was removed.")
    for name, what in UNFINISHED.items():
        if (admin / name).exists():
            notes.append(f"The worktree was left in the middle of {what}.")


def _stand(
    repository: Repository, git: GitCommand, admin: Path | None, base: str, notes: list[str]
) -> _Stand:
    names = [f"{base}^{{commit}}", f"{base}^{{tree}}"]
    if admin is not None:
        names += ["HEAD^{commit}", "HEAD^{tree}"]
    answer = git.run("rev-parse", *names, accepts=(0, 128))
    lines = answer.line.splitlines()
    if len(lines) < 2 or (answer.code != 0 and lines[1] == names[1]) or lines[0] == names[0]:
        raise GitFailed(f"There is no commit {base!r} in {repository.root}.")
    base_sha, base_tree = lines[:2]
    if admin is None or answer.code != 0:
        if admin is not None:
            notes.append("The worktree's HEAD named no commit.")
        return _Stand(base_sha, base_tree, base_sha, base_tree, True)
    head, head_tree = lines[2:4]
    with contextlib.suppress(OSError):
        text = decode((admin / "HEAD").read_bytes()).strip()
        if text.startswith("ref: refs/heads/") and not text.endswith("/.invalid"):
            notes.append(f"HEAD was on the branch {text.removeprefix('ref: refs/heads/')}.")
    descends = repository.descends(head, base_sha)
    if not descends:
        notes.append(f"HEAD moved to {head}, which does not descend from the base {base_sha}.")
    return _Stand(base_sha, base_tree, head, head_tree, descends)


def _start_index(taking: _Taking, admin: Path | None, index: Path, head: str) -> None:
    """A copy of the worktree's index, whose stat data make taking in cheap, else HEAD's tree.

    The copy keeps its time stamp: git looks again into files as young as the index, and a
    younger one would hide a change made in the same moment.
    """
    if admin is not None:
        with contextlib.suppress(OSError):
            shutil.copy2(admin / "index", index)
            if _look_over(taking):
                return
            index.unlink()
        taking.notes.append("The worktree's index was missing or damaged; HEAD's took its place.")
    taking.git.run("read-tree", head)
    _look_over(taking)


def _look_over(taking: _Taking) -> bool:
    """What is tracked, hidden, and how much there is to take; False: the index is damaged."""
    listed = taking.git.run(
        "ls-files",
        "-v",
        "-z",
        "--cached",
        "--modified",
        "--others",
        "--exclude-standard",
        settings=_TAKING,
        accepts=(),
    )
    if listed.code != 0:
        return False
    entries = listed.fields
    taking.tracked = [entry[2:] for entry in entries if entry[0] not in "?Cc"]
    taking.many = sum(entry[0] in "?C" for entry in entries) > _MANY
    _unhide(taking, entries)
    return True


def _unhide(taking: _Taking, entries: Sequence[str]) -> None:
    """Look also into files that the index was told to take as unchanged."""
    assumed = [entry[2:] for entry in entries if entry[0] in "hsm"]
    skipped = [entry[2:] for entry in entries if entry[0] in "sS"]
    present = [name for name in skipped if (taking.path / name).exists()]
    for flag, names in (("--no-assume-unchanged", assumed), ("--no-skip-worktree", present)):
        if names:
            paths = encode("".join(f"{name}\0" for name in names))
            taking.git.run("update-index", flag, "-z", "--stdin", stdin=paths)
            taking.notes.append(f"{len(names)} files were hidden in the index ({flag[5:]}).")


def _take_in(taking: _Taking) -> str:
    added = taking.git.run(
        "add",
        "--all",
        "--sparse",
        "--ignore-errors",
        accepts=(0, 1),
        settings=(*_TAKING, *_BATCHED, *(_PACKED if taking.many else ())),
    )
    if added.code != 0:
        said = added.err.decode("utf-8", "replace").splitlines()
        faults = [line for line in said if line.startswith("error:")]
        taking.notes += [f"Git could not take all: {line[7:]}" for line in faults[:_NOTES_KEPT]]
    return taking.git.run("write-tree", settings=_BATCHED).line


def _leave_out(taking: _Taking, paths: Sequence[str]) -> str:
    """A repository inside the worktree that nobody declared is not work: a bare link to it
    would break the next checkout."""
    names = encode("".join(f"{path}\0" for path in paths))
    taking.git.run("update-index", "--force-remove", "-z", "--stdin", stdin=names)
    taking.notes += [
        f"{path} is a repository of its own; its files are not part of the harvest."
        for path in paths[:_NOTES_KEPT]
    ]
    return taking.git.run("write-tree", settings=_BATCHED).line


def _changes(
    repository: Repository, base_tree: str, tree: str
) -> tuple[tuple[FileChange, ...], dict[str, str]]:
    """Every changed path, renames as two, and the new targets of links to repositories."""
    if tree == base_tree:
        return (), {}
    fields = iter(
        repository.git.run(
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--numstat",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=none",
            base_tree,
            tree,
        ).fields
    )
    files = []
    links = {}
    for entry in fields:
        if entry.startswith(":"):
            path = next(fields)
            _, mode, _, target, _ = entry.split(" ")
            if mode == _LINK:
                links[path] = target
        else:
            insertions, deletions, path = entry.split("\t", 2)
            files.append(FileChange(path, _count(insertions), _count(deletions)))
    return tuple(files), links


def _count(text: str) -> int | None:
    return None if text == "-" else int(text)


def _commit(repository: Repository, stand: _Stand, tree: str, message: str) -> str:
    if tree == stand.base_tree:
        return stand.base
    if stand.descends and tree == stand.head_tree:
        return stand.head
    parent = stand.head if stand.descends else stand.base
    return repository.write_commit(tree, [parent], message)


def _pin_links(
    repository: Repository, path: Path, links: Sequence[str], ref: str, notes: list[str]
) -> None:
    for number, link in enumerate(links, start=1):
        inner = path / link
        if inner.is_symlink() or not (inner / ".git").exists():
            continue
        pin = f"{ref}-link-{number}"
        answer = repository.git.run(
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            str(inner),
            f"+HEAD:{pin}",
            accepts=(),
        )
        kept = f"is kept under {pin}" if answer.code == 0 else "could not be kept"
        notes.append(f"The commit of the repository in {link} {kept}.")
