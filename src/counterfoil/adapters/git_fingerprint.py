"""The developer's checkout as hashes: what a run must leave exactly as it found it."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from counterfoil.adapters.git_command import decode
from counterfoil.adapters.git_repository import Repository

_MOST_FILES = 10_000
_MOST_BYTES = 64 * 1024 * 1024
_OURS = ("refs/heads/counterfoil/", "refs/counterfoil/")


def fingerprint(repository: Repository) -> dict[str, str]:
    """{what: hash}: HEAD, index, config, branches, stash, and every file that differs from HEAD.

    Files are keyed ``file:<path>``. Past 10,000 files, and for a file over 64 MiB, size and
    time stand for the content. Refs under our own names do not count.
    """
    found = {
        "HEAD": _head(repository),
        "index": _file_hash(repository.git_dir / "index"),
        "config": _file_hash(repository.common_dir / "config"),
    }
    found |= _refs(repository)
    for number, path in enumerate(_unclean(repository)):
        found["file:" + path] = _state(repository.root / path, number < _MOST_FILES)
    return found


def unclean_paths(fields: list[str]) -> Iterator[str]:
    """The paths in the entries of ``git status --porcelain=v2 -z``, both names of a rename."""
    entries = iter(fields)
    for entry in entries:
        kind = entry[0]
        if kind == "1":
            yield entry.split(" ", 8)[8]
        elif kind == "2":
            yield entry.split(" ", 9)[9]
            yield next(entries)
        elif kind == "u":
            yield entry.split(" ", 10)[10]
        elif kind == "?":
            yield entry[2:]


def _head(repository: Repository) -> str:
    try:
        return decode((repository.git_dir / "HEAD").read_bytes()).strip()
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _refs(repository: Repository) -> dict[str, str]:
    listed = repository.git.run(
        "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/stash"
    )
    lines = decode(listed.out).splitlines()
    theirs = [line for line in lines if not line.startswith(_OURS)]
    heads = [line for line in theirs if not line.startswith("refs/stash ")]
    stash = [line for line in theirs if line.startswith("refs/stash ")]
    return {"branches": _hash("\n".join(heads)), "stash": _hash("\n".join(stash))}


def _unclean(repository: Repository) -> Iterator[str]:
    answer = repository.git.run(
        "status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames"
    )
    return unclean_paths(answer.fields)


def _state(path: Path, content: bool) -> str:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return "link " + _hash(os.fsdecode(path.readlink()))
        if stat.S_ISDIR(status.st_mode):
            return "folder"
        if not stat.S_ISREG(status.st_mode):
            return "special"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"unreadable: {error.strerror}"
    mode = "executable " if status.st_mode & stat.S_IXUSR else ""
    if not content or status.st_size > _MOST_BYTES:
        return f"{mode}size {status.st_size} time {status.st_mtime_ns}"
    return mode + _file_hash(path)


def _file_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
