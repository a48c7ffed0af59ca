"""One attempt's folder: the names in it, its lock, and writes that survive a crash.

All that a keeper and a runner share. Command lines and environments may hold secrets and
are never written here.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from counterfoil.core.private_folders import make_private
from counterfoil.executors.processes import Identity
from counterfoil.ports.executor import ExitCause, ExitRecord, LaunchSpec, ProcessNote

LOCK = "lock"
FENCE = "fence"
SPEC = "spec.json"
KEEPER = "keeper.json"
STARTED = "started.json"
EXIT = "exit.json"
HEARD = "heard"
END = "end"
STDOUT = "stdout"
STDERR = "stderr"
KEEPER_LOG = "keeper.log"
RECORD_BYTES = 64 * 1024
"""Room for most exit records: 300 notes of some 200 bytes."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of one attempt, whose lock is held by a living keeper for its whole life."""

    path: Path

    def make(self) -> None:
        """Create it for its owner alone, or take it as it is."""
        make_private(self.path)

    def take_lock(self) -> int | None:
        """The descriptor that holds the lock, or None when somebody else does."""
        lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def is_locked(self) -> bool:
        """Whether somebody holds the lock; two who ask do not disturb each other."""
        try:
            lock = os.open(self.path / LOCK, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def write(self, name: str, data: bytes) -> None:
        """Replace a file as a whole, synced with its name before this returns."""
        draft = self._draft(name, data)
        draft.rename(self.path / name)
        names = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(names)
        finally:
            os.close(names)

    def _draft(self, name: str, data: bytes) -> Path:
        """A synced file beside the file of this name; written in place, for it may be reserved."""
        draft = self.path / f"{name}.{os.getpid()}.tmp"
        with open(draft, "wb", opener=_in_place) as out:
            out.write(data)
            out.truncate()
            out.flush()
            os.fsync(out.fileno())
        return draft

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        self.write(name, json.dumps(value, indent=1).encode() + b"\n")

    def read_json(self, name: str) -> dict[str, Any] | None:
        """What the file holds, or None when there is none."""
        try:
            value = json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        return value if isinstance(value, dict) else None

    def fence(self) -> int | None:
        """The newest fence that was written, or None."""
        try:
            return int((self.path / FENCE).read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def write_fence(self, fence: int) -> None:
        """Only for who holds the lock."""
        self.write(FENCE, b"%d\n" % fence)

    def fence_before(self, fence: int) -> bool:
        """Whether the folder has no fence yet, or an older one."""
        written = self.fence()
        return written is None or written < fence

    def is_used(self, fence: int) -> bool:
        """Whether an agent was, or may have been, started under this fence or a newer one."""
        started, record = self.read_json(STARTED), self.record()
        return (started is not None and started["fence"] >= fence) or (
            record is not None and record.fence >= fence
        )

    def keeper(self) -> tuple[Identity, int] | None:
        """The keeper that introduced itself last, and its fence."""
        entry = self.read_json(KEEPER)
        if entry is None:
            return None
        return Identity(entry["pid"], entry["start"], entry["boot_id"]), entry["fence"]

    def record(self) -> ExitRecord | None:
        """The newest exit record; fields of another version of the keeper are tolerated."""
        entry = self.read_json(EXIT)
        if entry is None:
            return None
        known = {name: entry[name] for name in _names(ExitRecord) if name in entry}
        known["cause"] = ExitCause(known["cause"])
        for name in ("ended", "survivors", "strangers"):
            known[name] = tuple(ProcessNote(**note) for note in known.get(name, ()))
        return ExitRecord(**known)

    def reserve_record(self) -> None:
        """Take the room for this process's exit record, so that a full disk does not stop it."""
        self._draft(EXIT, bytes(RECORD_BYTES))

    def write_record(self, record: ExitRecord) -> None:
        self.write_json(EXIT, asdict(record))

    def touch_heard(self) -> None:
        """Tell the keeper that a runner lives."""
        (self.path / HEARD).touch(mode=0o600)

    def heard_mark(self) -> int:
        """Changes whenever a runner touched the folder; says nothing about when."""
        return _stat(self.path / HEARD, "st_mtime_ns")

    def asked_by(self) -> str | None:
        """Who asked for the end, or None."""
        try:
            return (self.path / END).read_text("utf-8", "replace").strip()
        except FileNotFoundError:
            return None

    def output_size(self) -> int:
        """Bytes that the agent has written so far."""
        return _stat(self.path / STDOUT, "st_size") + _stat(self.path / STDERR, "st_size")

    def open_output(self, name: str) -> int:
        return os.open(self.path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def launch_to_bytes(spec: LaunchSpec) -> bytes:
    """The whole launch, for the keeper's eyes only."""
    entry = {name: getattr(spec, name) for name in _names(LaunchSpec)}
    return json.dumps(entry | {"env": dict(spec.env)}, default=str).encode()


def launch_from_bytes(data: bytes) -> LaunchSpec:
    """Raises ``ValueError``, ``KeyError`` or ``TypeError`` when it is no launch."""
    entry = json.loads(data)
    known = {name: entry[name] for name in _names(LaunchSpec) if name in entry}
    known["folder"] = Path(known["folder"])
    known["cwd"] = Path(known["cwd"])
    for name in ("stdin", "worktree"):
        known[name] = None if known.get(name) is None else Path(known[name])
    known["argv"] = tuple(known["argv"])
    return LaunchSpec(**known)


def described(spec: LaunchSpec) -> dict[str, Any]:
    """A launch without its secrets: the program, the names of the variables, the limits."""
    entry = {name: getattr(spec, name) for name in _names(LaunchSpec)}
    del entry["argv"], entry["env"]
    entry |= {"program": spec.argv[0] if spec.argv else "", "variables": sorted(spec.env)}
    for name in ("folder", "cwd", "stdin", "worktree"):
        entry[name] = None if entry[name] is None else str(entry[name])
    return entry


def _names(kind: type[ExitRecord] | type[LaunchSpec]) -> list[str]:
    return [field.name for field in fields(kind)]


def _in_place(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_TRUNC, 0o600)


def _stat(path: Path, what: str) -> int:
    try:
        return int(getattr(path.stat(), what))
    except FileNotFoundError:
        return 0
