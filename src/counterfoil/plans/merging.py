"""The merge queue: one candidate at a time moves the run branch.

``merge.intent`` is committed before the ref is touched, so a crash between the two is read off
the ref: it stands at ``new`` (done), at ``old`` (do it again), or elsewhere (look again).
"""

from dataclasses import dataclass, field

import anyio

from counterfoil.core.errors import GitFailed
from counterfoil.core.ids import ATTEMPT
from counterfoil.ledger import attempts, events, tasks
from counterfoil.ledger.attempts import End, Lease
from counterfoil.ledger.states import AttemptOutcome, Phase, TaskStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import AttemptRow, Refusal
from counterfoil.observability import create_attempt_context
from counterfoil.plans.context import RunContext
from counterfoil.plans.course import EndCause
from counterfoil.plans.model import Task
from counterfoil.plans.patience import Patience, in_thread
from counterfoil.ports.workspace import MergeConflict, Merged

MERGE_AGENT = "merge"


async def run_head(context: RunContext, patience: Patience) -> str:
    """Where the run branch stands. Raises ``GitFailed`` when it is gone."""
    ref = context.run_branch
    found = await patience.insist(lambda: in_thread(context.workspace.resolve, ref))
    if found is None:
        raise GitFailed(
            f"the run branch {ref} is gone",
            hint="restore it from the last merge.done entry of the run",
        )
    return found


