"""Gate 0: the commands that judge a candidate, each under a keeper on a fresh checkout."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from counterfoil.core import codec
from counterfoil.core.private_folders import make_private
from counterfoil.core.redaction import Redactor
from counterfoil.ledger import artifacts, gates
from counterfoil.ledger.artifacts import Stored
from counterfoil.ledger.gates import Judged
from counterfoil.ledger.states import FailClass, GateResult
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import AttemptRow, GateRow, Refusal
from counterfoil.plans import gating
from counterfoil.plans.context import RunContext
from counterfoil.plans.control import Control
from counterfoil.plans.folders import GATES, remove_raw_output
from counterfoil.plans.model import Gate, Task
from counterfoil.plans.patience import Patience, disk_full, in_thread
from counterfoil.plans.said import redacted_tail
from counterfoil.plans.verdict import KEEPER
from counterfoil.plans.watch import Watch, start_with_room, sweep
from counterfoil.ports.executor import ExitCause, ExitRecord, LaunchSpec
from counterfoil.ports.workspace import Merged

MESSAGE_LINES = 40
MESSAGE_BYTES = 4096
GATE_FENCE = 1
"""Of every gate's folder: it is used once."""

MOST_RUNS = 3
"""How often a gate is run whose keeper dies without a record."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the gates said: the rows, and whether a stop came between them."""

    rows: tuple[GateRow, ...] = ()
    stopped: bool = False

    @property
    def passed(self) -> bool:
        return not self.stopped and all(row.result == GateResult.PASS for row in self.rows)


def environment_of(gate: Gate) -> str:
    """What a result holds for besides its tree: the command, its place, its settings, where."""
    return codec.digest(
        {
            "run": list(gate.run),
            "cwd": gate.cwd,
            "env": dict(gate.env),
            "python": platform.python_version(),
            "machine": f"{platform.system()} {platform.machine()}",
        }
    )[:16]


