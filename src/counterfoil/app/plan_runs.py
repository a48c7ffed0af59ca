"""Use cases of plan runs: launch, recover, resume, land, look."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counterfoil.app import wiring
from counterfoil.app.holder import is_gone
from counterfoil.app.house import House
from counterfoil.core import codec, limits
from counterfoil.core.errors import (
    Conflict,
    NotFound,
    PlanInvalid,
    RepositoryRefused,
    UsageError,
)
from counterfoil.ledger import (
    artifacts,
    attempts,
    events,
    gates,
    holders,
    journal,
    runs,
    tasks,
)
from counterfoil.ledger.record import expect
from counterfoil.ledger.runs import Driver, NewRun
from counterfoil.ledger.states import RUN_ENDS, ExecutionStatus, TaskStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import (
    ArtifactRow,
    AttemptRow,
    EntryRow,
    GateRow,
    Refusal,
    RunRow,
    TaskRow,
)
from counterfoil.plans.context import Limits, RunContext
from counterfoil.plans.control import Control, Stop
from counterfoil.plans.driver import PlanDriver
from counterfoil.plans.folders import RunFolder
from counterfoil.plans.model import Plan
from counterfoil.plans.parser import parse_plan
from counterfoil.plans.patience import in_thread
from counterfoil.plans.readiness import Board, TaskState
from counterfoil.ports.workspace import Workspace

__all__ = ["Control", "LaunchRequest", "RunView", "Stop"]

PLAN = "plan"
BRANCHES = "refs/heads/counterfoil/"


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A plan to run on a repository. ``base``: a revision, by default where HEAD stands."""

    plan: Path
    repository: Path
    concurrency: int | None = None
    agent: str | None = None
    base: str | None = None
    run_key: str | None = None


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as the ledger has it.

    ``waits`` tells for each open task what it waits for; ``branch`` is the run branch;
    ``worktrees`` are the kept ones by task.
    """

    run: RunRow
    tasks: tuple[TaskRow, ...]
    attempts: tuple[AttemptRow, ...]
    gates: tuple[GateRow, ...]
    branch: str
    repository: Path
    worktrees: dict[str, Path] = field(default_factory=dict)
    waits: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunInput:
    """A plan run's exact input, as recorded."""

    plan_path: str
    plan_name: str
    plan_sha256: str
    plan_hash: str
    plan_redacted: bool
    repository: str
    base: str
    branch: str | None
    concurrency: int
    agent: str

    @classmethod
    def of(cls, house: House, run: RunRow) -> "RunInput":
        """Raises ``UsageError`` for a run that is not a plan's."""
        if run.subject_kind != PLAN:
            raise UsageError(
                f"{run.id} is a run of a {run.subject_kind}, not of a plan",
                hint="name a run that `counterfoil runs list` shows with a plan",
            )
        if run.input_json is not None:
            return cls(**codec.decode(run.input_json))
        return cls(**codec.decode(house.ledger.blobs.get(run.input_sha256).decode("ascii")))


def check_plan(path: Path) -> Plan:
    """Read a plan. Raises ``PlanInvalid`` with every fault in ``details["faults"]``."""
    return parse_plan(_read_plan(path), name=path.name)


