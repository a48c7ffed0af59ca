"""The driver of one run: says what starts, keeps the run's own state, ends it.

One driver per run; every unit it hands in carries the run's fence, so a driver that was taken
over is refused and leaves.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.abc

from counterfoil.core import codec
from counterfoil.core.errors import GitFailed, StaleFence
from counterfoil.ledger import attempts, events, gates, journal, runs, tasks
from counterfoil.ledger.hashing import sha256_text
from counterfoil.ledger.states import ExecutionStatus, Phase, TaskStatus
from counterfoil.ledger.tasks import NewTask
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import AttemptRow, Refusal, RunRow, TaskRow
from counterfoil.plans.checkout import CheckoutWatch
from counterfoil.plans.context import RunContext
from counterfoil.plans.control import Control, Stop
from counterfoil.plans.folders import gate_folders, remove_all_raw_output
from counterfoil.plans.gate_runs import GATE_FENCE, GateKeeper
from counterfoil.plans.implementing import Implementer
from counterfoil.plans.merging import MergeQueue
from counterfoil.plans.model import Task
from counterfoil.plans.patience import Patience, in_thread
from counterfoil.plans.pipeline import Park, Pipeline, Trail
from counterfoil.plans.preparing import Preparer
from counterfoil.plans.readiness import Board, TaskState, outcome
from counterfoil.plans.settling import Settler
from counterfoil.plans.watch import Watch, quell

T = TypeVar("T")
PAGE = 200


def in_pages(items: Sequence[T], size: int = PAGE) -> Iterator[Sequence[T]]:
    """Pages of a sequence, so that no unit holds the writer for long."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@dataclass(slots=True)
