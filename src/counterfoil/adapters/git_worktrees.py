"""Worktrees of a repository: made under a lock, finished when half made, removed only if ours."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from counterfoil.adapters.git_command import decode
from counterfoil.adapters.git_repository import Repository, is_full_sha
from counterfoil.core.errors import GitFailed, RepositoryRefused
from counterfoil.core.private_folders import make_private

BEING_MADE = "counterfoil is making it"

_LOCK_WAIT_SECONDS = 120.0
_LOCK_PAUSE_SECONDS = 0.005


class RepositoryLock:
    """One at a time may change the list of worktrees: among threads and among processes.

    The file lives in the repository's common git folder unless another folder is given; the
    kernel frees the lock when its holder dies.
    """

    def __init__(self, repository: Repository, folder: Path | None) -> None:
        name = "counterfoil.lock"
        if folder is not None:
            key = hashlib.sha256(os.fsencode(repository.common_dir)).hexdigest()[:16]
            name = f"git-{key}.lock"
        self._path = (folder or repository.common_dir) / name
        self._clock = repository.clock
        self._threads = threading.Lock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Raises ``GitFailed`` when another process holds it for too long."""
        with self._threads:
            make_private(self._path.parent)
            with self._path.open("ab") as file:
                self._take(file)
                yield

    def _take(self, file: IO[bytes]) -> None:
        deadline = self._clock.monotonic() + _LOCK_WAIT_SECONDS
        pause = threading.Event()
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._clock.monotonic() > deadline:
                    raise GitFailed(
                        f"Another process has held {self._path} for {_LOCK_WAIT_SECONDS:g} s.",
                        hint="See which one (fuser, lsof), and end it if it hangs.",
                    ) from None
                pause.wait(_LOCK_PAUSE_SECONDS)
            else:
                return


def absolute(path: Path) -> Path:
    """The real path of a folder's place; a link at the place itself is not followed."""
    lexical = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps ".."
    return lexical.parent.resolve() / lexical.name


def admin_folder(repository: Repository, path: Path) -> Path | None:
    """The folder in which git keeps a linked worktree's HEAD and index, if it is registered."""
    wanted = absolute(path)
    for pointer in (repository.common_dir / "worktrees").glob("*/gitdir"):
        with contextlib.suppress(OSError):
            text = decode(pointer.read_bytes()).rstrip("\n")
            if absolute((pointer.parent / text).parent) == wanted:
                return pointer.parent
    return None


def list_worktrees(repository: Repository) -> list[tuple[Path, str | None]]:
    """Every worktree and the full name of the branch checked out in it; the main one first."""
    found: list[tuple[Path, str | None]] = []
    for entry in repository.git.run("worktree", "list", "--porcelain", "-z").fields:
        word, _, value = entry.partition(" ")
        if word == "worktree":
            found.append((Path(value), None))
        elif word == "branch":
            found[-1] = (found[-1][0], value)
    return found


def add_worktree(repository: Repository, lock: RepositoryLock, path: Path, commit: str) -> None:
    """A detached worktree at a commit.

    Only the registration is made under the lock; files are checked out side by side. Until
    they are, git's own lock on the worktree says that it is half made, which the next call
    then finishes. One that is complete, clean and at this commit is taken as it is.
    """
    path = absolute(path)
    sha = commit if is_full_sha(commit) else repository.commit_sha(commit)
    existed = path.is_dir()
    with lock.held():
        admin = _clear_the_way(repository, path)
        if admin is not None and not _half_made(admin):
            _require_untouched(repository, path, sha)
            return
        if admin is None:
            _register(repository, path, sha, existed)
    try:
        _check_out(repository, path, sha)
    except BaseException:
        with lock.held():
            _undo(repository, path, existed)
        raise


def remove_worktree(
    repository: Repository, lock: RepositoryLock, path: Path, ours: Path | None
) -> None:
    """Remove a worktree below the folder that is ours, with all that is in it.

    One that is gone, damaged or locked is removed as well. Raises ``RepositoryRefused`` for
    any other folder.
    """
    path = absolute(path)
    require_ours(repository, path, ours)
    admin = admin_folder(repository, path)
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        if admin is None and not _was_worktree(repository, path):
            raise RepositoryRefused(
                f"{path} is not a worktree of {repository.root}; it is left alone.",
                hint="Remove it by hand if it is not needed.",
            )
        remove_tree(path)
    if admin is not None:
        with lock.held():
            _unregister(repository, path)


