"""One contender in a process of its own, asked over its pipes: one JSON line a question.

A peer's threads and imports then cost nobody else anything. The parent's side is ``Worker``;
the child is ``python -m bench.worker NAME FOLDER``.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from bench.figures import MeasurementFailed

ROOT = Path(__file__).parent.parent
CONTENDERS = {
    "floor": "bench.floor:Floor",
    "own": "bench.own_steps:OwnSteps",
    "dbos": "bench.dbos_steps:Shipped",
    "dbos-wal": "bench.dbos_steps:Wal",
}
ENDING_SECONDS = 30.0


class Contender(Protocol):
    """Made from a folder; every other public method is a question that answers a number."""

    def close(self) -> None: ...


class Worker:
    """A contender's process. Use it as a context manager."""

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._name, self._log = name, folder / "worker.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.worker", name, str(folder)],
                cwd=ROOT,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            self._answer()
        except MeasurementFailed:
            self.close()
            raise

    def ask(self, question: str, **arguments: int) -> float:
        """The contender's answer. Raises ``MeasurementFailed``."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([question, arguments]).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its end is told with its log when the answer does not come
        return float(self._answer())

    def asking(self, question: str, **arguments: int) -> Callable[[], float]:
        return lambda: self.ask(question, **arguments)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(ENDING_SECONDS)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self._log.read_text("utf-8", "replace").strip()[-2000:]
            raise MeasurementFailed(f"{self._name} ended early: {said or 'it said nothing'}")
        return json.loads(line)


def _environment() -> dict[str, str]:
    """Ours without settings: a measurement must not depend on who runs it."""
    return {name: value for name, value in os.environ.items() if not _is_setting(name)}


def _is_setting(name: str) -> bool:
    return name.startswith(("COUNTERFOIL_", "DBOS_", "DBOS__"))


def serve(name: str, folder: Path) -> None:
    """The child: answer until stdin ends. Whatever a library prints goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, _, attribute = CONTENDERS[name].partition(":")
    contender: Contender = getattr(importlib.import_module(module), attribute)(folder)
    try:
        print(json.dumps("ready"), file=answers, flush=True)
        for line in sys.stdin:
            question, arguments = json.loads(line)
            answer = getattr(contender, question)(**arguments)
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        contender.close()


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
