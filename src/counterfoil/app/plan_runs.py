"""Use cases that drive plan runs: launch, recover, resume."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from counterfoil.app import wiring
from counterfoil.app.holder import is_gone
from counterfoil.app.house import House
from counterfoil.app.plan_inputs import BRANCHES, PLAN, RunInput, check_agents, plan_of, read_plan
from counterfoil.app.run_views import RunView, find, has_ended, view
from counterfoil.core.errors import Conflict, RepositoryRefused, UsageError
from counterfoil.ledger import artifacts, holders, runs
from counterfoil.ledger.runs import Driver, NewRun
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal, RunRow
from counterfoil.plans.context import Limits, RunContext
from counterfoil.plans.control import Control, Stop
from counterfoil.plans.driver import PlanDriver
from counterfoil.plans.folders import RunFolder
from counterfoil.plans.model import Plan
from counterfoil.plans.parser import parse_plan
from counterfoil.plans.patience import in_thread
from counterfoil.ports.workspace import Workspace

__all__ = ["Control", "LaunchRequest", "Stop"]


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A plan to run on a repository. ``base``: a revision, by default where HEAD stands."""

    plan: Path
    repository: Path
    concurrency: int | None = None
    agent: str | None = None
    base: str | None = None
    run_key: str | None = None


async def drive_new(house: House, request: LaunchRequest, control: Control) -> RunView:
    """Create a run and drive it to an end or a pause.

    Raises ``PlanInvalid``, ``RepositoryRefused`` and ``Conflict`` before anything is created.
    """
    data = read_plan(request.plan)
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
    if head.branch is None and not request.base:
        control.notice(
            f"HEAD is detached: the run starts from {base[:10]}, and `runs land` will want a branch"
        )
    check_agents(plan, request.agent or house.settings.agent)
    _hide_secrets(house, plan, wiring.child_environment(workspace))
    run = await _create(house, request, data, plan, workspace, base, head.branch)
    return await _drive(
        house, run, Driver(run.id, run.holder_id, run.fence), plan, workspace, control
    )


def _hide_secrets(house: House, plan: Plan, environment: Mapping[str, str]) -> None:
    """Have the secrets that the run will hand on known before anything of it is recorded."""
    redactor = house.ledger.redactor
    redactor.register_variables(environment)
    for task in plan.tasks:
        for variables in (task.env, *(gate.env for gate in task.gates)):
            redactor.register_variables(variables)


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
        hint = f"counterfoil runs recover {run.id}"
        if has_ended(run):
            hint = f"counterfoil runs show {run.id}"
        raise Conflict(f"{run.id} is {run.status}, not paused", hint=hint)
    return await _take_and_drive(house, run, control, concurrency)


async def _take_and_drive(
    house: House, run: RunRow, control: Control, concurrency: int | None
) -> RunView:
    ledger = house.ledger
    if has_ended(run):
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
    plan = plan_of(house, given)
    workspace = wiring.open_workspace(house.settings, Path(given.repository))
    holder_id = house.holder.id
    driver = await ledger.perform(lambda unit: runs.take(unit, ledger.scope, run, holder_id))
    return await _drive(house, run, driver, plan, workspace, control, concurrency)


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
    _hide_secrets(house, plan, environment)
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
    control.on_started(run.id)
    if run.status in (ExecutionStatus.QUEUED, ExecutionStatus.PREPARING):
        await in_thread(workspace.move_ref, context.run_branch, given.base, None)
    await PlanDriver(context, control, concurrency or given.concurrency).drive()
    return view(house, run.id)
