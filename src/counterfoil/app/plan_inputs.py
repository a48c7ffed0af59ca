"""What a plan run was given: its plan, its repository, its base, exactly as recorded."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from counterfoil.agents.registry import KNOWN
from counterfoil.app.house import House
from counterfoil.core import codec, limits
from counterfoil.core.errors import Conflict, PlanInvalid, UsageError
from counterfoil.ledger.values import RunRow
from counterfoil.plans.faults import FaultCode
from counterfoil.plans.model import Fault, Plan, Task
from counterfoil.plans.parser import parse_plan, refusal

PLAN = "plan"
BRANCHES = "refs/heads/counterfoil/"


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
    plan = parse_plan(read_plan(path), name=path.name)
    check_agents(plan, None)
    return plan


def check_agents(plan: Plan, default_agent: str | None) -> None:
    """Raises ``PlanInvalid`` when a task is for an agent that nobody here knows.

    ``default_agent``: whose the prompt tasks are that name none; None leaves those out.
    """
    faults = []
    for task in plan.tasks:
        agent = task.agent or (None if task.is_command else default_agent)
        if agent is not None and agent not in KNOWN:
            faults.append(_unknown_agent(task, agent))
    if faults:
        raise refusal(plan.name, faults)


def _unknown_agent(task: Task, agent: str) -> Fault:
    near = difflib.get_close_matches(agent.casefold(), KNOWN, 1, 0.6)
    known = f"known agents: {', '.join(sorted(KNOWN))}"
    return Fault(
        task.line,
        1,
        FaultCode.UNKNOWN_AGENT.value,
        f"task {task.id!r}: there is no agent named {agent!r}",
        f"did you mean {near[0]!r}? {known}" if near else known,
        task.id,
    )


def read_plan(path: Path) -> bytes:
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


def plan_of(house: House, given: RunInput) -> Plan:
    """The plan as it was launched; what redaction took from the record is read from the file."""
    if not given.plan_redacted:
        return parse_plan(house.ledger.blobs.get(given.plan_sha256), name=given.plan_name)
    data = read_plan(Path(given.plan_path))
    if house.ledger.key.of(data) != given.plan_hash:
        raise Conflict(
            f"{given.plan_path} is not the plan that was launched, and the recorded copy is "
            "redacted",
            hint="restore the plan file, or launch the changed plan as a run of its own",
        )
    return parse_plan(data, name=given.plan_name)
