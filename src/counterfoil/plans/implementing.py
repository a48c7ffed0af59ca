"""One implement attempt: leased, started under a keeper, watched, harvested, judged, ended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from counterfoil.core.errors import AgentUnavailable, ExecutorError, GitFailed, ValueRefused
from counterfoil.core.ids import ATTEMPT
from counterfoil.core.private_folders import make_private
from counterfoil.ledger import artifacts, attempts, tasks
from counterfoil.ledger.artifacts import Stored
from counterfoil.ledger.attempts import End, Lease
from counterfoil.ledger.states import AttemptOutcome, Phase, TaskStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import AttemptRow, Refusal
from counterfoil.observability import create_attempt_context
from counterfoil.plans.context import RunContext
from counterfoil.plans.control import Control, Stop
from counterfoil.plans.course import FAILED_PREFIX, EndCause, Implement
from counterfoil.plans.folders import PREPARE, remove_all_raw_output
from counterfoil.plans.measured import diff, usages
from counterfoil.plans.merging import run_head
from counterfoil.plans.model import Task
from counterfoil.plans.patience import Patience, in_thread, stalls
from counterfoil.plans.preparing import Preparer, Unstarted
from counterfoil.plans.said import whole_report
from counterfoil.plans.verdict import FINISHED, KEEPER, Facts, Verdict, judge_attempt
from counterfoil.plans.watch import Watch, start_with_room, sweep
from counterfoil.ports.agent import Agent, Brief, ErrorClass, Launch, Report
from counterfoil.ports.executor import Execution, ExitCause, ExitRecord, LaunchSpec
from counterfoil.ports.workspace import Harvest, MergeConflict

COMMAND_AGENT = "command"
GIT_VARIABLES = ("GIT_", "SSH_ASKPASS")


@dataclass(frozen=True, slots=True)
class Implementer:
    """Carries out implement attempts of one run."""

    context: RunContext
    patience: Patience
    control: Control
    watch: Watch
    preparer: Preparer

    def __post_init__(self) -> None:
        # Before anything is read: what another runner started may tell its secrets to this one.
        for task in self.context.plan.tasks:
            self._hide_secrets(task)

    def _hide_secrets(self, task: Task) -> None:
        """Have the secrets that the task's agent and gates are given taken out of the record."""
        for gate in task.gates:
            self.context.ledger.redactor.register_variables(gate.env)
        try:
            agent = self.context.agents(self.agent_name(task))
        except AgentUnavailable:
            return
        self.context.ledger.redactor.register_variables(task.env)
        for name in agent.secrets:
            for source in (task.env, self.context.environment):
                self.context.ledger.redactor.register(source.get(name, ""))

    async def attempt(self, task: Task, move: Implement, status: str) -> AttemptRow:
        """Lease and carry out one attempt; returns its row when it has ended.

        ``status``: where the task stands, ready or running.
        """
        base = await self.base(task, move)
        leased = await self._lease(task, move, status, base)
        self.context.boundary("leased")
        started = await self._start(task, move, leased)
        if isinstance(started, Unstarted):
            return await self.settle(task, leased, started.verdict, Report(), started.record)
        execution, argv = started
        self.context.boundary("started")
        running = await self.mark_started(leased, argv)
        return await self.finish(task, running, execution)

    async def base(self, task: Task, move: Implement) -> str:
        """The commit to start from: the run branch, with the earlier candidate merged in."""
        workspace = self.context.workspace
        head = await run_head(self.context, self.patience)
        after = move.after
        if after is None or not after.candidate:
            return head
        message = f"{self.context.heading(task)}\n\nThe candidate of {after.id} on the run branch."
        merged = await self.patience.insist(
            lambda: in_thread(workspace.merge, head, after.candidate, message)
        )
        return after.candidate if isinstance(merged, MergeConflict) else merged.commit

    async def _lease(self, task: Task, move: Implement, status: str, base: str) -> AttemptRow:
        context = self.context
        scope, driver = context.ledger.scope, context.driver

        def unit_of_work(unit: Unit) -> AttemptRow | Refusal:
            identity = create_attempt_context(
                context.run_id,
                task.id,
                Phase.IMPLEMENT,
                move.ordinal,
                lambda: unit.ids.new(ATTEMPT),
            )
            if status != TaskStatus.RUNNING:
                moved = tasks.move(unit, scope, driver, task.id, status, TaskStatus.RUNNING)
                if isinstance(moved, Refusal):
                    return moved
            lease = Lease(
                attempt_id=identity.attempt_id,
                task_id=task.id,
                phase=Phase.IMPLEMENT,
                ordinal=move.ordinal,
                agent=self.agent_name(task),
                base=base,
                folder=str(context.folder.attempt(identity.attempt_id)),
                worktree=str(context.folder.worktree(task.id)),
            )
            return attempts.lease(unit, scope, driver, lease)

        return await self.patience.perform(unit_of_work)

    def agent_name(self, task: Task) -> str:
        if task.is_command:
            return COMMAND_AGENT
        return task.agent or self.context.default_agent

    async def _start(
        self, task: Task, move: Implement, leased: AttemptRow
    ) -> tuple[Execution, tuple[str, ...]] | Unstarted:
        """The running execution and its argv, or why there is none."""
        worktree, folder = Path(leased.worktree), Path(leased.folder)
        try:
            fresh = await self.patience.insist(partial(self._place, move, worktree, leased.base))
            prepared = not fresh and move.after is not None and move.after.started_at is not None
            unprepared = None if prepared else await self.preparer.prepare(task, leased)
            if unprepared is not None:
                return unprepared
            agent = self.context.agents(leased.agent)
            feedback = await self.patience.insist(lambda: in_thread(self._feedback, move, folder))
            brief = Brief(
                task_id=task.id,
                title=task.title,
                prompt=task.prompt,
                run=task.run,
                worktree=worktree,
                folder=folder,
                feedback=feedback,
                options=task.agent_options,
            )
            launch = agent.launch(brief)
            spec = await self.patience.insist(
                lambda: in_thread(self._spec, task, leased, agent, launch)
            )
            start = partial(start_with_room, self.context.executor, spec)
            return await self.patience.insist(start), launch.argv
        except AgentUnavailable as error:
            return _failed(ErrorClass.AGENT_MISSING, error.message)
        except ValueRefused as error:
            return _failed(ErrorClass.EXIT, error.message)
        except ExecutorError as error:
            return _failed(ErrorClass.CRASH, f"the keeper did not start: {error.message}")
        except GitFailed as error:
            return _failed(ErrorClass.WORKSPACE, error.message)

    async def _place(self, move: Implement, worktree: Path, base: str) -> bool:
        """A worktree at the base. True: a fresh one; False: the one in which the retry goes on."""
        workspace = self.context.workspace
        if move.after is not None and worktree.is_dir():
            try:
                await in_thread(workspace.settle, worktree, base)
            except GitFailed as error:
                if stalls(error):
                    raise
                self.context.notice(f"a fresh worktree for the retry: {error.message}")
            else:
                return False
        if worktree.exists():
            await in_thread(workspace.remove_worktree, worktree)
        await in_thread(workspace.add_worktree, worktree, base)
        return True

    def _feedback(self, move: Implement, folder: Path) -> Path | None:
        """The failed gate's output, or the failed attempt's own, as a file for the retry."""
        if move.after is None:
            return None
        make_private(folder)
        path = folder / "feedback.txt"
        path.touch(mode=0o600)
        path.write_bytes(self._earlier_output(move))
        return path

    def _earlier_output(self, move: Implement) -> bytes:
        ledger, gate, after = self.context.ledger, move.failed_gate, move.after
        assert after is not None
        if gate is None or gate.output_artifact_id is None:
            return after.message.encode("utf-8", "replace")
        artifact_id = gate.output_artifact_id
        row = ledger.read(
            lambda connection: artifacts.get(
                connection, ledger.scope, self.context.run_id, artifact_id
            )
        )
        return ledger.blobs.get(row.sha256) if row else b""

    def _spec(self, task: Task, leased: AttemptRow, agent: Agent, launch: Launch) -> LaunchSpec:
        folder = Path(leased.folder)
        make_private(folder)
        stdin = None
        if launch.stdin:
            stdin = folder / "stdin"
            stdin.touch(mode=0o600)
            stdin.write_bytes(launch.stdin)
        environment = {**self._inherited(agent), **task.env, **launch.env}
        limits = self.context.limits
        timeout = task.timeout_seconds or limits.task_timeout
        return LaunchSpec(
            marker=leased.id,
            fence=leased.fence,
            folder=folder,
            argv=launch.argv,
            cwd=Path(leased.worktree),
            env=environment,
            stdin=stdin,
            timeout_seconds=timeout,
            quiet_seconds=launch.quiet_seconds,
            dead_man_seconds=timeout,
            grace_seconds=limits.grace,
            worktree=Path(leased.worktree),
        )

    def _inherited(self, agent: Agent) -> dict[str, str]:
        """What the agent may see of our environment, with what keeps git from asking."""
        names = frozenset(agent.environment)
        return {
            name: value
            for name, value in self.context.environment.items()
            if not names or name in names or name.startswith(GIT_VARIABLES)
        }

    async def mark_started(self, leased: AttemptRow, argv: Sequence[str] = ()) -> AttemptRow:
        """The attempt runs; ``argv`` is not known of an adopted one."""
        ledger, driver = self.context.ledger, self.context.driver
        return await self.patience.perform(
            lambda unit: attempts.start(unit, ledger.scope, driver, leased, argv)
        )

    async def finish(self, task: Task, attempt: AttemptRow, execution: Execution) -> AttemptRow:
        """Wait for the process, then settle the attempt."""
        reader = self.context.agents(attempt.agent).reader()
        record = await self.watch.follow(attempt.id, execution, reader)
        self.context.boundary("exited")
        return await self.settle_record(task, attempt, record)

    async def settle_record(
        self, task: Task, attempt: AttemptRow, record: ExitRecord | None
    ) -> AttemptRow:
        """Read all that was said, harvest all that was done, judge, and end the attempt."""
        folder = Path(attempt.folder)
        if record is None:
            await self.sweep(attempt)
        agent = self.context.agents(attempt.agent)
        report = await in_thread(
            whole_report,
            folder / "stdout",
            folder / "stderr",
            agent.reader(),
            self.context.ledger.redactor,
        )
        if self.patience.wanted_room(record, Path(attempt.worktree)):
            report = replace(report, error_class=report.error_class or ErrorClass.DISK)
        harvest, trouble = await self.harvest(task, attempt)
        verdict = judge_attempt(
            Facts(
                exit=record,
                report=report,
                terminal_expected=agent.terminal_expected,
                empty=harvest.empty if harvest else None,
            )
        )
        return await self.settle(task, attempt, verdict, report, record, harvest, trouble)

    async def sweep(self, attempt: AttemptRow) -> None:
        """End what an attempt without a keeper left. Raises ``ExecutorError`` without proof."""
        await sweep(self.context.executor, attempt, attempt.worktree)

    async def harvest(self, task: Task, attempt: AttemptRow) -> tuple[Harvest | None, str]:
        """The attempt's work pinned under its ref, or why it could not be measured."""
        workspace = self.context.workspace
        message = f"{self.context.heading(task)}\n\nCounterfoil-Attempt: {attempt.id}"
        try:
            return await self.patience.insist(
                lambda: in_thread(
                    workspace.harvest,
                    Path(attempt.worktree),
                    attempt.base,
                    self.context.pin(attempt.id),
                    message,
                )
            ), ""
        except GitFailed as error:
            return None, error.message

    async def settle(
        self,
        task: Task,
        attempt: AttemptRow,
        verdict: Verdict,
        report: Report,
        record: ExitRecord | None = None,
        harvest: Harvest | None = None,
        trouble: str = "",
        end_cause: EndCause | None = None,
    ) -> AttemptRow:
        """End the attempt in one commit, with its output stored before."""
        self.context.boundary("harvested")
        outputs = await self.patience.insist(lambda: in_thread(self._keep_output, attempt))
        ledger, driver = self.context.ledger, self.context.driver
        cause = end_cause or _end_cause(verdict, record)
        end = self._end(task, verdict, report, record, harvest, trouble, cause)

        def unit_of_work(unit: Unit) -> AttemptRow | Refusal:
            for stored in outputs:
                kept = artifacts.record(
                    unit,
                    ledger.scope,
                    driver.run_id,
                    stored,
                    task_id=task.id,
                    attempt_id=attempt.id,
                    fence=driver.fence,
                )
                if isinstance(kept, Refusal):
                    return kept
            return attempts.end(unit, ledger.scope, driver, attempt, end)

        ended = await self.patience.perform(unit_of_work)
        await in_thread(remove_all_raw_output, Path(attempt.folder))
        return ended

    def _keep_output(self, attempt: AttemptRow) -> list[Stored]:
        folder = Path(attempt.folder)
        return [
            self.context.ledger.keep_file(folder / name, "log", meta={"name": name})
            for name in (f"{PREPARE}/stdout", f"{PREPARE}/stderr", "stdout", "stderr")
            if (folder / name).exists() and (folder / name).stat().st_size
        ]

    def _end(
        self,
        task: Task,
        verdict: Verdict,
        report: Report,
        record: ExitRecord | None,
        harvest: Harvest | None,
        trouble: str,
        end_cause: str,
    ) -> End:
        notes = (*(harvest.notes if harvest else ()), *((trouble,) if trouble else ()))
        return End(
            outcome=verdict.outcome,
            end_cause=end_cause,
            message=verdict.message,
            error_class=str(verdict.error_class or ""),
            exit=record,
            report=report,
            candidate=harvest.commit if harvest and not harvest.empty else "",
            tree=harvest.tree if harvest else "",
            duration_ms=record.duration_ms if record else None,
            duration_reason="" if record else "the keeper left no record",
            notes=notes,
            payloads=(*usages(report), *diff(task, harvest)),
        )


def _failed(error_class: ErrorClass, message: str) -> Unstarted:
    return Unstarted(Verdict(AttemptOutcome.FAILED, error_class, message))


def _end_cause(verdict: Verdict, record: ExitRecord | None) -> str:
    if record is not None and record.cause is ExitCause.ENDED:
        if record.requested_by == Stop.SHUTDOWN:
            return EndCause.SHUTDOWN
        if record.requested_by not in (FINISHED, KEEPER):
            return EndCause.KILLED
    if verdict.error_class is not None and verdict.outcome is AttemptOutcome.FAILED:
        return f"{FAILED_PREFIX}{verdict.error_class}"
    if record is None:
        return EndCause.KEEPER_LOST
    return EndCause.LEASE_LOST if record.cause is ExitCause.ORPHANED else EndCause.FINISHED
