"""What screens need of a journal beyond the rows: usage, added up, and what failed gates said."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from counterfoil.cli.words import NOTHING, short_number
from counterfoil.ledger.events import GATE_FAIL, TASK_USAGE


@dataclass(slots=True)
class Usage:
    """Tokens of one attempt or task; unknown is None, never 0.

    ``input`` counts what was read from caches and written to them too.
    """

    input: int | None = None
    output: int | None = None

    def add(self, payload: Mapping[str, Any]) -> None:
        for name in ("inputTokens", "cacheReadTokens", "cacheWriteTokens"):
            self.input = _sum(self.input, payload.get(name))
        self.output = _sum(self.output, payload.get("outputTokens"))

    @property
    def known(self) -> bool:
        return self.input is not None or self.output is not None

    def __str__(self) -> str:
        if not self.known:
            return NOTHING
        read = "?" if self.input is None else short_number(self.input)
        written = "?" if self.output is None else short_number(self.output)
        return f"{read} in, {written} out"


def _sum(known: int | None, more: int | None) -> int | None:
    if more is None:
        return known
    return more if known is None else known + more


@dataclass(slots=True)
class Tally:
    """Usage by task and by attempt, and in all; a failed gate's words by attempt, gate and tree."""

    tasks: dict[str, Usage] = field(default_factory=dict)
    attempts: dict[str, Usage] = field(default_factory=dict)
    all: Usage = field(default_factory=Usage)
    gate_words: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def add(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Take in an entry of the journal; most kinds say nothing that is kept here."""
        if kind == GATE_FAIL.name:
            key = (payload.get("attemptId", ""), payload.get("gate", ""), payload.get("tree", ""))
            self.gate_words[key] = str(payload.get("message", ""))
        if kind != TASK_USAGE.name:
            return
        self.tasks.setdefault(str(payload.get("task")), Usage()).add(payload)
        self.attempts.setdefault(str(payload.get("attemptId")), Usage()).add(payload)
        self.all.add(payload)

    def task(self, task_id: str) -> Usage:
        return self.tasks.get(task_id, Usage())

    def attempt(self, attempt_id: str) -> Usage:
        return self.attempts.get(attempt_id, Usage())
