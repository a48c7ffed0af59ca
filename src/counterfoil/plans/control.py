"""How an operator's wish reaches the driver of a run that is at work in this process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

import anyio

from counterfoil.plans.context import ignore
from counterfoil.ports.executor import Execution


class Stop(StrEnum):
    """How the driving of a run stops.

    SHUTDOWN ends what runs, keeps its work and leaves the run paused. LEAVE lets the keepers
    run on for ``runs recover``.
    """

    SHUTDOWN = "shutdown"
    LEAVE = "leave"


@dataclass(slots=True)
class Control:
    """Told what happens, and asked to stop. ``stop`` is called on the event loop."""

    on_started: Callable[[str], None] = ignore
    notice: Callable[[str], None] = ignore
    boundary: Callable[[str], None] = ignore
    stopping: Stop | None = None
    live: dict[str, Execution] = field(default_factory=dict)
    _stopped: anyio.Event = field(default_factory=anyio.Event)

    def stop(self, how: Stop) -> None:
        """Ask for the end of the driving; the first wish stands."""
        if self.stopping is None:
            self.stopping = how
            self._stopped.set()

    async def wait_stopped(self) -> Stop:
        await self._stopped.wait()
        assert self.stopping is not None
        return self.stopping

    async def end_all(self, requested_by: str) -> None:
        """Ask every living execution to end."""
        for execution in list(self.live.values()):
            await execution.end(requested_by)
