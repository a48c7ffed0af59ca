"""What becomes of an attempt that another runner left open: adopted, read off, or given up.

It is given out again only after proof that nothing of it lives: its keeper's lock was free, a
newer fence was written under it, and its processes were swept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from counterfoil.core.errors import ExecutorError
from counterfoil.ledger import attempts
from counterfoil.ledger.states import AttemptOutcome, AttemptStatus, Phase
from counterfoil.ledger.values import AttemptRow
from counterfoil.plans.context import RunContext
from counterfoil.plans.course import EndCause, newest_work
from counterfoil.plans.folders import PREPARE
from counterfoil.plans.implementing import Implementer
from counterfoil.plans.merging import MergeQueue
from counterfoil.plans.model import Task
from counterfoil.plans.patience import Patience
from counterfoil.plans.verdict import Verdict
from counterfoil.plans.watch import quell
from counterfoil.ports.agent import Report

ADOPTIONS = 5


@dataclass(frozen=True, slots=True)
class Settler:
    """Settles open attempts of one run."""

    context: RunContext
    patience: Patience
    implementer: Implementer
    queue: MergeQueue

    async def finish(
        self, task: Task, attempt: AttemptRow, known: Sequence[AttemptRow]
    ) -> AttemptRow:
        """The attempt's row when it has ended."""
        if attempt.phase == Phase.MERGE:
            return await self._finish_merge(attempt, known)
        executor, folder = self.context.executor, Path(attempt.folder)
        for _ in range(ADOPTIONS):
            record = executor.record(folder)
            if record is not None and record.fence == attempt.fence:
                return await self.implementer.settle_record(task, attempt, record)
            execution = await executor.adopt(folder)
            if execution is not None:
                mine = await self._hand_over(attempt)
                if mine.status == AttemptStatus.LEASED:
                    mine = await self.implementer.mark_started(mine)
                return await self.implementer.finish(task, mine, execution)
            if executor.fence_off(folder, attempt.fence + 1):
                if (folder / PREPARE).is_dir():
                    await quell(executor, folder / PREPARE, attempt.fence + 1)
                return await self._give_up(task, attempt)
        raise ExecutorError(
            f"the keeper of {attempt.id} comes and goes", hint=f"look into {folder}"
        )

    async def _hand_over(self, attempt: AttemptRow) -> AttemptRow:
        ledger, driver = self.context.ledger, self.context.driver
        if attempt.holder_id == driver.holder_id:
            return attempt
        return await self.patience.perform(
            lambda unit: attempts.hand_over(unit, ledger.scope, driver, attempt)
        )

    async def _give_up(self, task: Task, attempt: AttemptRow) -> AttemptRow:
        """Nothing of it lives any more; whatever it did is harvested."""
        if self.context.executor.started(Path(attempt.folder), attempt.fence):
            return await self.implementer.settle_record(task, attempt, None)
        await self.implementer.sweep(attempt)
        verdict = Verdict(
            AttemptOutcome.UNKNOWN, None, "the runner died before the attempt had started"
        )
        return await self.implementer.settle(
            task, attempt, verdict, Report(), end_cause=EndCause.NEVER_STARTED
        )

    async def _finish_merge(self, intent: AttemptRow, known: Sequence[AttemptRow]) -> AttemptRow:
        result = await self.queue.resume(intent, newest_work(known))
        return result.attempt