def _read_plan(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > limits.MAX_PLAN_BYTES:
            raise PlanInvalid(
                f"the plan {path} has {size:,} bytes, more than {limits.MAX_PLAN_BYTES:,}",
                hint="split it into several plans",
            )
        return path.read_bytes()
    except OSError as error:
        raise PlanInvalid(
            f"the plan {path} cannot be read: {error.strerror}", hint="check the path"
        ) from error


async def drive_new(house: House, request: LaunchRequest, control: Control) -> RunView:
    """Create a run and drive it to an end or a pause.

    Raises ``PlanInvalid``, ``RepositoryRefused`` and ``Conflict`` before anything is created.
    """
    data = _read_plan(request.plan)
    plan = parse_plan(data, name=request.plan.name)
    workspace = wiring.open_workspace(house.settings, request.repository)
    head = workspace.head()
    base = workspace.resolve(request.base) if request.base else head.sha
    if base is None:
        raise UsageError(
            f"{request.base!r} names no commit of {workspace.root}",
            hint="give a branch, a tag or a SHA that `git rev-parse` knows",
        )
    if workspace.resolve(BRANCHES.rstrip("/")) is not None:
        raise RepositoryRefused(
            f"{workspace.root} has a branch named counterfoil, so that none can be counterfoil/…",
            hint="rename it: git branch -m counterfoil ANOTHER",
        )
    for note in plan.notes:
        control.notice(note)
    if head.dirty and not request.base:
        control.notice(
            "the checkout has changes that are not committed: the run starts from HEAD without "
            "them and leaves them alone"
        )
    run = await _create(house, request, data, plan, workspace, base, head.branch)
    return await _drive(
        house, run, Driver(run.id, run.holder_id, run.fence), plan, workspace, control
    )


async def _create(
    house: House,
    request: LaunchRequest,
    data: bytes,
    plan: Plan,
    workspace: Workspace,
    base: str,
    branch: str | None,
) -> RunRow:
    ledger = house.ledger
    stored = ledger.keep(data, PLAN, "application/jsonl")
    hashed = ledger.key.of(data)
    redacted = stored.size_bytes != len(data) or ledger.blobs.get(stored.sha256) != data
    recorded = {
        "plan_path": str(request.plan.absolute()),
        "plan_name": plan.name,
        "plan_sha256": stored.sha256,
        "plan_hash": hashed,
        "plan_redacted": redacted,
        "repository": str(workspace.root),
        "base": base,
        "branch": branch,
        "concurrency": request.concurrency
        or plan.header.get("concurrency")
        or house.settings.concurrency,
        "agent": request.agent or house.settings.agent,
    }
    prepared = ledger.prepare(recorded)
    holder_id = house.holder.id
    new = NewRun(
        PLAN,
        plan.name,
        prepared,
        input_hash=hashed,
        input_hash_key=ledger.key.id,
        holder_id=holder_id,
        subject_version_id=stored.sha256,
        run_key=request.run_key,
    )

    def unit_of_work(unit: Unit) -> RunRow | Refusal:
        run = runs.create(unit, ledger.scope, new)
        if isinstance(run, Refusal):
            return run
        kept = artifacts.record(unit, ledger.scope, run.id, stored)
        return kept if isinstance(kept, Refusal) else run

    return await ledger.perform(unit_of_work)


async def drive_recovered(house: House, run_name: str, control: Control) -> RunView:
    """Take a run whose driver is gone, adopt what lives, and drive on.

    Raises ``Conflict`` while its driver lives, and when the run needs no recovery.
    """
    run = find(house, run_name)
    if run.status == ExecutionStatus.PAUSED:
        raise Conflict(f"{run.id} is paused, not crashed", hint=f"counterfoil runs resume {run.id}")
    return await _take_and_drive(house, run, control, None)


async def drive_resumed(
    house: House, run_name: str, control: Control, concurrency: int | None = None
) -> RunView:
    """Go on with a paused run. Raises ``Conflict`` when it is not paused."""
    run = find(house, run_name)
    if run.status != ExecutionStatus.PAUSED:
        hint = f"counterfoil runs recover {run.id}" if not _ended(run) else ""
        raise Conflict(f"{run.id} is {run.status}, not paused", hint=hint)
    return await _take_and_drive(house, run, control, concurrency)


def _ended(run: RunRow) -> bool:
    return run.status in RUN_ENDS


async def _take_and_drive(
    house: House, run: RunRow, control: Control, concurrency: int | None
) -> RunView:
    ledger = house.ledger
    if _ended(run):
        raise Conflict(f"{run.id} has ended {run.status}: there is nothing to go on with")
    before = ledger.read(lambda connection: holders.get(connection, ledger.scope, run.holder_id))
    paused = run.status == ExecutionStatus.PAUSED  # its driver has let go of it
    if not paused and not is_gone(before, ledger.clock.now_us()):
        assert before is not None
        raise Conflict(
            f"{run.id} is driven by process {before.pid} on {before.host}",
            hint="wait for it, or end that process: a run has one driver",
        )
    given = RunInput.of(house, run)
    plan = _plan_of(house, given)
    workspace = wiring.open_workspace(house.settings, Path(given.repository))
    holder_id = house.holder.id
    driver = await ledger.perform(lambda unit: runs.take(unit, ledger.scope, run, holder_id))
    return await _drive(house, run, driver, plan, workspace, control, concurrency)


def _plan_of(house: House, given: RunInput) -> Plan:
    """The plan as it was launched; what redaction took from the record is read from the file."""
    if not given.plan_redacted:
        return parse_plan(house.ledger.blobs.get(given.plan_sha256), name=given.plan_name)
    data = _read_plan(Path(given.plan_path))
    if house.ledger.key.of(data) != given.plan_hash:
        raise Conflict(
            f"{given.plan_path} is not the plan that was launched, and the recorded copy is "
            "redacted",
            hint="restore the plan file, or launch the changed plan as a run of its own",
        )
    return parse_plan(data, name=given.plan_name)


async def _drive(
    house: House,
    run: RunRow,
    driver: Driver,
    plan: Plan,
    workspace: Workspace,
    control: Control,
    concurrency: int | None = None,
) -> RunView:
    given = RunInput.of(house, run)
    settings = house.settings
    environment = wiring.child_environment(workspace)
    house.ledger.redactor.register_variables(environment)
    context = RunContext(
        ledger=house.ledger,
        driver=driver,
        plan=plan,
        workspace=workspace,
        executor=wiring.executor(house.ledger.clock),
        agents=wiring.agents(),
        folder=RunFolder(wiring.run_folder(settings, run.id)),
        run_branch=f"{BRANCHES}{run.id}",
        default_agent=given.agent,
        environment=environment,
        limits=Limits(settings.task_timeout, settings.gate_timeout, settings.grace),
        boundary=control.boundary,
        notice=control.notice,
    )
    if run.status in (ExecutionStatus.QUEUED, ExecutionStatus.PREPARING):
        await in_thread(workspace.move_ref, context.run_branch, given.base, None)
    control.on_started(run.id)
    await PlanDriver(context, control, concurrency or given.concurrency).drive()
    return view(house, run.id)


def find(house: House, name: str) -> RunRow:
    """A run by id, by the beginning of its id, or ``last``. Raises ``NotFound``, ``Conflict``."""
    ledger = house.ledger
    if name == "last":
        newest = list_runs(house, 1)
        if not newest:
            raise NotFound("there is no run yet", hint="counterfoil run PLAN")
        return newest[0]
    return expect(ledger.read(lambda connection: runs.find(connection, ledger.scope, name)))


def list_runs(house: House, most: int) -> list[RunRow]:
    """The newest runs, newest first."""
    ledger = house.ledger
    return ledger.read(lambda connection: runs.newest(connection, ledger.scope, most))


def view(house: House, run_name: str) -> RunView:
    """One run with its tasks, attempts and gates, of one snapshot."""
    run = find(house, run_name)
    given = RunInput.of(house, run)
    ledger = house.ledger
    found, tried, judged = ledger.read(
        lambda connection: (
            tuple(tasks.of_run(connection, ledger.scope, run.id)),
            tuple(attempts.of_run(connection, ledger.scope, run.id)),
            tuple(gates.of_run(connection, ledger.scope, run.id)),
        )
    )
    folder = RunFolder(wiring.run_folder(house.settings, run.id))
    kept = {row.task_id: folder.worktree(row.task_id) for row in found}
    return RunView(
        run=run,
        tasks=found,
        attempts=tried,
        gates=judged,
        branch=f"counterfoil/{run.id}",
        repository=Path(given.repository),
        worktrees={task_id: path for task_id, path in kept.items() if path.is_dir()},
        waits=_waits(house, given, run, found),
    )


def _waits(
    house: House, given: RunInput, run: RunRow, found: tuple[TaskRow, ...]
) -> dict[str, str]:
    """Why each open task is not at work; nothing for a run that has ended."""
    if _ended(run) or not found:
        return {}
    try:
        plan = _plan_of(house, given)
    except (Conflict, PlanInvalid):
        return {}
    states = [TaskState(row.task_id, TaskStatus(row.status), bool(row.accepted)) for row in found]
    running = {row.task_id for row in found if row.status == TaskStatus.RUNNING}
    claims = {task.id: task.files for task in plan.tasks if task.id in running}
    parked = run.error_message or run.cause if run.status == ExecutionStatus.PAUSED else ""
    waits = Board(plan.tasks, states).waits(claims, parked=parked)
    return {task_id: wait.text for task_id, wait in waits.items() if task_id not in running}


def entries(house: House, run_name: str, since: int, task: str | None, most: int) -> list[EntryRow]:
    """Journal entries after ``since``, in order; of one task when it is named."""
    run, ledger = find(house, run_name), house.ledger

    def read(connection: Any) -> list[EntryRow]:
        found: list[EntryRow] = []
        for entry in journal.entries(connection, ledger.scope, run.id, since=since):
            if task is None or entry.task_id == task:
                found.append(entry)
                if len(found) == most:
                    break
        return found

    return ledger.read(read)


def attempt_output(house: House, run_name: str, name: str) -> bytes:
    """What an attempt and its gates wrote, redacted: of the one named, or a task's newest.

    Raises ``NotFound``.
    """
    run, ledger = find(house, run_name), house.ledger
    tried, kept = ledger.read(
        lambda connection: (
            attempts.of_run(connection, ledger.scope, run.id),
            artifacts.of_run(connection, ledger.scope, run.id),
        )
    )
    matching = [one.id for one in tried if name in (one.id, one.task_id)]
    told = {one.attempt_id for one in kept if one.type == "log"}
    newest = next((one for one in reversed(matching) if one in told), None)
    logs = [one for one in kept if newest and one.type == "log" and one.attempt_id == newest]
    if not matching:
        raise NotFound(f"{run.id} has no task or attempt {name!r}")
    return b"".join(_output_of(house, log) for log in logs)


def _output_of(house: House, log: ArtifactRow) -> bytes:
    return house.ledger.blobs.get(log.sha256)


def land(house: House, run_name: str, into: str | None) -> tuple[str, str, str]:
    """Merge a run's branch into a branch; returns (branch, its commit before, after).

    ``into``: by default the branch that was checked out at launch. Raises ``Conflict`` for a
    run that has not succeeded, ``RefMoved`` and ``RepositoryRefused`` when git stands in the way.
    """
    run, ledger = find(house, run_name), house.ledger
    if run.status != ExecutionStatus.SUCCEEDED and into is None:
        raise Conflict(
            f"{run.id} is {run.status}, not succeeded",
            hint=f"look at it, then name the branch: counterfoil runs land {run.id} --into BRANCH",
        )
    given = RunInput.of(house, run)
    branch = into or given.branch
    if branch is None:
        raise UsageError(
            f"{run.id} was launched from a detached HEAD", hint="name a branch with --into"
        )
    workspace = wiring.open_workspace(house.settings, Path(given.repository))
    old, commit = (
        workspace.resolve(f"refs/heads/{branch}"),
        workspace.resolve(f"{BRANCHES}{run.id}"),
    )
    if old is None or commit is None:
        missing = branch if old is None else f"counterfoil/{run.id}"
        raise NotFound(f"there is no branch {missing} in {workspace.root}")
    new = workspace.land(branch, commit, f"Land {run.subject_id}\n\nCounterfoil-Run: {run.id}")
    payload = {"branch": branch, "old": old, "new": new}
    ledger.do(lambda unit: journal.append(unit, ledger.scope, run.id, events.RUN_LANDED, payload))
    return branch, old, new
