"""Reads what ``claude -p --output-format stream-json`` writes, and folds it into a report.

Keys come in any order, events of unknown type are passed over, and lines that are no events
are counted: torn, cut, undecodable or printed by somebody else.
"""

from dataclasses import dataclass

from counterfoil.agents.claude_failure import (
    ApiError,
    class_of_error,
    class_of_result,
    class_of_retry,
    class_of_text,
    reset_in_text,
    text_of_result,
)
from counterfoil.agents.claude_usage import summed, usage_of_result
from counterfoil.agents.events import (
    Event,
    event_of,
    number_in,
    object_in,
    objects_in,
    tail_of,
    text_in,
)
from counterfoil.ports.agent import ErrorClass, Report, Terminal, Usage

_MESSAGE_CHARACTERS = 2_000
_TORN_BYTES = 200
_NOT_A_MODEL = "<synthetic>"


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What stood in the way at last: an error, or what a retry waits for."""

    error_class: ErrorClass | None
    message: str


class ClaudeReader:
    """One attempt's stream. A later result replaces an earlier one; their usage adds up."""

    def __init__(self) -> None:
        self._session: str | None = None
        self._model: str | None = None
        self._version: str | None = None
        self._started = False
        self._terminal: Terminal | None = None
        self._usage: list[Usage] = []
        self._uncounted = False
        self._denied: set[str] = set()
        self._error: ApiError | None = None
        self._trouble: _Trouble | None = None
        self._resets_at: int | None = None
        self._unread = 0
        self._torn = b""

    def feed(self, line: bytes) -> None:
        if not line.strip():
            return
        event = event_of(line)
        kind = text_in(event, "type") if event is not None else None
        if event is None or kind is None:
            self._unread += 1
            self._torn = line[:_TORN_BYTES]
            return
        self._torn = b""
        self._session = text_in(event, "session_id") or self._session
        if kind == "system":
            self._read_system(event)
        elif kind == "assistant":
            self._read_assistant(event)
        elif kind == "rate_limit_event":
            self._read_limit(object_in(event, "rate_limit_info"))
        elif kind == "result":
            self._read_result(event)

    @property
    def finished(self) -> bool:
        return self._terminal is not None

    def report(self, stderr_tail: bytes = b"") -> Report:
        """``stderr_tail`` names the reason where the stream ended without a result."""
        if self._terminal is not None:
            error_class, message = self._terminal.error_class, self._terminal.message
        else:
            error_class, message = self._unfinished(stderr_tail.decode("utf-8", "replace"))
        limited = error_class is ErrorClass.RATE_LIMIT
        return Report(
            session=self._session,
            model=self._model,
            version=self._version,
            terminal=self._terminal,
            usage=self._usage_report(),
            denials=len(self._denied),
            error_class=error_class,
            message=message,
            resets_at=(self._resets_at or reset_in_text(message)) if limited else None,
            unread_lines=self._unread,
        )

    def _read_system(self, event: Event) -> None:
        subtype = text_in(event, "subtype")
        if subtype == "init":
            self._started = True
            self._model = text_in(event, "model") or self._model
            self._version = text_in(event, "claude_code_version") or self._version
        elif subtype == "api_retry":
            status, kind = number_in(event, "error_status"), text_in(event, "error")
            told = f"The model's API was being retried ({status or 'no answer'}, {kind})."
            self._trouble = _Trouble(class_of_retry(event), told)
        elif subtype == "permission_denied":
            self._denied.add(text_in(event, "tool_use_id") or f"event {len(self._denied)}")

    def _read_assistant(self, event: Event) -> None:
        if event.get("parent_tool_use_id") is not None:
            return
        message = object_in(event, "message")
        error = _error_in(event, message)
        self._error = error
        self._trouble = None
        if error is not None:
            self._trouble = _Trouble(class_of_error(error), error.text)
            self._read_limit(object_in(object_in(event, "api_error_params"), "rate_limit_info"))
        elif (model := text_in(message, "model")) not in (None, _NOT_A_MODEL):
            self._model = self._model or model
            self._uncounted = True

    def _read_limit(self, info: Event) -> None:
        status = text_in(info, "status")
        if status == "rejected":
            self._resets_at = number_in(info, "resetsAt") or self._resets_at
        elif status is not None:
            self._resets_at = None

    def _read_result(self, event: Event) -> None:
        error_class = class_of_result(event, self._error)
        message = text_of_result(event) or (self._error.text if self._error else "")
        self._terminal = Terminal(
            ok=error_class is None,
            error_class=error_class,
            message=tail_of(message, _MESSAGE_CHARACTERS),
        )
        for number, denial in enumerate(objects_in(event, "permission_denials")):
            self._denied.add(text_in(denial, "tool_use_id") or f"denial {number}")
        self._usage += usage_of_result(event, self._model)
        self._uncounted = False

    def _usage_report(self) -> tuple[Usage, ...]:
        # A model answered and no result followed: something was used, nobody says how much.
        lost = [Usage(model=self._model)] if self._uncounted else []
        return summed([*self._usage, *lost])

    def _unfinished(self, stderr: str) -> tuple[ErrorClass | None, str]:
        if self._trouble is not None:
            return self._trouble.error_class, tail_of(self._trouble.message, _MESSAGE_CHARACTERS)
        if stderr.strip():
            # Before the first event, stderr is the program's own word; later, anybody's.
            hint = None if self._started else class_of_text(stderr)
            return hint, tail_of(stderr, _MESSAGE_CHARACTERS)
        if self._torn:
            torn = self._torn.decode("utf-8", "replace")
            return None, f"The output ends in a line that is no event: {torn}"
        return None, ""


def _error_in(event: Event, message: Event) -> ApiError | None:
    """The API error that an assistant event stands for, if it does."""
    kind = text_in(event, "error") or ""
    flagged = event.get("is_api_error_message") is True or event.get("isApiErrorMessage") is True
    words = "\n".join(text_in(block, "text") or "" for block in objects_in(message, "content"))
    made_up = text_in(message, "model") == _NOT_A_MODEL and class_of_text(words) is not None
    if not (kind or flagged or made_up):
        return None
    return ApiError(
        kind=kind,
        status=number_in(event, "api_error_status"),
        detail=text_in(event, "api_error") or "",
        text=words,
        refused=text_in(message, "stop_reason") == "refusal",
    )
