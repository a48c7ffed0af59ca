"""Looks whether the developer's checkout is what it was; nothing of ours ever touches it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import anyio

from counterfoil.core.errors import GitFailed
from counterfoil.ledger import events, journal
from counterfoil.ledger.states import Phase
from counterfoil.ledger.values import AttemptRow
from counterfoil.plans.context import RunContext
from counterfoil.plans.control import Control
from counterfoil.plans.patience import Patience, in_thread

MOST_PATHS = 200
SHOWN_PATHS = 5


@dataclass(slots=True)
class CheckoutWatch:
    """Tells of each change of the checkout once, and which attempts were alive meanwhile."""

    context: RunContext
    patience: Patience
    control: Control
    _before: Mapping[str, str] = field(init=False, default_factory=dict)
    _past: set[str] = field(init=False, default_factory=set)
    _turn: anyio.Lock = field(init=False, default_factory=anyio.Lock)

    async def begin(self, ended: Iterable[AttemptRow]) -> None:
        """Take the checkout as it is. ``ended``: attempts that cannot have changed it since."""
        self._past = {attempt.id for attempt in ended}
        self._before = await in_thread(self._seen)

    async def look(self, tried: Iterable[AttemptRow]) -> None:
        """Journal what changed since the last look. ``tried``: of the tasks at work."""
        async with self._turn:
            try:
                seen = await in_thread(self._seen)
            except GitFailed as error:
                self.context.notice(f"the checkout cannot be looked at: {error.message}")
                return
            before, self._before = self._before, seen
            names = before.keys() | seen.keys()
            changed = sorted(name for name in names if before.get(name) != seen.get(name))
            alive = self._alive(tried)
            if changed:
                await self._tell({"changed": changed[:MOST_PATHS], "attempts": alive})
                shown = ", ".join(changed[:SHOWN_PATHS])
                self.context.notice(f"the checkout changed while attempts ran: {shown}")

    def _seen(self) -> dict[str, str]:
        """The fingerprint, without our own files where the state folder lies in the checkout."""
        seen = self.context.workspace.fingerprint()
        root, home = self.context.workspace.root.resolve(), self.context.folder.home.resolve()
        if not home.is_relative_to(root):
            return seen
        ours = f"file:{home.relative_to(root)}/"
        return {name: what for name, what in seen.items() if not name.startswith(ours)}

    def _alive(self, tried: Iterable[AttemptRow]) -> list[str]:
        """The attempts that were alive since the last look."""
        ended = {
            attempt.id
            for attempt in tried
            if attempt.phase != Phase.MERGE and attempt.id not in self._past
        }
        self._past |= ended
        return sorted(ended | {name.partition("/")[0] for name in self.control.live})

    async def _tell(self, payload: Mapping[str, object]) -> None:
        ledger, driver = self.context.ledger, self.context.driver
        kind = events.RUN_CHECKOUT_CHANGED
        await self.patience.perform(
            lambda unit: journal.append(
                unit, ledger.scope, driver.run_id, kind, payload, fence=driver.fence
            )
        )
