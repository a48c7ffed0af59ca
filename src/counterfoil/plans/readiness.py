"""The scheduling judgement: what is ready, what can no longer be, what starts now, who waits.

It takes values and gives values; the runner moves the rows. ``judge`` reads everything anew,
a ``Board`` keeps count between the ends of tasks; both say the same.
"""

import heapq
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from counterfoil.ledger.states import ExecutionStatus, TaskStatus
from counterfoil.plans.claims import claims_overlap
from counterfoil.plans.graph import dependents
from counterfoil.plans.model import Task

Claims = Mapping[str, Sequence[str]]
"""What each task that is at work has claimed, by task id."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """Where a task stands; ``accepted`` tells whether its lack of a change was accepted."""

    task_id: str
    status: TaskStatus
    accepted: bool = False


class Promise(StrEnum):
    """What a task's state means to the tasks that depend on it."""

    KEPT = "kept"
    OPEN = "open"
    BROKEN = "broken"


def promise(state: TaskState) -> Promise:
    """Kept: dependents may go on. Broken: they cannot, unless it is tried again."""
    match state.status:
        case TaskStatus.MERGED | TaskStatus.IMPORTED_DONE:
            return Promise.KEPT
        case TaskStatus.NO_CHANGE:
            return Promise.KEPT if state.accepted else Promise.BROKEN
        case TaskStatus.FAILED | TaskStatus.CONFLICT | TaskStatus.CANCELED | TaskStatus.BLOCKED:
            return Promise.BROKEN
        case (
            TaskStatus.WAITING
            | TaskStatus.READY
            | TaskStatus.RUNNING
            | TaskStatus.PAUSED
            | TaskStatus.WAITING_DECISION
        ):
            return Promise.OPEN
        case _ as never:
            assert_never(never)


def satisfied(state: TaskState) -> bool:
    """True when a dependent may start: merged, accepted without a change, or imported done."""
    return promise(state) is Promise.KEPT


