"""A task's own preparation of a fresh worktree: a command under a keeper, before the agent."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from counterfoil.ledger.states import AttemptOutcome
from counterfoil.ledger.values import AttemptRow
from counterfoil.plans.context import RunContext
from counterfoil.plans.folders import PREPARE
from counterfoil.plans.gating import tail
from counterfoil.plans.model import Task
from counterfoil.plans.patience import Patience, in_thread
from counterfoil.plans.said import redacted_tail
from counterfoil.plans.verdict import Facts, Verdict, judge_attempt
from counterfoil.plans.watch import Watch, start_with_room, sweep
from counterfoil.ports.agent import ErrorClass, Report
from counterfoil.ports.executor import ExitRecord, LaunchSpec

MESSAGE_LINES = 10
MESSAGE_BYTES = 400


@dataclass(frozen=True, slots=True)
class Unstarted:
    """Why an attempt's agent was not started; the record is that of its preparation."""

    verdict: Verdict
    record: ExitRecord | None = None


@dataclass(frozen=True, slots=True)
class Preparer:
    """Prepares worktrees of one run."""

    context: RunContext
    patience: Patience
    watch: Watch

    async def prepare(self, task: Task, leased: AttemptRow) -> Unstarted | None:
        """Run the task's ``prepare`` in its worktree. None: the agent may start."""
        if not task.prepare:
            return None
        worktree, limits = Path(leased.worktree), self.context.limits
        timeout = task.timeout_seconds or limits.task_timeout
        spec = LaunchSpec(
            marker=leased.id,
            fence=leased.fence,
            folder=Path(leased.folder) / PREPARE,
            argv=task.prepare,
            cwd=worktree,
            env={**self.context.environment, **task.env},
            timeout_seconds=timeout,
            dead_man_seconds=timeout,
            grace_seconds=limits.grace,
            worktree=worktree,
        )
        start = partial(start_with_room, self.context.executor, spec)
        execution = await self.patience.insist(start)
        record = await self.watch.follow(f"{leased.id}/{PREPARE}", execution, None)
        if record is None:
            await sweep(self.context.executor, leased, worktree)
        verdict = self._judge(record, await in_thread(self._said, execution.folder), worktree)
        if verdict.outcome is AttemptOutcome.SUCCEEDED:
            return None
        return Unstarted(replace(verdict, message=f"its prepare failed: {verdict.message}"), record)

    def _judge(self, record: ExitRecord | None, said: str, worktree: Path) -> Verdict:
        trouble = ErrorClass.DISK if self.patience.wanted_room(record, worktree) else None
        report = Report(message=said, error_class=trouble)
        return judge_attempt(Facts(record, report, terminal_expected=False, empty=False))

    def _said(self, folder: Path) -> str:
        redactor = self.context.ledger.redactor
        said = redacted_tail(folder / "stderr", redactor).strip()
        said = said or redacted_tail(folder / "stdout", redactor)
        return tail(said, MESSAGE_LINES, MESSAGE_BYTES)
