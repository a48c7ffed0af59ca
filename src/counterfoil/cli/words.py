"""How values are written for people: states, durations, tokens, times, and text made harmless."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from counterfoil.ledger.states import ExecutionStatus, TaskStatus

NOTHING = "-"
"""What stands where nothing is known; unknown is never 0."""

_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_HARMFUL_IN_LINES = re.compile(f"(?![\t\n]){_HARMFUL.pattern}")
_BLANKS = re.compile(r"[\t\n\r\f\v ]+")


@dataclass(frozen=True, slots=True)
class Mark:
    """A state's sign, its sign where only ASCII can be shown, and its style."""

    sign: str
    ascii: str
    style: str


TASK_MARKS: Mapping[str, Mark] = {
    TaskStatus.WAITING: Mark("·", ".", "dim"),
    TaskStatus.READY: Mark("○", "o", ""),
    TaskStatus.RUNNING: Mark("●", "*", "cyan"),
    TaskStatus.PAUSED: Mark("‖", "=", "yellow"),
    TaskStatus.WAITING_DECISION: Mark("?", "?", "yellow"),
    TaskStatus.BLOCKED: Mark("⊘", "#", "red"),
    TaskStatus.MERGED: Mark("✓", "+", "green"),
    TaskStatus.NO_CHANGE: Mark("≡", "~", "green"),
    TaskStatus.FAILED: Mark("✗", "x", "red"),
    TaskStatus.CONFLICT: Mark("!", "!", "red"),
    TaskStatus.CANCELED: Mark("–", "-", "dim"),
    TaskStatus.IMPORTED_DONE: Mark("✓", "+", "dim"),
}

RUN_STYLES: Mapping[str, str] = {
    ExecutionStatus.SUCCEEDED: "green",
    ExecutionStatus.FAILED: "red",
    ExecutionStatus.CANCELED: "red",
    ExecutionStatus.EXPIRED: "red",
    ExecutionStatus.PAUSED: "yellow",
    ExecutionStatus.RUNNING: "cyan",
}


def state(status: str) -> str:
    return status.replace("_", " ")


def harmless(text: str) -> str:
    """One line that no terminal obeys: control and direction characters are spelled out."""
    return _HARMFUL.sub(_spelled, _BLANKS.sub(" ", text)).strip()


def is_harmless(text: str) -> bool:
    return _HARMFUL.search(text) is None


def harmless_lines(text: str) -> str:
    """``harmless`` for text of several lines: their ends and tabs stay."""
    return _HARMFUL_IN_LINES.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def count(number: int, one: str, many: str = "") -> str:
    """``1 task``, ``2 tasks``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(milliseconds: int | None) -> str:
    """``0.4 s``, ``42 s``, ``3 min 05 s``, ``2 h 04 min``."""
    if milliseconds is None:
        return NOTHING
    seconds = max(milliseconds, 0) / 1000
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def short_number(number: int) -> str:
    """``950``, ``12.3k``, ``1.2M``."""
    if number < 1_000:
        return str(number)
    if number < 999_950:
        return f"{number / 1_000:.1f}k"
    return f"{number / 1_000_000:.1f}M"


def clock_time(at: int) -> str:
    """The local time of day of a time in microseconds."""
    return datetime.fromtimestamp(at / 1_000_000).strftime("%H:%M:%S")


def date_time(at: int | None) -> str:
    """The local date and time of a time in microseconds."""
    if at is None:
        return NOTHING
    return datetime.fromtimestamp(at / 1_000_000).strftime("%Y-%m-%d %H:%M:%S")


def commit(sha: str) -> str:
    return sha[:10]
