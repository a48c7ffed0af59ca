"""Any command as an agent: it says nothing that is read, its exit and its changes tell all."""

from collections.abc import Sequence
from typing import Any

from counterfoil.agents.events import tail_of
from counterfoil.agents.prompt import prompt_of
from counterfoil.core.errors import ValueRefused
from counterfoil.ports.agent import Brief, Launch, Report

GATE_OUTPUT = "COUNTERFOIL_GATE_OUTPUT"

_TAIL_BYTES = 4_096
_MESSAGE_CHARACTERS = 2_000


class CommandAgent:
    """Runs a task's own command, or hands a prompt on stdin to the option ``argv``.

    It inherits the whole environment, as a gate does. A retry finds the path of the failed
    gate's output in ``COUNTERFOIL_GATE_OUTPUT``.
    """

    name = "command"
    terminal_expected = False
    secrets: Sequence[str] = ()
    environment: Sequence[str] = ()

    def launch(self, brief: Brief) -> Launch:
        """Raises ``ValueRefused`` when there is nothing to run."""
        env = {GATE_OUTPUT: str(brief.feedback)} if brief.feedback is not None else {}
        if brief.run is not None:
            return Launch(argv=brief.run, env=env)
        return Launch(argv=_argv(brief), env=env, stdin=prompt_of(brief))

    def reader(self) -> "CommandReader":
        return CommandReader()


class CommandReader:
    """Keeps the end of the output; a command has no event that ends its work."""

    finished = False

    def __init__(self) -> None:
        self._tail = bytearray()

    def feed(self, line: bytes) -> None:
        self._tail += line[-_TAIL_BYTES:] + b"\n"
        del self._tail[:-_TAIL_BYTES]

    def report(self, stderr_tail: bytes = b"") -> Report:
        """The message is the end of stderr, or of stdout when stderr is silent."""
        said = stderr_tail if stderr_tail.strip() else bytes(self._tail)
        return Report(message=tail_of(said.decode("utf-8", "replace"), _MESSAGE_CHARACTERS))


def _argv(brief: Brief) -> tuple[str, ...]:
    argv: Any = brief.options.get("argv")
    if isinstance(argv, list | tuple) and argv and all(isinstance(item, str) for item in argv):
        return tuple(argv)
    raise ValueRefused(
        f"Task {brief.task_id} gives the agent `command` a prompt but no program to read it.",
        hint='Name the program: "agent": {"name": "command", "argv": ["my-agent", "--stdin"]}.',
    )