class WaitKind(StrEnum):
    """Why an open task is not at work."""

    AT_WORK = "at_work"
    TASK = "task"
    BLOCKER = "blocker"
    CLAIMS = "claims"
    SLOT = "slot"
    RUN = "run"
    STARTS = "starts"
    PERSON = "person"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Wait:
    """One sentence on why a task is not at work, and the tasks that it is about."""

    kind: WaitKind
    text: str
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the states imply now.

    ``ready`` and ``start`` are in the order in which tasks would start. ``blocked`` are all
    that can't come to be ready, in plan order. ``moves`` turn the present states into these,
    in an order that the table of moves allows. ``waits`` has every task that has not ended.
    """

    ready: tuple[str, ...]
    blocked: tuple[str, ...]
    start: tuple[str, ...]
    moves: tuple[tuple[str, TaskStatus], ...]
    waits: Mapping[str, Wait]


def judge(
    tasks: Sequence[Task],
    states: Iterable[TaskState],
    running_claims: Claims,
    slots: int,
    parked: str = "",
) -> Judgement:
    """Judge a plan from nothing but its states.

    ``slots`` are the free ones. ``parked`` is the reason why nothing of the run may start now
    (paused, a budget, a provider's reset at 14:05); empty when it may. A task without a state
    is waiting.
    """
    board = Board(tasks, states)
    moves = board.settle()
    start = () if parked else board.pick(running_claims, slots)
    return Judgement(
        ready=board.ready(),
        blocked=board.blocked(),
        start=start,
        moves=moves,
        waits=board.waits(running_claims, start, parked),
    )


@dataclass(slots=True)
class _Place:
    """One task on the board: how many of its dependencies are still open, or broken."""

    task: Task
    number: int
    state: TaskState
    dependents: tuple[str, ...]
    open: int = 0
    broken: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        return (-self.task.priority, self.number)


@dataclass(slots=True)
class Board:
    """The states of a plan's tasks, kept so that one change costs only what it touches.

    Give it every change with ``update``; ``settle`` then returns the moves that follow, and
    counts them as made.
    """

    tasks: Sequence[Task]
    states: Iterable[TaskState] = ()
    _places: dict[str, _Place] = field(init=False)
    _ready: list[tuple[int, int, str]] = field(init=False, default_factory=list)
    _touched: dict[str, None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        given = {state.task_id: state for state in self.states}
        waiting = dependents(self.tasks)
        self._places = {}
        for number, task in enumerate(self.tasks):
            state = given.get(task.id) or TaskState(task.id, TaskStatus.WAITING)
            self._places[task.id] = _Place(task, number, state, waiting[task.id])
        for place in self._places.values():
            for task_id in place.dependents:
                self._count(self._places[task_id], promise(place.state), 1)
            self._touch(place)

    def state(self, task_id: str) -> TaskState:
        """Raises ``KeyError`` for an unknown task."""
        return self._places[task_id].state

    def update(self, state: TaskState) -> None:
        """Take over a change that was made. Raises ``KeyError`` for an unknown task."""
        place = self._places[state.task_id]
        before, now = promise(place.state), promise(state)
        place.state = state
        self._touch(place)
        if before is now:
            return
        for task_id in place.dependents:
            dependent = self._places[task_id]
            self._count(dependent, before, -1)
            self._count(dependent, now, 1)
            self._touch(dependent)

    def settle(self) -> tuple[tuple[str, TaskStatus], ...]:
        """The moves to ready, blocked and back to waiting that follow from what changed."""
        moves: list[tuple[str, TaskStatus]] = []
        while self._touched:
            task_id = next(iter(self._touched))
            del self._touched[task_id]
            place = self._places[task_id]
            target = _due(place)
            if target is not None:
                moves.append((task_id, target))
                self.update(TaskState(task_id, target, place.state.accepted))
        return tuple(moves)

    def ready(self) -> tuple[str, ...]:
        """All ready tasks: higher priority first, then plan order."""
        return tuple(place.task.id for place in self._in_order())

    def blocked(self) -> tuple[str, ...]:
        """All blocked tasks in plan order."""
        return tuple(
            task_id
            for task_id, place in self._places.items()
            if place.state.status is TaskStatus.BLOCKED
        )

    def pick(self, running_claims: Claims, slots: int) -> tuple[str, ...]:
        """The ready tasks to start now: at most ``slots``, no two claims overlapping."""
        chosen: list[str] = []
        taken = [tuple(claims) for claims in running_claims.values() if claims]
        refused: set[tuple[str, ...]] = set()
        with closing(self._in_order()) as places:
            while len(chosen) < slots and (place := next(places, None)) is not None:
                files = place.task.files
                if place.task.id in running_claims or files in refused:
                    continue
                if any(claims_overlap(files, claims) for claims in taken):
                    refused.add(files)
                    continue
                chosen.append(place.task.id)
                if files:
                    taken.append(files)
        return tuple(chosen)

    def wait(
        self, task_id: str, running_claims: Claims, start: Sequence[str] = (), parked: str = ""
    ) -> Wait | None:
        """Why a task is not at work; None when it has ended. ``start``: those just picked."""
        at_work = {**running_claims, **{one: self._places[one].task.files for one in start}}
        return self._wait(self._places[task_id], at_work, frozenset(start), parked)

    def waits(
        self, running_claims: Claims, start: Sequence[str] = (), parked: str = ""
    ) -> Mapping[str, Wait]:
        """``wait`` of every task that has not ended, in plan order."""
        at_work = {**running_claims, **{one: self._places[one].task.files for one in start}}
        picked = frozenset(start)
        found = {
            task_id: self._wait(place, at_work, picked, parked)
            for task_id, place in self._places.items()
        }
        return {task_id: wait for task_id, wait in found.items() if wait is not None}

    def _wait(
        self, place: _Place, at_work: Claims, picked: frozenset[str], parked: str
    ) -> Wait | None:
        match place.state.status:
            case TaskStatus.RUNNING:
                return Wait(WaitKind.AT_WORK, "is at work")
            case TaskStatus.PAUSED:
                return Wait(WaitKind.HOLD, "is held until somebody resumes it")
            case TaskStatus.WAITING_DECISION:
                return Wait(WaitKind.PERSON, "waits for somebody to answer its decision")
            case TaskStatus.WAITING | TaskStatus.READY if place.open:
                return _names(WaitKind.TASK, "waits for", self._dependencies(place, Promise.OPEN))
            case TaskStatus.BLOCKED:
                broken = self._dependencies(place, Promise.BROKEN)
                return _names(WaitKind.BLOCKER, "is blocked by", broken, self._places)
            case TaskStatus.WAITING | TaskStatus.READY:
                return self._ready_wait(place, at_work, picked, parked)
            case _:
                return None

    def _ready_wait(
        self, place: _Place, at_work: Claims, picked: frozenset[str], parked: str
    ) -> Wait:
        if place.task.id in picked:
            return Wait(WaitKind.STARTS, "starts now")
        if parked:
            return Wait(WaitKind.RUN, f"waits for the run: {parked}")
        rivals = tuple(
            task_id
            for task_id, claims in at_work.items()
            if task_id != place.task.id and claims_overlap(place.task.files, claims)
        )
        if rivals:
            return _names(WaitKind.CLAIMS, "claims files that are also claimed by", rivals)
        return Wait(WaitKind.SLOT, "waits for a free slot")

    def _dependencies(self, place: _Place, wanted: Promise) -> tuple[str, ...]:
        return tuple(
            task_id
            for task_id in place.task.depends_on
            if task_id in self._places and promise(self._places[task_id].state) is wanted
        )

    def _in_order(self) -> Generator[_Place, None, None]:
        """Ready tasks from the heap, which keeps those that left it until they come up."""
        kept: list[tuple[int, int, str]] = []
        try:
            while self._ready:
                entry = heapq.heappop(self._ready)
                place = self._places[entry[2]]
                if place.state.status is not TaskStatus.READY or entry in kept[-1:]:
                    continue
                kept.append(entry)
                if not place.open:
                    yield place
        finally:
            for entry in kept:
                heapq.heappush(self._ready, entry)

    def _touch(self, place: _Place) -> None:
        self._touched[place.task.id] = None
        if place.state.status is TaskStatus.READY:
            heapq.heappush(self._ready, (*place.rank, place.task.id))

    @staticmethod
    def _count(place: _Place, kind: Promise, step: int) -> None:
        if kind is Promise.OPEN:
            place.open += step
        elif kind is Promise.BROKEN:
            place.broken += step


def _due(place: _Place) -> TaskStatus | None:
    """The move that a task's dependencies ask for, one step at a time."""
    status = place.state.status
    if status in (TaskStatus.WAITING, TaskStatus.READY) and place.broken:
        return TaskStatus.BLOCKED
    if status is TaskStatus.WAITING and not place.open:
        return TaskStatus.READY
    if status is TaskStatus.BLOCKED and not place.broken:
        return TaskStatus.WAITING
    return None


def _names(
    kind: WaitKind,
    verb: str,
    task_ids: tuple[str, ...],
    places: Mapping[str, _Place] | None = None,
) -> Wait:
    words = [
        f"{task_id} ({places[task_id].state.status.replace('_', ' ')})" if places else task_id
        for task_id in task_ids[:3]
    ]
    more = f" and {len(task_ids) - 3:,} more" if len(task_ids) > 3 else ""
    return Wait(kind, f"{verb} {', '.join(words)}{more}", task_ids)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a run can still move.

    ``moving``: something is at work or could start. ``held``: the tasks that only a person
    can move on, in plan order. ``ends_as``: what the run has come to when neither is left.
    """

    moving: bool
    held: tuple[str, ...] = ()
    ends_as: ExecutionStatus | None = None


_FAILURES = frozenset({TaskStatus.FAILED, TaskStatus.CONFLICT, TaskStatus.NO_CHANGE})
_HELD = frozenset({TaskStatus.PAUSED, TaskStatus.WAITING_DECISION})
_GOING = frozenset({TaskStatus.READY, TaskStatus.RUNNING})


def outcome(states: Iterable[TaskState]) -> Outlook:
    """What is left to happen, from states whose moves were made.

    All satisfied ends succeeded; a failed, conflicting or not accepted task ends failed; else
    a canceled one ends canceled.
    """
    known = tuple(states)
    statuses = {state.status for state in known}
    held = tuple(state.task_id for state in known if state.status in _HELD)
    if statuses & _GOING or (TaskStatus.WAITING in statuses and not held):
        return Outlook(True, held)
    if held:
        return Outlook(False, held)
    broken = {state.status for state in known if promise(state) is Promise.BROKEN}
    if not broken:
        return Outlook(False, (), ExecutionStatus.SUCCEEDED)
    canceled = TaskStatus.CANCELED in broken and not broken & _FAILURES
    return Outlook(False, (), ExecutionStatus.CANCELED if canceled else ExecutionStatus.FAILED)