@dataclass(frozen=True, slots=True)
class Taken:
    """The run branch holds the candidate now."""

    attempt: AttemptRow


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Somebody moved the run branch meanwhile; nothing was changed."""

    attempt: AttemptRow


@dataclass(frozen=True, slots=True)
class MergeQueue:
    """Moves the run branch of one run."""

    context: RunContext
    patience: Patience
    turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def head(self) -> str:
        """Where the run branch stands. Raises ``GitFailed`` when it is gone."""
        return await run_head(self.context, self.patience)

    async def candidate(self, task: Task, attempt: AttemptRow, head: str) -> Merged | MergeConflict:
        """The candidate merged onto the run branch, as an object; no ref moves."""
        message = (
            f"{self.context.heading(task)}\n\n"
            f"Counterfoil-Run: {self.context.run_id}\n"
            f"Counterfoil-Task: {task.id}\n"
            f"Counterfoil-Attempt: {attempt.id}"
        )
        workspace = self.context.workspace
        return await self.patience.insist(
            lambda: in_thread(workspace.merge, head, attempt.candidate, message)
        )

    async def take(
        self, task: Task, attempt: AttemptRow, merged: Merged, head: str, ordinal: int
    ) -> Taken | Elsewhere:
        """Move the run branch from ``head`` to the merged candidate; the caller has the turn."""
        began = self.context.ledger.clock.monotonic()
        intent = await self._intend(task, attempt, merged, head, ordinal)
        self.context.boundary("intent")
        moved = await self._move(intent)
        self.context.boundary("ref_moved")
        elapsed = int((self.context.ledger.clock.monotonic() - began) * 1000)
        if not moved:
            return Elsewhere(await self.give_up(intent, elapsed))
        return Taken(await self.settle(intent, attempt.candidate, elapsed))

    async def resume(self, intent: AttemptRow, candidate: str) -> Taken | Elsewhere:
        """Finish a merge that a crash cut short."""
        head = await self.head()
        if head == intent.base:
            await self._move(intent)
            head = await self.head()
        if head == intent.candidate:
            return Taken(await self.settle(intent, candidate, None))
        return Elsewhere(await self.give_up(intent, None))

    async def _intend(
        self, task: Task, attempt: AttemptRow, merged: Merged, head: str, ordinal: int
    ) -> AttemptRow:
        scope, driver = self.context.ledger.scope, self.context.driver

        def unit_of_work(unit: Unit) -> AttemptRow | Refusal:
            leased = self._lease(unit, task, attempt, merged.commit, head, ordinal)
            if isinstance(leased, Refusal):
                return leased
            started = attempts.start(unit, scope, driver, leased)
            if isinstance(started, Refusal):
                return started
            payload = {
                "ref": self.context.run_branch,
                "old": head,
                "new": merged.commit,
                "tree": merged.tree,
            }
            told = attempts.tell(unit, scope, driver, started, events.MERGE_INTENT, payload)
            return told if isinstance(told, Refusal) else started

        return await self.patience.perform(unit_of_work)

    def _lease(
        self, unit: Unit, task: Task, attempt: AttemptRow, new: str, head: str, ordinal: int
    ) -> AttemptRow | Refusal:
        identity = create_attempt_context(
            self.context.run_id, task.id, Phase.MERGE, ordinal, lambda: unit.ids.new(ATTEMPT)
        )
        lease = Lease(
            attempt_id=identity.attempt_id,
            task_id=task.id,
            phase=Phase.MERGE,
            ordinal=ordinal,
            agent=MERGE_AGENT,
            base=head,
            candidate=new,
            folder=attempt.folder,
            worktree=attempt.worktree,
        )
        return attempts.lease(unit, self.context.ledger.scope, self.context.driver, lease)

    async def _move(self, intent: AttemptRow) -> bool:
        workspace, ref = self.context.workspace, self.context.run_branch
        return await self.patience.insist(
            lambda: in_thread(workspace.move_ref, ref, intent.candidate, intent.base)
        )

    async def settle(
        self, intent: AttemptRow, candidate: str, elapsed_ms: int | None
    ) -> AttemptRow:
        """The ref stands at the candidate: the task is merged."""
        scope, driver = self.context.ledger.scope, self.context.driver
        payload = {"ref": self.context.run_branch, "new": intent.candidate}
        end = End(
            outcome=AttemptOutcome.SUCCEEDED,
            end_cause=EndCause.FINISHED,
            duration_ms=elapsed_ms,
            duration_reason="the runner died while it merged",
            payloads=((events.MERGE_DONE, payload),),
        )

        def unit_of_work(unit: Unit) -> AttemptRow | Refusal:
            ended = attempts.end(unit, scope, driver, intent, end)
            if isinstance(ended, Refusal):
                return ended
            moved = tasks.move(
                unit,
                scope,
                driver,
                intent.task_id,
                TaskStatus.RUNNING,
                TaskStatus.MERGED,
                accepted=True,
                candidate=candidate,
                merged_commit=intent.candidate,
            )
            return moved if isinstance(moved, Refusal) else ended

        return await self.patience.perform(unit_of_work)

    async def give_up(self, intent: AttemptRow, elapsed_ms: int | None) -> AttemptRow:
        """The ref is elsewhere: this merge is over, the candidate is merged anew."""
        ledger, driver = self.context.ledger, self.context.driver
        end = End(
            outcome=AttemptOutcome.FAILED,
            end_cause="ref_moved",
            message="somebody else moved the run branch; the candidate is merged anew",
            duration_ms=elapsed_ms,
            duration_reason="the runner died while it merged",
        )
        return await self.patience.perform(
            lambda unit: attempts.end(unit, ledger.scope, driver, intent, end)
        )

    async def conflict(
        self,
        task: Task,
        attempt: AttemptRow,
        found: MergeConflict,
        head: str,
        ordinal: int,
        reason: str,
    ) -> AttemptRow:
        """Record a conflict and end the task with it; its work stays pinned and in its worktree."""
        scope, driver = self.context.ledger.scope, self.context.driver
        payload = {"paths": list(found.paths), "ours": head, "theirs": attempt.candidate}
        end = End(
            outcome=AttemptOutcome.FAILED,
            end_cause=EndCause.CONFLICT,
            message=reason,
            duration_ms=0,
            payloads=((events.MERGE_CONFLICT, payload),),
        )

        def unit_of_work(unit: Unit) -> AttemptRow | Refusal:
            leased = self._lease(unit, task, attempt, attempt.candidate, head, ordinal)
            if isinstance(leased, Refusal):
                return leased
            ended = attempts.end(unit, scope, driver, leased, end)
            if isinstance(ended, Refusal):
                return ended
            moved = tasks.move(
                unit,
                scope,
                driver,
                task.id,
                TaskStatus.RUNNING,
                TaskStatus.CONFLICT,
                reason=reason,
                candidate=attempt.candidate,
            )
            return moved if isinstance(moved, Refusal) else ended

        return await self.patience.perform(unit_of_work)
