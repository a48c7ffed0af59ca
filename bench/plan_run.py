"""Runs a generated plan in this process and reads from the record when each task ended."""

import json
from dataclasses import dataclass
from pathlib import Path

import anyio

from bench.figures import MeasurementFailed
from bench.repository import rewriting
from counterfoil import open_house
from counterfoil.app.plan_runs import LaunchRequest, drive_new
from counterfoil.app.settings import Settings
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.plans.control import Control

NO_OP = ("true",)


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A plan of ``count`` tasks on a repository; each rewrites a file, or does nothing at all."""

    repository: Path
    home: Path
    count: int
    concurrency: int
    change: bool

    def run(self) -> list[float]:
        """When the tasks ended, in order, in milliseconds. Raises ``MeasurementFailed``."""
        self.home.mkdir(parents=True)
        plan = self.home / "plan.jsonl"
        plan.write_text(
            "".join(json.dumps(self._task(number)) + "\n" for number in range(self.count))
        )
        settings = Settings(home=self.home, ledger=self.home / "ledger.db")
        request = LaunchRequest(plan, self.repository, concurrency=self.concurrency)
        with open_house(settings=settings) as house:
            view = anyio.run(lambda: drive_new(house, request, Control()))
        if view.run.status != ExecutionStatus.SUCCEEDED:
            ended = f"the plan ended {view.run.status}: {view.run.error_message}"
            raise MeasurementFailed(ended)
        return sorted(task.updated_at / 1000 for task in view.tasks)

    def _task(self, number: int) -> dict[str, object]:
        run = rewriting(number) if self.change else NO_OP
        return {"id": f"task{number:04d}", "run": run}
