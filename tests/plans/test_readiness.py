import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.ledger.states import TASK_MOVES, ExecutionStatus, TaskStatus
from counterfoil.plans.claims import claims_overlap
from counterfoil.plans.model import Task
from counterfoil.plans.readiness import (
    Board,
    Judgement,
    Outlook,
    TaskState,
    WaitKind,
    judge,
    outcome,
    satisfied,
)

S = TaskStatus


def task(task_id: str, *depends_on: str, files: tuple[str, ...] = (), priority: int = 0) -> Task:
    return Task(
        id=task_id,
        title=task_id,
        prompt="x",
        depends_on=depends_on,
        files=files,
        priority=priority,
    )


def states(**statuses: TaskStatus) -> list[TaskState]:
    return [TaskState(task_id, status) for task_id, status in statuses.items()]


def judged(
    tasks: list[Task],
    slots: int = 9,
    running: dict[str, tuple[str, ...]] | None = None,
    parked: str = "",
    **statuses: TaskStatus,
) -> Judgement:
    return judge(tasks, states(**statuses), running or {}, slots, parked)


@pytest.mark.parametrize(
    ("status", "accepted", "good"),
    [(status, False, status in (S.MERGED, S.IMPORTED_DONE)) for status in TaskStatus]
    + [(S.NO_CHANGE, True, True), (S.FAILED, True, False), (S.WAITING, True, False)],
)
def test_a_dependency_is_satisfied_by_work_that_counts(
    status: TaskStatus, accepted: bool, good: bool
):
    assert satisfied(TaskState("a", status, accepted)) is good


def test_a_task_is_ready_when_all_it_depends_on_is_satisfied():
    tasks = [task("a"), task("b"), task("c", "a", "b"), task("d", "a")]
    found = judged(tasks, a=S.MERGED, b=S.RUNNING, c=S.WAITING, d=S.WAITING)
    assert found.ready == ("d",)
    assert found.moves == (("d", S.READY),)
    assert found.waits["c"].text == "waits for b"
    assert found.waits["c"].tasks == ("b",)
    assert found.waits["b"].kind is WaitKind.AT_WORK
    assert "a" not in found.waits


def test_tasks_without_a_state_are_waiting():
    assert judge([task("a"), task("b", "a")], (), {}, 1).start == ("a",)


def test_higher_priority_starts_first_then_plan_order():
    tasks = [task("a"), task("b", priority=2), task("c"), task("d", priority=2)]
    found = judged(tasks, slots=3)
    assert found.ready == ("b", "d", "a", "c")
    assert found.start == ("b", "d", "a")
    assert found.waits["c"].text == "waits for a free slot"
    assert found.waits["b"].kind is WaitKind.STARTS


def test_tasks_whose_claims_overlap_never_start_side_by_side():
    tasks = [
        task("a", files=("src/**",)),
        task("b", files=("src/app.py",)),
        task("c", files=("docs/",)),
        task("d"),
    ]
    found = judged(tasks)
    assert found.start == ("a", "c", "d")
    assert found.waits["b"].kind is WaitKind.CLAIMS
    assert found.waits["b"].text == "claims files that are also claimed by a"


def test_claims_of_running_tasks_are_respected():
    tasks = [task("a", files=("src/",)), task("b", files=("src/x.py",)), task("c")]
    found = judged(tasks, running={"a": ("src/",)}, a=S.RUNNING)
    assert found.start == ("c",)
    assert found.waits["b"].tasks == ("a",)


def test_a_ready_task_that_is_at_work_already_is_not_started_again():
    assert judged([task("a")], running={"a": ()}, a=S.READY).start == ()


@pytest.mark.parametrize("slots", [0, -1])
def test_nothing_starts_without_a_slot(slots: int):
    found = judged([task("a")], slots=slots)
    assert found.start == ()
    assert found.waits["a"].kind is WaitKind.SLOT


def test_nothing_starts_in_a_parked_run_and_the_reason_is_told():
    found = judged([task("a")], parked="the provider's limit resets at 14:05")
    assert found.start == ()
    assert found.ready == ("a",)
    assert found.waits["a"].text == "waits for the run: the provider's limit resets at 14:05"