@dataclass(frozen=True, slots=True)
class GateKeeper:
    """Runs the gates of one run's candidates. A tree that has passed is not judged again."""

    context: RunContext
    patience: Patience
    control: Control
    watch: Watch

    async def judge(self, task: Task, attempt: AttemptRow, merged: Merged) -> Judgement:
        """Run the task's gates in order until one fails; the task's variables are theirs too."""
        if not task.gates:
            return Judgement()
        gates_of_task = [replace(gate, env={**task.env, **gate.env}) for gate in task.gates]
        known = await self._known(gates_of_task, merged.tree)
        fence = self.context.driver.fence
        checkout = self.context.folder.checkout(attempt.id, merged.tree, fence)
        rows: list[GateRow] = []
        try:
            if any(gate.name not in known for gate in gates_of_task):
                await self._check_out(checkout, merged.commit)
            for gate in gates_of_task:
                if gate.name in known:
                    row: GateRow | None = await self._reuse(gate, attempt, merged.tree)
                else:
                    row = await self._run(gate, attempt, merged.tree, checkout)
                if row is None:
                    return Judgement(tuple(rows), stopped=True)
                rows.append(row)
                if row.result == GateResult.FAIL:
                    break
        finally:
            if checkout.is_dir():
                await in_thread(self.context.workspace.remove_worktree, checkout)
        return Judgement(tuple(rows))

    async def _check_out(self, checkout: Path, commit: str) -> None:
        workspace = self.context.workspace
        if checkout.is_dir():  # left behind by a runner that died while it judged
            await in_thread(workspace.remove_worktree, checkout)
        await self.patience.insist(lambda: in_thread(workspace.add_worktree, checkout, commit))

    async def _known(self, wanted: Sequence[Gate], tree: str) -> frozenset[str]:
        ledger, run_id = self.context.ledger, self.context.run_id
        return await ledger.ask(
            lambda connection: frozenset(
                gate.name
                for gate in wanted
                if gates.passed(
                    connection, ledger.scope, run_id, tree, gate.name, environment_of(gate)
                )
            )
        )

    async def _reuse(self, gate: Gate, attempt: AttemptRow, tree: str) -> GateRow:
        judged = Judged(
            tree=tree,
            gate=gate.name,
            environment=environment_of(gate),
            command=gate.run,
            cwd=gate.cwd,
            exit_code=0,
            duration_ms=None,
            reused=True,
        )
        return await self._record(attempt, judged, None)

    async def _run(
        self, gate: Gate, attempt: AttemptRow, tree: str, checkout: Path
    ) -> GateRow | None:
        """The gate's row, or None when somebody stopped it."""
        if not _is_inside(checkout, gate.cwd):
            self.context.boundary("gated")
            return await self._record(attempt, _misplaced(gate, tree), None)
        for _ in range(MOST_RUNS):
            folder, record = await self.patience.insist(
                lambda: self._execute(gate, attempt, checkout)
            )
            if record is not None or self.control.stopping is not None:
                break
            await sweep(self.context.executor, attempt, checkout)
        if self.control.stopping is not None or _was_ended(record):
            await in_thread(remove_raw_output, folder)
            return None
        self.context.boundary("gated")
        said = await in_thread(_output, folder, self.context.ledger.redactor)
        judged = self._judged(gate, tree, record, said)
        stored = None
        if said:
            stored = await self.patience.insist(
                lambda: in_thread(self.context.ledger.keep, said, "log", "text/plain")
            )
        row = await self._record(attempt, judged, stored)
        await in_thread(remove_raw_output, folder)
        return row

    async def _execute(
        self, gate: Gate, attempt: AttemptRow, checkout: Path
    ) -> tuple[Path, ExitRecord | None]:
        """Run a gate once, in a folder of its own. On a full disk it has not failed."""
        folder = self._fresh_folder(attempt)
        spec = LaunchSpec(
            marker=attempt.id,
            fence=GATE_FENCE,
            folder=folder,
            argv=gate.run,
            cwd=checkout / gate.cwd,
            env={**self.context.environment, **gate.env},
            timeout_seconds=gate.timeout_seconds or self.context.limits.gate_timeout,
            dead_man_seconds=self.context.limits.gate_timeout,
            grace_seconds=self.context.limits.grace,
            worktree=checkout,
        )
        execution = await start_with_room(self.context.executor, spec)
        record = await self.watch.follow(f"{attempt.id}/{folder.name}", execution, None)
        if self.patience.wanted_room(record, checkout):
            await in_thread(remove_raw_output, folder)
            raise disk_full(checkout)
        return folder, record

    def _fresh_folder(self, attempt: AttemptRow) -> Path:
        """A folder that no keeper has used: a gate that was cut short runs again."""
        gates_folder = Path(attempt.folder) / GATES
        make_private(gates_folder)
        number = len(list(gates_folder.iterdir())) + 1
        return gates_folder / f"{number:03d}"

    def _judged(self, gate: Gate, tree: str, record: ExitRecord | None, said: bytes) -> Judged:
        passed = _passed(record)
        timed_out = record is not None and record.cause is ExitCause.TIMEOUT
        text = gating.tail(said, MESSAGE_LINES, MESSAGE_BYTES)
        if record is not None and record.message:
            text = f"{record.message}\n{text}".strip()
        fail_class = None if passed else gating.classify(gate.fail_class, timed_out, gate.run, text)
        return Judged(
            tree=tree,
            gate=gate.name,
            environment=environment_of(gate),
            command=gate.run,
            cwd=gate.cwd,
            exit_code=record.exit_code if record else None,
            duration_ms=record.duration_ms if record else None,
            fail_class=fail_class,
            message=text or "it failed and said nothing",
            fingerprint=gating.fingerprint(fail_class, gate.run, text) if fail_class else "",
        )

    async def _record(self, attempt: AttemptRow, judged: Judged, stored: Stored | None) -> GateRow:
        ledger, driver = self.context.ledger, self.context.driver

        def unit_of_work(unit: Unit) -> GateRow | Refusal:
            artifact_id = None
            if stored is not None:
                kept = artifacts.record(
                    unit,
                    ledger.scope,
                    driver.run_id,
                    stored,
                    task_id=attempt.task_id,
                    attempt_id=attempt.id,
                    fence=driver.fence,
                )
                if isinstance(kept, Refusal):
                    return kept
                artifact_id = kept
            return gates.record(
                unit, ledger.scope, driver, attempt, judged, output_artifact_id=artifact_id
            )

        return await self.patience.perform(unit_of_work)


def _is_inside(checkout: Path, cwd: str) -> bool:
    """Whether a gate's folder is in the checkout: the candidate may have made it a link."""
    root = os.path.realpath(checkout)
    return Path(os.path.realpath(checkout / cwd)).is_relative_to(root)


def _misplaced(gate: Gate, tree: str) -> Judged:
    """The failure of a gate that is not started, as it would run outside its checkout."""
    text = f"the gate's folder {gate.cwd!r} leads out of the checkout, so it was not started"
    return Judged(
        tree=tree,
        gate=gate.name,
        environment=environment_of(gate),
        command=gate.run,
        cwd=gate.cwd,
        exit_code=None,
        duration_ms=None,
        fail_class=FailClass.OTHER,
        message=text,
        fingerprint=gating.fingerprint(FailClass.OTHER, gate.run, text),
    )


def _passed(record: ExitRecord | None) -> bool:
    return record is not None and record.cause is ExitCause.EXITED and record.exit_code == 0


def _was_ended(record: ExitRecord | None) -> bool:
    """True when somebody ended the gate, so that it has said nothing."""
    return record is not None and record.cause is ExitCause.ENDED and record.requested_by != KEEPER


def _output(folder: Path, redactor: Redactor) -> bytes:
    """What the gate said, bounded and without secrets: its output, then its errors."""
    streams = (folder / "stdout", folder / "stderr")
    return b"".join(redacted_tail(stream, redactor) for stream in streams)
