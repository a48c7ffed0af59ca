"""What can be wrong with a plan, by stable codes, and the list on which all of it is kept."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from counterfoil.plans.model import Fault
from counterfoil.plans.positions import Path, Positions, positions


class FaultCode(StrEnum):
    """Every code that a fault of a plan can carry."""

    EMPTY_PLAN = "EMPTY_PLAN"
    NOT_UTF8 = "NOT_UTF8"
    NUL_BYTE = "NUL_BYTE"
    NOT_JSONL = "NOT_JSONL"
    LINE_TOO_LONG = "LINE_TOO_LONG"
    SYNTAX = "SYNTAX"
    TOO_DEEP = "TOO_DEEP"
    BAD_NUMBER = "BAD_NUMBER"
    NOT_AN_OBJECT = "NOT_AN_OBJECT"
    DUPLICATE_KEY = "DUPLICATE_KEY"
    HEADER_NOT_FIRST = "HEADER_NOT_FIRST"
    BAD_HEADER = "BAD_HEADER"
    MISSING_ID = "MISSING_ID"
    EMPTY_ID = "EMPTY_ID"
    BAD_ID = "BAD_ID"
    DUPLICATE_ID = "DUPLICATE_ID"
    NO_WORK = "NO_WORK"
    TWO_WORKS = "TWO_WORKS"
    BAD_TEXT = "BAD_TEXT"
    BAD_TITLE = "BAD_TITLE"
    BAD_PROMPT = "BAD_PROMPT"
    BAD_RUN = "BAD_RUN"
    BAD_DEPENDS_ON = "BAD_DEPENDS_ON"
    UNKNOWN_DEPENDENCY = "UNKNOWN_DEPENDENCY"
    SELF_DEPENDENCY = "SELF_DEPENDENCY"
    CYCLE = "CYCLE"
    BAD_FILES = "BAD_FILES"
    PATH_ESCAPES = "PATH_ESCAPES"
    BAD_GATE = "BAD_GATE"
    DUPLICATE_GATE = "DUPLICATE_GATE"
    BAD_PREPARE = "BAD_PREPARE"
    BAD_ENV = "BAD_ENV"
    BAD_AGENT = "BAD_AGENT"
    BAD_AGENT_OPTIONS = "BAD_AGENT_OPTIONS"
    UNKNOWN_AGENT = "UNKNOWN_AGENT"
    BAD_TIMEOUT = "BAD_TIMEOUT"
    BAD_RETRIES = "BAD_RETRIES"
    BAD_PRIORITY = "BAD_PRIORITY"
    BAD_ON_NO_CHANGE = "BAD_ON_NO_CHANGE"
    BAD_CONCURRENCY = "BAD_CONCURRENCY"
    BAD_ACCEPTANCE = "BAD_ACCEPTANCE"


@dataclass(slots=True)
class Line:
    """One line that is a JSON object. Its columns are looked up only when asked for."""

    number: int
    text: str
    value: Mapping[str, Any]
    _positions: Positions | None = None

    @property
    def positions(self) -> Positions:
        if self._positions is None:
            self._positions = positions(self.text)
        return self._positions


@dataclass(slots=True)
class Findings:
    """All faults and notes of one reading."""

    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def at(
        self,
        line: int,
        column: int,
        code: FaultCode,
        message: str,
        hint: str = "",
        task_id: str | None = None,
    ) -> None:
        self.faults.append(Fault(line, column, code.value, message, hint, task_id))

    def fault(
        self,
        line: Line,
        path: Path,
        code: FaultCode,
        message: str,
        hint: str = "",
        task_id: str | None = None,
    ) -> None:
        """A fault at the value that the path leads to."""
        self.at(line.number, line.positions.column(path), code, message, hint, task_id)

    def in_order(self) -> tuple[Fault, ...]:
        return tuple(sorted(self.faults, key=lambda fault: (fault.line, fault.column)))


def shown(value: object, limit: int = 60) -> str:
    """A value as a message shows it: JSON on one line, cut."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates
    return text if len(text) <= limit else text[: limit - 1] + "…"