@pytest.mark.parametrize("end", [S.FAILED, S.CONFLICT, S.CANCELED, S.NO_CHANGE])
def test_all_that_depends_on_an_unsatisfied_end_is_blocked(end: TaskStatus):
    tasks = [task("a"), task("b", "a"), task("c", "b"), task("d", "c", "e"), task("e")]
    found = judged(tasks, a=end, e=S.MERGED)
    assert found.blocked == ("b", "c", "d")
    assert found.ready == ()
    assert found.moves == (("b", S.BLOCKED), ("c", S.BLOCKED), ("d", S.BLOCKED))
    assert found.waits["c"].text == "is blocked by b (blocked)"
    assert found.waits["b"].text == f"is blocked by a ({end.value.replace('_', ' ')})"


def test_a_retried_task_unblocks_all_that_it_blocked():
    tasks = [task("a"), task("b", "a"), task("c", "b")]
    board = Board(tasks, states(a=S.FAILED))
    assert board.settle() == (("b", S.BLOCKED), ("c", S.BLOCKED))
    board.update(TaskState("a", S.READY))
    assert board.settle() == (("b", S.WAITING), ("c", S.WAITING))
    board.update(TaskState("a", S.MERGED))
    assert board.settle() == (("b", S.READY),)


def test_a_task_whose_blocker_is_accepted_goes_on_by_way_of_waiting():
    board = Board([task("a"), task("b", "a")], states(a=S.NO_CHANGE, b=S.BLOCKED))
    assert board.settle() == ()
    board.update(TaskState("a", S.NO_CHANGE, accepted=True))
    assert board.settle() == (("b", S.WAITING), ("b", S.READY))


def test_held_and_asking_tasks_say_whom_they_wait_for():
    found = judged([task("a"), task("b")], a=S.PAUSED, b=S.WAITING_DECISION)
    assert found.waits["a"].kind is WaitKind.HOLD
    assert found.waits["b"].kind is WaitKind.PERSON


def test_a_long_list_of_reasons_is_shortened():
    tasks = [task(name) for name in "abcde"] + [task("z", *"abcde")]
    wait = judged(tasks, slots=0).waits["z"]
    assert wait.text == "waits for a, b, c and 2 more"
    assert wait.tasks == tuple("abcde")


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], Outlook(False, (), ExecutionStatus.SUCCEEDED)),
        ([S.MERGED, S.IMPORTED_DONE], Outlook(False, (), ExecutionStatus.SUCCEEDED)),
        ([S.MERGED, S.RUNNING], Outlook(True)),
        ([S.FAILED, S.READY], Outlook(True)),
        ([S.WAITING], Outlook(True)),
        ([S.PAUSED, S.WAITING], Outlook(False, ("t0",))),
        ([S.RUNNING, S.WAITING_DECISION], Outlook(True, ("t1",))),
        ([S.FAILED, S.WAITING_DECISION], Outlook(False, ("t1",))),
        ([S.MERGED, S.FAILED, S.BLOCKED], Outlook(False, (), ExecutionStatus.FAILED)),
        ([S.MERGED, S.CONFLICT], Outlook(False, (), ExecutionStatus.FAILED)),
        ([S.MERGED, S.NO_CHANGE], Outlook(False, (), ExecutionStatus.FAILED)),
        ([S.CANCELED, S.FAILED], Outlook(False, (), ExecutionStatus.FAILED)),
        ([S.MERGED, S.CANCELED, S.BLOCKED], Outlook(False, (), ExecutionStatus.CANCELED)),
    ],
)
def test_a_run_ends_when_nothing_is_left_that_can_move(
    statuses: list[TaskStatus], expected: Outlook
):
    given_states = [TaskState(f"t{n}", status) for n, status in enumerate(statuses)]
    assert outcome(given_states) == expected


def test_an_accepted_lack_of_change_is_a_success():
    assert outcome([TaskState("a", S.NO_CHANGE, accepted=True)]).ends_as is (
        ExecutionStatus.SUCCEEDED
    )


def test_ten_thousand_tasks_are_driven_to_their_end_in_a_moment():
    tasks = [
        task(f"t{n}", *([f"t{n - 7}"] if n >= 7 else []), files=(f"src/{n % 40}/",))
        for n in range(10_000)
    ]
    board = Board(tasks)
    begun = time.process_time()
    running: dict[str, tuple[str, ...]] = {}
    merged = 0
    board.settle()
    while True:
        for task_id in board.pick(running, 16 - len(running)):
            running[task_id] = tasks[int(task_id[1:])].files
            board.update(TaskState(task_id, S.RUNNING))
        if not running:
            break
        done = next(iter(running))
        del running[done]
        board.update(TaskState(done, S.MERGED))
        board.settle()
        merged += 1
    assert merged == 10_000
    assert time.process_time() - begun < 20


