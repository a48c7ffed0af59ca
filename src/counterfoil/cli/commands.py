"""The command lines that screens propose; a test parses each of them as the real command would."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from counterfoil.cli.words import is_harmless


@dataclass(frozen=True, slots=True)
class Commands:
    """``ledger`` is repeated in each command that opens it, when it was named by an option."""

    ledger: Path | None = None

    def _line(self, *words: str) -> str:
        more = ("--ledger", str(self.ledger)) if self.ledger else ()
        return shlex.join(("counterfoil", *words, *more))

    def _of_task(self, run_id: str, task_id: str | None, *more: str) -> str:
        """A task whose id a terminal would obey cannot be copied: its run is shown instead."""
        if task_id is None or not is_harmless(task_id):
            return self._line("runs", "show", run_id)
        return self._line("runs", "show", run_id, f"--task={task_id}", *more)

    def show(self, run_id: str, task_id: str | None = None) -> str:
        return self._of_task(run_id, task_id)

    def output(self, run_id: str, task_id: str) -> str:
        return self._of_task(run_id, task_id, "--output")

    def attempt_output(self, run_id: str, attempt_id: str) -> str:
        return self._line("runs", "show", run_id, "--attempt", attempt_id, "--output")

    def events(self, run_id: str) -> str:
        return self._line("runs", "events", run_id)

    def follow(self, run_id: str) -> str:
        return self._line("runs", "events", run_id, "--follow")

    def land(self, run_id: str) -> str:
        return self._line("runs", "land", run_id)

    def resume(self, run_id: str) -> str:
        return self._line("runs", "resume", run_id)

    def recover(self, run_id: str) -> str:
        return self._line("runs", "recover", run_id)

    def runs(self) -> str:
        return self._line("runs", "list")

    def run(self, plan: str) -> str:
        return self._line("run", plan)

    def check(self, plan: str) -> str:
        return shlex.join(("counterfoil", "plan", "check", plan))

    def verify(self, cursor: str, run_id: str) -> str:
        return self._line("verify", run_id, f"--head={cursor}")
