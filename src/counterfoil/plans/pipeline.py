"""One task on its way: attempt after attempt, gates, the merge queue, to its end.

What comes next is asked of ``course.next_move`` each time; this room only does it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from counterfoil.core import codec
from counterfoil.core.errors import CounterfoilError, GitFailed
from counterfoil.ledger import tasks
from counterfoil.ledger.states import AttemptOutcome, Phase, TaskStatus
from counterfoil.ledger.values import AttemptRow, GateRow
from counterfoil.plans.context import RunContext
from counterfoil.plans.control import Control
from counterfoil.plans.course import (
    EndTask,
    Finish,
    GateAndMerge,
    Implement,
    newest_work,
    next_move,
)
from counterfoil.plans.gate_runs import GateKeeper, Judgement
from counterfoil.plans.implementing import Implementer
from counterfoil.plans.merging import Elsewhere, MergeQueue
from counterfoil.plans.model import Task
from counterfoil.plans.patience import Patience, in_thread
from counterfoil.plans.settling import Settler
from counterfoil.ports.agent import ErrorClass
from counterfoil.ports.workspace import MergeConflict, Merged


@dataclass(frozen=True, slots=True)
class Park:
    """Why the whole run stops dispatching: trouble of its surroundings."""

    cause: str
    message: str
    resets_at: int | None = None

    @classmethod
    def internal(cls, task_id: str, error: Exception) -> "Park":
        """An error that no other road took up: the run waits for somebody to look at it."""
        told = repr(error)
        if isinstance(error, CounterfoilError):
            told = f"{error.message}; {error.hint}" if error.hint else error.message
        return cls("internal", f"{task_id}: {told}")


class Way(StrEnum):
    """How a task left its pipeline."""

    ENDED = "ended"
    GIVEN_BACK = "given_back"


@dataclass(slots=True)
class Trail:
    """A task's attempts and gate results, oldest first, as they are in the ledger."""

    status: str
    accepted: bool = False
    attempts: list[AttemptRow] = field(default_factory=list)
    gates: list[GateRow] = field(default_factory=list)

    def ended(self, attempt: AttemptRow) -> None:
        """Put an attempt's newest row in its place."""
        self.attempts = [known for known in self.attempts if known.id != attempt.id]
        self.attempts.append(attempt)

    def next_merge(self) -> int:
        return 1 + sum(attempt.phase == Phase.MERGE for attempt in self.attempts)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Carries tasks of one run."""

    context: RunContext
    patience: Patience
    control: Control
    implementer: Implementer
    settler: Settler
    gatekeeper: GateKeeper
    queue: MergeQueue
    park: Callable[[Park], None]
    parked: Callable[[], bool]

    async def carry(self, task: Task, trail: Trail) -> Way:
        """Carry a task to its end, or give it back when the run stops."""
        while True:
            move = next_move(task, trail.attempts, trail.gates)
            if isinstance(move, Finish):
                ended = await self.settler.finish(task, move.attempt, trail.attempts)
                trail.ended(ended)
                if ended.phase == Phase.MERGE and ended.outcome == AttemptOutcome.SUCCEEDED:
                    await self.clear(task)
                    return Way.ENDED
                self._look_around(ended)
            elif isinstance(move, EndTask):
                await self._take_up(task, trail)
                await self._end(task, trail, move)
                return Way.ENDED
            elif self._stopped():
                return await self._give_back(task, trail)
            elif isinstance(move, Implement):
                ended = await self.implementer.attempt(task, move, trail.status)
                trail.status = TaskStatus.RUNNING
                trail.ended(ended)
                self._look_around(ended)
            else:
                await self._take_up(task, trail)
                way = await self._gate_and_merge(task, trail, move)
                if way is not None:
                    return way

    def _stopped(self) -> bool:
        return self.control.stopping is not None or self.parked()

    def _look_around(self, ended: AttemptRow) -> None:
        """Park the run when it was its surroundings that failed."""
        if ended.outcome != AttemptOutcome.FAILED or not ended.error_class:
            return
        if ErrorClass(ended.error_class).of_surroundings:
            resets_at = _resets_at(ended)
            message = ended.message
            if resets_at is not None:
                message = f"{message}; it resets at {_utc(resets_at)}"
            self.park(Park(ended.error_class, message, resets_at))

    async def _gate_and_merge(self, task: Task, trail: Trail, move: GateAndMerge) -> Way | None:
        """One round of gates and the queue; None: ask again what comes next."""
        attempt = move.attempt
        head = await self.queue.head()
        merged = await self.queue.candidate(task, attempt, head)
        judged = await self._judge(task, trail, attempt, merged)
        if judged is not None and not judged.passed:
            return None
        async with self.queue.turn:
            if self._stopped():
                return await self._give_back(task, trail)
            now = await self.queue.head()
            if now != head:
                merged = await self.queue.candidate(task, attempt, now)
                judged = await self._judge(task, trail, attempt, merged)
                if judged is not None and not judged.passed:
                    return None
            return await self._take(task, trail, attempt, merged, now)

    async def _judge(
        self, task: Task, trail: Trail, attempt: AttemptRow, merged: Merged | MergeConflict
    ) -> Judgement | None:
        if isinstance(merged, MergeConflict):
            return None
        judged = await self.gatekeeper.judge(task, attempt, merged)
        trail.gates.extend(judged.rows)
        return judged

    async def _take(
        self,
        task: Task,
        trail: Trail,
        attempt: AttemptRow,
        merged: Merged | MergeConflict,
        head: str,
    ) -> Way | None:
        ordinal = trail.next_merge()
        if isinstance(merged, MergeConflict):
            reason = _conflict_reason(merged)
            await self.queue.conflict(task, attempt, merged, head, ordinal, reason)
            return Way.ENDED
        occupied = await in_thread(self.context.workspace.checked_out_at, self.context.run_branch)
        if occupied is not None:
            message = f"the run branch is checked out at {occupied}: switch it to another branch"
            self.park(Park("branch_checked_out", message))
            return await self._give_back(task, trail)
        result = await self.queue.take(task, attempt, merged, head, ordinal)
        trail.ended(result.attempt)
        if isinstance(result, Elsewhere):
            return None
        await self.clear(task)
        return Way.ENDED

    async def clear(self, task: Task) -> None:
        """Remove the worktree of a task whose work is on the run branch or was none."""
        worktree = self.context.folder.worktree(task.id)
        if worktree.is_dir():
            try:
                await in_thread(self.context.workspace.remove_worktree, worktree)
            except GitFailed as error:
                self.context.notice(f"the worktree of {task.id} stays: {error.message}")

    async def _end(self, task: Task, trail: Trail, move: EndTask) -> None:
        ledger, driver = self.context.ledger, self.context.driver
        candidate = newest_work(trail.attempts) or None
        await self.patience.perform(
            lambda unit: tasks.move(
                unit,
                ledger.scope,
                driver,
                task.id,
                trail.status,
                move.status,
                reason=move.reason,
                accepted=move.accepted,
                candidate=candidate,
            )
        )
        if move.status is TaskStatus.NO_CHANGE and move.accepted:
            await self.clear(task)

    async def _take_up(self, task: Task, trail: Trail) -> None:
        """Go on with a task that was given back after its attempt had ended."""
        if trail.status != TaskStatus.READY:
            return
        ledger, driver = self.context.ledger, self.context.driver
        await self.patience.perform(
            lambda unit: tasks.move(
                unit, ledger.scope, driver, task.id, TaskStatus.READY, TaskStatus.RUNNING
            )
        )
        trail.status = TaskStatus.RUNNING

    async def _give_back(self, task: Task, trail: Trail) -> Way:
        """Leave the task ready: its work so far is recorded, the rest is for later."""
        if trail.status == TaskStatus.RUNNING:
            ledger, driver = self.context.ledger, self.context.driver
            await self.patience.perform(
                lambda unit: tasks.move(
                    unit,
                    ledger.scope,
                    driver,
                    task.id,
                    TaskStatus.RUNNING,
                    TaskStatus.READY,
                    reason="the run stopped before it was through",
                )
            )
            trail.status = TaskStatus.READY
        return Way.GIVEN_BACK


def _conflict_reason(found: MergeConflict) -> str:
    shown = ", ".join(found.paths[:3])
    more = f" and {len(found.paths) - 3} more" if len(found.paths) > 3 else ""
    return f"its change and the run branch's meet in {shown}{more}"


def _utc(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _resets_at(attempt: AttemptRow) -> int | None:
    if not attempt.report_json:
        return None
    value = codec.decode(attempt.report_json).get("resets_at")
    return value if isinstance(value, int) else None