class PlanDriver:
    """Drives one run of a plan in this process."""

    context: RunContext
    control: Control
    concurrency: int
    patience: Patience = field(init=False)
    pipeline: Pipeline = field(init=False)
    _queue: MergeQueue = field(init=False)
    _parked: Park | None = field(init=False, default=None)
    _changed: anyio.Event = field(init=False, default_factory=anyio.Event)
    _at_work: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)
    _trails: dict[str, Trail] = field(init=False, default_factory=dict)
    _checkout: CheckoutWatch = field(init=False)

    def __post_init__(self) -> None:
        context, control = self.context, self.control
        self.patience = Patience(
            context.ledger,
            context.driver,
            context.notice,
            leaving=lambda: control.stopping is not None,
            going_on=lambda: self._changed.set(),
        )
        clock, linger = context.ledger.clock, context.limits.linger
        watch = Watch(context.executor, control, clock, linger, self.patience)
        self._checkout = CheckoutWatch(context, self.patience, control)
        preparer = Preparer(context, self.patience, watch)
        implementer = Implementer(context, self.patience, control, watch, preparer)
        self._queue = MergeQueue(context, self.patience)
        self.pipeline = Pipeline(
            context=context,
            patience=self.patience,
            control=control,
            implementer=implementer,
            settler=Settler(context, self.patience, implementer, self._queue),
            gatekeeper=GateKeeper(context, self.patience, control, watch),
            queue=self._queue,
            park=self._park,
            parked=lambda: self._parked is not None,
        )

    async def drive(self) -> None:
        """Drive the run until nothing can move, or somebody stops it.

        Raises ``StaleFence`` when another driver has taken the run.
        """
        run = await self._begin()
        board = Board(self.context.plan.tasks, self._states())
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._obey, group.cancel_scope)
                await self._dispatch(board, group)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as failed:
            raise _first(failed) from None
        if self.control.stopping is not Stop.LEAVE:
            await self._end(run, board)

    def _park(self, why: Park) -> None:
        if self._parked is None:
            self._parked = why
            self.context.notice(f"parked ({why.cause}): {why.message}")

    async def _obey(self, scope: anyio.CancelScope) -> None:
        """Do what the operator asks: end everything, or leave it to its keepers."""
        how = await self.control.wait_stopped()
        if how is Stop.LEAVE:
            scope.cancel()
        else:
            while True:
                await self.control.end_all(how)
                self._changed.set()
                await anyio.sleep(0.2)

    async def _begin(self) -> RunRow:
        """The run is running, and all its tasks have rows."""
        ledger, driver = self.context.ledger, self.context.driver
        run, rows = await ledger.ask(
            lambda connection: (
                runs.get(connection, ledger.scope, driver.run_id),
                tasks.of_run(connection, ledger.scope, driver.run_id),
            )
        )
        assert run is not None
        if run.status == ExecutionStatus.QUEUED:
            run = await self._move_run(run.status, ExecutionStatus.PREPARING)
        await self._add_missing(rows)
        if run.status != ExecutionStatus.RUNNING:
            run = await self._move_run(run.status, ExecutionStatus.RUNNING)
        await self._load_trails()
        return run

    async def _move_run(
        self,
        source: str,
        target: ExecutionStatus,
        *,
        cause: str = "",
        message: str = "",
        resets_at: int | None = None,
        result: object = None,
    ) -> RunRow:
        ledger, driver = self.context.ledger, self.context.driver
        prepared = ledger.prepare(result) if result is not None else None
        return await self.patience.perform(
            lambda unit: runs.move(
                unit,
                ledger.scope,
                driver,
                source,
                target,
                cause=cause,
                message=message,
                resets_at=resets_at,
                result=prepared,
            )
        )

    async def _add_missing(self, rows: Sequence[TaskRow]) -> None:
        ledger, driver = self.context.ledger, self.context.driver
        known = {row.task_id for row in rows}
        missing = [
            NewTask(
                task_id=task.id,
                position=position,
                title=task.title,
                spec_sha256=sha256_text(codec.encode(dict(task.raw))),
                depends_on=task.depends_on,
            )
            for position, task in enumerate(self.context.plan.tasks)
            if task.id not in known
        ]
        for page in in_pages(missing):
            add = partial(tasks.add, scope=ledger.scope, driver=driver, tasks=page)
            await self.patience.perform(add)

    async def _load_trails(self) -> None:
        ledger, run_id = self.context.ledger, self.context.run_id
        found, tried, judged = await ledger.ask(
            lambda connection: (
                tasks.of_run(connection, ledger.scope, run_id),
                attempts.of_run(connection, ledger.scope, run_id),
                gates.of_run(connection, ledger.scope, run_id),
            )
        )
        self._trails = {row.task_id: Trail(row.status, bool(row.accepted)) for row in found}
        for attempt in tried:
            self._trails[attempt.task_id].attempts.append(attempt)
        await self._checkout.begin(attempt for attempt in tried if attempt.ended_at is not None)
        for gate in judged:
            self._trails[gate.task_id].gates.append(gate)

    def _states(self) -> list[TaskState]:
        return [
            TaskState(task_id, TaskStatus(trail.status), trail.accepted)
            for task_id, trail in self._trails.items()
        ]

    async def _dispatch(self, board: Board, group: anyio.abc.TaskGroup) -> None:
        """Start what may start, until nothing is at work and nothing can."""
        by_id = {task.id: task for task in self.context.plan.tasks}
        left_open = [
            one for one, trail in self._trails.items() if trail.status == TaskStatus.RUNNING
        ]
        for task_id in left_open:
            await self._clear_gates(self._trails[task_id])
        await self._clear_checkouts()
        for task_id in left_open:
            self._start(board, by_id[task_id], group)
        while True:
            await self._record_moves(board)
            if not self._stopped() and not self.patience.stalled:
                free = self.concurrency - len(self._at_work)
                for task_id in board.pick(self._at_work, free):
                    self._start(board, by_id[task_id], group)
            if not self._at_work:
                return
            await self._changed.wait()
            self._changed = anyio.Event()

    def _stopped(self) -> bool:
        return self._parked is not None or self.control.stopping is not None

    def _start(self, board: Board, task: Task, group: anyio.abc.TaskGroup) -> None:
        self._at_work[task.id] = task.files
        board.update(TaskState(task.id, TaskStatus.RUNNING))
        group.start_soon(self._carry, board, task)

    async def _carry(self, board: Board, task: Task) -> None:
        trail = self._trails[task.id]
        try:
            await self.pipeline.carry(task, trail)
        except StaleFence:
            raise
        except Exception as error:  # one task's trouble parks the run, it does not lose the rest
            park = Park.internal(task.id, error)
            await self._diagnose(park.message, "pipeline", task.id)
            self._park(park)
        state = await self._state_of(task.id)
        trail.status, trail.accepted = state.status, state.accepted
        board.update(state)
        await self._checkout.look(self._tried())
        self._at_work.pop(task.id)
        self._changed.set()

    async def _state_of(self, task_id: str) -> TaskState:
        ledger, run_id = self.context.ledger, self.context.run_id
        row = await self.patience.insist(
            lambda: ledger.ask(
                lambda connection: tasks.get(connection, ledger.scope, run_id, task_id)
            )
        )
        assert row is not None
        return TaskState(task_id, TaskStatus(row.status), bool(row.accepted))

    async def _record_moves(self, board: Board) -> None:
        """Write the moves that follow from what ended: ready, blocked, waiting again."""
        ledger, driver = self.context.ledger, self.context.driver
        for page in in_pages(board.settle()):
            told = []
            for task_id, target in page:
                wait = board.wait(task_id, {}) if target is TaskStatus.BLOCKED else None
                trail = self._trails[task_id]
                told.append((task_id, trail.status, target, wait.text if wait else ""))
                trail.status = target

            def unit_of_work(
                unit: Unit, told: Sequence[tuple[str, str, TaskStatus, str]] = tuple(told)
            ) -> Refusal | None:
                for task_id, source, target, reason in told:
                    moved = tasks.move(
                        unit, ledger.scope, driver, task_id, source, target, reason=reason
                    )
                    if isinstance(moved, Refusal):
                        return moved
                return None

            await self.patience.perform(unit_of_work)

    async def _clear_gates(self, trail: Trail) -> None:
        """End gate commands that a runner before left running; they run again."""
        judged = [one for one in trail.attempts if one.phase == Phase.IMPLEMENT and one.ended_at]
        if not judged:
            return
        executor, folder = self.context.executor, Path(judged[-1].folder)
        for place in gate_folders(folder):
            if executor.record(place) is None:
                await quell(executor, place, GATE_FENCE + 1)
        await self.pipeline.implementer.sweep(judged[-1])
        await in_thread(remove_all_raw_output, folder)

    async def _clear_checkouts(self) -> None:
        """Remove the checkouts of gates that a runner before did not come to remove."""
        for path in self.context.folder.checkouts():
            await in_thread(self.context.workspace.remove_worktree, path)

    def _tried(self) -> Iterator[AttemptRow]:
        """The attempts of the tasks that are at work."""
        for task_id in self._at_work:
            yield from self._trails[task_id].attempts

    async def _diagnose(self, message: str, where: str, task_id: str) -> None:
        payload = {"message": message, "where": where, "task": task_id}
        await self._tell(events.RUN_DIAGNOSTIC, payload)

    async def _tell(self, kind: events.EventKind, payload: Mapping[str, object]) -> None:
        ledger, driver = self.context.ledger, self.context.driver
        await self.patience.perform(
            lambda unit: journal.append(
                unit, ledger.scope, driver.run_id, kind, payload, fence=driver.fence
            )
        )

    async def _end(self, run: RunRow, board: Board) -> None:
        """Give the run the state that its tasks have come to."""
        try:
            head = await self._queue.head()
        except GitFailed:
            head = None
        states = [board.state(task.id) for task in self.context.plan.tasks]
        counts = Counter(str(state.status) for state in states)
        result = {
            "branch": self.context.run_branch,
            "head": head,
            "tasks": dict(counts),
        }
        outlook = outcome(states)
        if outlook.ends_as is not None:
            await self._move_run(
                run.status,
                outlook.ends_as,
                cause="finished",
                message=_sentence(counts),
                result=result,
            )
        elif self._parked is not None:
            parked = self._parked
            await self._move_run(
                run.status,
                ExecutionStatus.PAUSED,
                cause=parked.cause,
                message=parked.message,
                resets_at=parked.resets_at,
            )
        else:
            cause = str(self.control.stopping or "held")
            await self._move_run(
                run.status, ExecutionStatus.PAUSED, cause=cause, message=_sentence(counts)
            )


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to tell of those that a task group collected: that of the fence, if any."""
    found = (group.subgroup(StaleFence) or group).exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _sentence(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    parts = ", ".join(
        f"{count} {status.replace('_', ' ')}" for status, count in sorted(counts.items())
    )
    return f"{total} {'task' if total == 1 else 'tasks'}: {parts}"