FILES = st.lists(st.sampled_from(["a", "b/", "**", "b/c.py", "d*"]), max_size=2).map(tuple)
STATES = st.tuples(st.sampled_from(list(TaskStatus)), st.booleans())


@st.composite
def plans(draw: st.DrawFn) -> list[Task]:
    count = draw(st.integers(1, 8))
    return [
        task(
            f"t{n}",
            *draw(st.lists(st.sampled_from([f"t{m}" for m in range(n)]), max_size=3, unique=True))
            if n
            else (),
            files=draw(FILES),
            priority=draw(st.integers(-1, 1)),
        )
        for n in range(count)
    ]


def after(before: list[TaskState], found: Judgement) -> dict[str, TaskStatus]:
    now = {state.task_id: state.status for state in before}
    for task_id, target in found.moves:
        assert target in TASK_MOVES[now[task_id]]
        now[task_id] = target
    return now


@settings(deadline=None)
@given(plans(), st.data(), st.integers(0, 4))
def test_what_starts_is_ready_fits_the_slots_and_shares_no_claim(
    tasks: list[Task], data: st.DataObject, slots: int
):
    before = [TaskState(one.id, *data.draw(STATES)) for one in tasks]
    by_id = {one.id: one for one in tasks}
    running = {s.task_id: by_id[s.task_id].files for s in before if s.status is S.RUNNING}
    found = judge(tasks, before, running, slots)
    now = after(before, found)
    kept = {s.task_id for s in before if satisfied(s)}
    assert len(found.start) <= slots
    assert set(found.start) <= set(found.ready)
    for task_id in found.ready:
        assert now[task_id] is S.READY
        assert set(by_id[task_id].depends_on) <= kept
    for place, one in enumerate(found.start):
        others = [*running.values(), *(by_id[other].files for other in found.start[:place])]
        assert not any(claims_overlap(by_id[one].files, other) for other in others)
    left = [one for one in found.ready if one not in found.start]
    if len(found.start) < slots:
        taken = [*running.values(), *(by_id[one].files for one in found.start)]
        assert all(any(claims_overlap(by_id[one].files, t) for t in taken) for one in left)
    assert set(found.waits) == {
        task_id
        for task_id, status in now.items()
        if status in (S.WAITING, S.READY, S.RUNNING, S.PAUSED, S.WAITING_DECISION, S.BLOCKED)
    }


@settings(deadline=None)
@given(plans(), st.data())
def test_a_board_that_was_told_every_change_judges_like_a_new_one(
    tasks: list[Task], data: st.DataObject
):
    board = Board(tasks)
    board.settle()
    for _ in range(data.draw(st.integers(0, 12))):
        one = data.draw(st.sampled_from(tasks)).id
        board.update(TaskState(one, *data.draw(STATES)))
        if data.draw(st.booleans()):
            board.pick({}, 2)
        board.settle()
    now = [board.state(one.id) for one in tasks]
    fresh = judge(tasks, now, {}, 3)
    assert fresh.moves == ()
    assert (board.ready(), board.blocked()) == (fresh.ready, fresh.blocked)
    assert board.pick({}, 3) == fresh.start
    assert board.waits({}, fresh.start) == fresh.waits
    one = data.draw(st.sampled_from(tasks)).id
    assert board.wait(one, {}, fresh.start) == fresh.waits.get(one)


@settings(deadline=None)
@given(plans(), st.data())
def test_every_plan_comes_to_an_end(tasks: list[Task], data: st.DataObject):
    board = Board(tasks)
    board.settle()
    for _ in tasks:
        for task_id in board.pick({}, 1):
            board.update(TaskState(task_id, S.RUNNING))
            end = data.draw(st.sampled_from([S.MERGED, S.FAILED, S.NO_CHANGE, S.CANCELED]))
            board.update(TaskState(task_id, end, accepted=data.draw(st.booleans())))
            board.settle()
    last = outcome(board.state(one.id) for one in tasks)
    assert not last.moving
    good = all(satisfied(board.state(one.id)) for one in tasks)
    assert (last.ends_as is ExecutionStatus.SUCCEEDED) == good