def _clear_the_way(repository: Repository, path: Path) -> Path | None:
    """Drop the registration of a worktree whose folder is missing; returns a living one."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise GitFailed(f"{path} is in the way: it is not a folder.", hint="Remove it.")
    admin = admin_folder(repository, path)
    if admin is None:
        if path.is_dir() and any(path.iterdir()):
            raise GitFailed(
                f"{path} is in the way: it is not empty and no worktree of {repository.root}.",
                hint="Remove it, or choose another folder.",
            )
        return None
    if (path / ".git").exists():
        return admin
    if path.is_dir() and any(path.iterdir()):
        raise GitFailed(
            f"The worktree {path} has lost its .git file but not its files.",
            hint="Harvest it, then remove it.",
        )
    if path.is_dir():
        # Git wants to see a whole worktree there, or nothing.
        path.rmdir()
    _unregister(repository, path)
    return None


def _half_made(admin: Path) -> bool:
    try:
        return (admin / "locked").read_text().strip() == BEING_MADE
    except OSError:
        return False


def _require_untouched(repository: Repository, path: Path, sha: str) -> None:
    git = repository.git.at(path)
    head = git.run("rev-parse", "HEAD", accepts=()).line
    if head != sha or git.run("status", "--porcelain", "-z").out:
        raise GitFailed(
            f"There is already a worktree at {path} with work in it (HEAD {head[:12]}).",
            hint="Harvest and remove it, or choose another folder.",
        )


def _register(repository: Repository, path: Path, sha: str, existed: bool) -> None:
    make_private(path.parent)
    try:
        repository.git.run(
            "worktree",
            "add",
            "--quiet",
            "--no-checkout",
            "--lock",
            f"--reason={BEING_MADE}",
            "--detach",
            str(path),
            sha,
        )
    except BaseException:
        _undo(repository, path, existed)
        raise


def _check_out(repository: Repository, path: Path, sha: str) -> None:
    admin = admin_folder(repository, path)
    if admin is None:
        raise GitFailed(f"The worktree {path} vanished while it was made.")
    (admin / "index.lock").unlink(missing_ok=True)
    git = repository.git.at(path)
    git.run("reset", "--hard", "--quiet", "--no-recurse-submodules", sha)
    head = git.run("rev-parse", "HEAD").line
    if head != sha:
        raise GitFailed(f"The worktree {path} stands at {head}, not at {sha}.")
    (admin / "locked").unlink()


def _undo(repository: Repository, path: Path, existed: bool) -> None:
    """Remove what this call made; the first error is the one to tell, so none is raised."""
    with contextlib.suppress(OSError, GitFailed):
        if admin_folder(repository, path) is not None:
            _unregister(repository, path)
        if existed:
            path.mkdir(exist_ok=True)
        elif path.is_dir():
            path.rmdir()


def _unregister(repository: Repository, path: Path) -> None:
    """Drop one registration, locked or not. A prune would drop other people's, too."""
    repository.git.run("worktree", "remove", "--force", "--force", str(path))


def require_ours(repository: Repository, path: Path, ours: Path | None) -> None:
    """Refuse every folder that is not strictly below ours, and the repository itself."""
    hint = "Only folders below the one for worktrees are ever removed or reset."
    if ours is None:
        raise RepositoryRefused(
            f"{path} is left alone: no folder for worktrees was named.", hint=hint
        )
    home = ours.resolve()
    if home not in path.parents:
        raise RepositoryRefused(f"{path} is left alone: it is not below {home}.", hint=hint)
    real_git = repository.common_dir.resolve()
    for precious in (repository.root.resolve(), real_git):
        if path == precious or path in precious.parents or real_git in path.parents:
            raise RepositoryRefused(
                f"{path} is left alone: the repository {repository.root} is there.", hint=hint
            )


def _was_worktree(repository: Repository, path: Path) -> bool:
    """True for an empty folder, and for one whose .git file points into this repository."""
    if not path.is_dir():
        return False
    try:
        text = decode((path / ".git").read_bytes())
    except OSError:
        return not any(path.iterdir())
    target = absolute(path / text.removeprefix("gitdir:").strip())
    return target.parent == (repository.common_dir / "worktrees").resolve()


def remove_tree(path: Path) -> None:
    """Remove a tree without following links, folders without write permission included."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        _make_writable(path)
        try:
            shutil.rmtree(path)
        except OSError as error:
            raise GitFailed(f"{path} cannot be removed: {error}") from error
    except OSError as error:
        raise GitFailed(f"{path} cannot be removed: {error}") from error


def _make_writable(path: Path) -> None:
    """Folders only, and before they are read; a link would lead out of the tree."""
    with contextlib.suppress(OSError):
        path.chmod(0o700)
    for folder, names, _ in os.walk(path):
        for inner in (Path(folder, name) for name in names):
            if not inner.is_symlink():
                with contextlib.suppress(OSError):
                    inner.chmod(0o700)
