"""When nothing can be recorded, nothing is dispatched: wait, say so once, go on by itself.

Both ends of the stall are journaled once the store takes writes again.
"""

import errno
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from counterfoil.core.errors import GitFailed, StoreUnavailable
from counterfoil.ledger import events, journal
from counterfoil.ledger.record import Ledger
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.unit import Unit, Work
from counterfoil.ledger.values import Refusal
from counterfoil.ports.executor import ExitCause, ExitRecord

T = TypeVar("T")
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
LAST_WAIT_SECONDS = 10.0
"""How long a run that is to stop still waits for the store or the disk."""

LEAST_ROOM_BYTES = 1 << 20
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_GIT_FULL_DISK = (
    "No space left on device",
    "Disk quota exceeded",
    # Git tells no reason where it writes refs, the index and objects.
    "couldn't write",
    "could not write",
    "failed to write",
    "unable to write",
    "write error",
)


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Blocking work in a worker thread."""
    return await anyio.to_thread.run_sync(partial(work, *arguments))


def stalls(error: BaseException) -> str:
    """The cause when an error means that the store or the disk is away; else empty."""
    if isinstance(error, StoreUnavailable):
        return "disk" if "full" in error.message else "store"
    if isinstance(error, OSError) and error.errno in _FULL_DISK:
        return "disk"
    if isinstance(error, GitFailed):
        said = f"{error.message} {error.details.get('stderr', '')}"
        return "disk" if any(sign in said for sign in _GIT_FULL_DISK) else ""
    return ""


def no_room(path: Path) -> bool:
    """True when the disk of a path is full, or so full that what failed there proves nothing."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < LEAST_ROOM_BYTES or (disk.f_files > disk.f_favail == 0)


def disk_full(path: Path) -> OSError:
    """The error that has ``insist`` wait for room on a disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class Patience:
    """Does units and other work of one run's driver, through stalls of the store.

    ``leaving`` tells that the run is to stop: then a stall is not waited out to its end.
    ``going_on`` is called when a stall is over.
    """

    def __init__(
        self,
        ledger: Ledger,
        driver: Driver,
        notice: Callable[[str], None],
        leaving: Callable[[], bool] = lambda: False,
        going_on: Callable[[], None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._driver = driver
        self._notice = notice
        self._leaving = leaving
        self._going_on = going_on
        self._since: int | None = None
        self._told: tuple[str, str] = ("", "")
        self._disk_full_until = 0
        self._stuck = 0
        self._recovering = False

    @property
    def stalled(self) -> bool:
        """True while nothing can be recorded."""
        return self._since is not None

    def wanted_room(self, record: ExitRecord | None, place: Path) -> bool:
        """True for a process in a place that may have failed because the disk was full."""
        if record is None or record.exit_code == 0:
            return False
        if record.cause is ExitCause.SPAWN_FAILED:
            return os.strerror(errno.ENOSPC) in record.message
        full = no_room(place) or self._disk_full_until > record.started_at
        return record.cause is ExitCause.EXITED and full

    async def perform(self, work: Work[T | Refusal]) -> T:
        """Do a unit, however long the store is away. Raises the refusal."""
        return await self.insist(lambda: self._ledger.perform(work))

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something again until neither the store nor the disk stands in its way."""
        wait, waited, stuck = FIRST_WAIT_SECONDS, 0.0, False
        try:
            while True:
                try:
                    result = await work()
                    break
                except (StoreUnavailable, OSError, GitFailed) as error:
                    cause = stalls(error)
                    if not cause or (self._leaving() and waited >= LAST_WAIT_SECONDS):
                        raise
                    self._stuck += not stuck
                    stuck = True
                    self._stall(cause, str(error))
                await anyio.sleep(wait)
                waited += wait
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)
        finally:
            self._stuck -= stuck
        if self._since is not None and not self._stuck:
            await self._recover()
        return result

    def _stall(self, cause: str, message: str) -> None:
        now = self._ledger.clock.now_us()
        if cause == "disk":
            self._disk_full_until = now
        if self._since is None:
            self._since = now
            self._told = (cause, message)
            self._notice(f"stalled: {message}; nothing new starts until it can be recorded")

    async def _recover(self) -> None:
        if self._recovering:
            return
        since, (cause, message) = self._since, self._told
        assert since is not None
        self._recovering = True
        try:
            with anyio.CancelScope(shield=True):  # journaled but not known to be: told twice
                await self._ledger.perform(lambda unit: self._journal(unit, since, cause, message))
        except StoreUnavailable:
            return
        finally:
            self._recovering = False
        self._since = None
        self._notice("going on: what happens can be recorded again")
        self._going_on()

    def _journal(self, unit: Unit, since: int, cause: str, message: str) -> Refusal | None:
        payloads = (
            (events.RUN_STALLED, {"cause": cause, "message": message, "since": since}),
            (events.RUN_UNSTALLED, {"stalledMs": (unit.now - since) // 1000}),
        )
        for kind, payload in payloads:
            told = journal.append(
                unit,
                self._ledger.scope,
                self._driver.run_id,
                kind,
                payload,
                fence=self._driver.fence,
            )
            if isinstance(told, Refusal):
                return told
        return None
