"""What the driver of a run works with: the ports, the run's place, and who may stop it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from counterfoil.ledger.record import Ledger
from counterfoil.ledger.runs import Driver
from counterfoil.plans.folders import RunFolder
from counterfoil.plans.model import Plan, Task
from counterfoil.ports.agent import Agent
from counterfoil.ports.executor import Executor
from counterfoil.ports.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that hold where a task or a gate says nothing."""

    task_timeout: float = 3600.0
    gate_timeout: float = 1800.0
    grace: float = 5.0
    linger: float = 10.0


def ignore(_word: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run being driven.

    ``run_branch`` is a full ref. ``environment`` is what agents and gates inherit, scrubbed of
    git's own variables. ``boundary`` is told the name of each boundary that is about to be
    crossed; ``notice`` takes one line for the operator.
    """

    ledger: Ledger
    driver: Driver
    plan: Plan
    workspace: Workspace
    executor: Executor
    agents: Callable[[str], Agent]
    folder: RunFolder
    run_branch: str
    default_agent: str
    environment: Mapping[str, str]
    limits: Limits = field(default_factory=Limits)
    boundary: Callable[[str], None] = ignore
    notice: Callable[[str], None] = ignore

    @property
    def run_id(self) -> str:
        return self.driver.run_id

    def heading(self, task: Task) -> str:
        """A task's title as the first line of a commit: what a commit says is recorded too."""
        return self.ledger.redactor.text(task.title)

    def pin(self, attempt_id: str) -> str:
        """The ref that keeps an attempt's work."""
        return f"refs/counterfoil/{self.run_id}/{attempt_id}"
