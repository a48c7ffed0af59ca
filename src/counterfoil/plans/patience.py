"""When nothing can be recorded, nothing is dispatched: wait, say so once, go on by itself.

Both ends of the stall are journaled once the store takes writes again.
"""

import errno
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from counterfoil.core.errors import GitFailed, StoreUnavailable
from counterfoil.ledger import events, journal
from counterfoil.ledger.record import Ledger
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.unit import Unit, Work
from counterfoil.ledger.values import Refusal

T = TypeVar("T")
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_GIT_FULL_DISK = ("No space left on device", "Disk quota exceeded", "unable to write file")


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


class Patience:
    """Does units and other work of one run's driver, through stalls of the store."""

    def __init__(self, ledger: Ledger, driver: Driver, notice: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._driver = driver
        self._notice = notice
        self._since: int | None = None
        self._told: tuple[str, str] = ("", "")

    @property
    def stalled(self) -> bool:
        """True while nothing can be recorded."""
        return self._since is not None

    async def perform(self, work: Work[T | Refusal]) -> T:
        """Do a unit, however long the store is away. Raises the refusal."""
        return await self.insist(lambda: self._ledger.perform(work))

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something again until neither the store nor the disk stands in its way."""
        wait = FIRST_WAIT_SECONDS
        while True:
            try:
                result = await work()
            except (StoreUnavailable, OSError, GitFailed) as error:
                cause = stalls(error)
                if not cause:
                    raise
                self._stall(cause, str(error))
                await anyio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)
                continue
            if self._since is not None:
                await self._recover()
            return result

    def _stall(self, cause: str, message: str) -> None:
        if self._since is None:
            self._since = self._ledger.clock.now_us()
            self._told = (cause, message)
            self._notice(f"stalled: {message}; nothing new starts until it can be recorded")

    async def _recover(self) -> None:
        since, (cause, message) = self._since, self._told
        assert since is not None
        self._since = None
        try:
            await self._ledger.perform(lambda unit: self._journal(unit, since, cause, message))
        except StoreUnavailable:
            self._since = self._since or since
            return
        self._notice("going on: the ledger takes writes again")

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
