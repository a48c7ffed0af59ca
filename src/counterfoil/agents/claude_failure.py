"""What a Claude Code stream's error means, as one of our classes.

Structured fields decide; the wording of a message is consulted only where they are silent,
and only for what is already known to be an error.
"""

import re
from dataclasses import dataclass

from counterfoil.agents.events import Event, number_in, text_in
from counterfoil.ports.agent import ErrorClass


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error that the stream tells of. ``status`` is HTTP's; ``detail`` a finer kind."""

    kind: str = ""
    status: int | None = None
    detail: str = ""
    text: str = ""
    refused: bool = False


_LIMITS = frozenset(
    {"error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries"}
)
_OVERFLOWS = frozenset({"prompt_too_long", "blocking_limit", "rapid_refill_breaker"})
_NETWORK_DETAILS = frozenset(
    {
        "connection_failed",
        "computer_slept",
        "no_response",
        "stream_idle_timeout",
        "tls_cert_signature_failure",
        "tls_untrusted_ca",
    }
)
_BY_KIND = {
    "account_on_hold": ErrorClass.AUTH,
    "authentication_failed": ErrorClass.AUTH,
    "cloud_credential_error": ErrorClass.AUTH,
    "oauth_org_not_allowed": ErrorClass.AUTH,
    "verification_required": ErrorClass.AUTH,
    "billing_error": ErrorClass.BILLING,
    "rate_limit": ErrorClass.RATE_LIMIT,
    "overloaded": ErrorClass.PROVIDER,
    "server_error": ErrorClass.PROVIDER,
    "model_not_found": ErrorClass.PROVIDER,
    "max_output_tokens": ErrorClass.LIMIT,
}
_BY_STATUS = {
    401: ErrorClass.AUTH,
    402: ErrorClass.BILLING,
    403: ErrorClass.AUTH,
    413: ErrorClass.CONTEXT_OVERFLOW,
    429: ErrorClass.RATE_LIMIT,
}
_DISK = re.compile(r"\bENOSPC\b|no space left on device|disk quota exceeded", re.I)
_CONNECTION = re.compile(
    r"\bE(?:CONN[A-Z]+|TIMEDOUT|NOTFOUND|AI_AGAIN|PIPE|HOSTUNREACH|NETUNREACH)\b"
    r"|connection (?:error|refused|closed|lost)|fetch failed|socket hang up|timed out",
    re.I,
)
_BY_TEXT = (
    (re.compile(r"credit balance|billing", re.I), ErrorClass.BILLING),
    (
        re.compile(r"prompt is too long|context (?:window|length)", re.I),
        ErrorClass.CONTEXT_OVERFLOW,
    ),
    (
        re.compile(r"rate.?limit|hit your .{0,40}limit|usage limit reached", re.I),
        ErrorClass.RATE_LIMIT,
    ),
    (
        re.compile(r"invalid api key|/login\b|not logged in|oauth token|authentication", re.I),
        ErrorClass.AUTH,
    ),
    (re.compile(r"usage policy|can't help with this|safeguards", re.I), ErrorClass.REFUSED),
    (re.compile(r"overloaded|internal server error", re.I), ErrorClass.PROVIDER),
    (_CONNECTION, ErrorClass.NETWORK),
)
_STATUS_IN_TEXT = re.compile(r"API Error: (\d{3})\b")
_RESET_IN_TEXT = re.compile(r"limit reached\|(\d{10})\b")


def class_of_error(error: ApiError) -> ErrorClass | None:
    """The class of an API error, or None when nothing says what kind it is."""
    if error.refused:
        return ErrorClass.REFUSED
    if _DISK.search(error.text):
        return ErrorClass.DISK
    if error.detail in _NETWORK_DETAILS:
        return ErrorClass.NETWORK
    status = error.status or _status_in(error.text)
    if status is None and error.kind == "server_error" and _CONNECTION.search(error.text):
        return ErrorClass.NETWORK
    if error.kind in _BY_KIND:
        return _BY_KIND[error.kind]
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is not None and status >= 500:
        return ErrorClass.PROVIDER
    return class_of_text(error.text)


def class_of_text(text: str) -> ErrorClass | None:
    """What a program's own words about its failure hint at."""
    if _DISK.search(text):
        return ErrorClass.DISK
    return next((found for pattern, found in _BY_TEXT if pattern.search(text)), None)


def class_of_retry(event: Event) -> ErrorClass | None:
    """What an ``api_retry`` event is waiting for; no HTTP status means no connection."""
    kind, status = text_in(event, "error") or "", number_in(event, "error_status")
    if status is None and kind in ("", "unknown"):
        return ErrorClass.NETWORK
    return class_of_error(ApiError(kind=kind, status=status))


def class_of_result(result: Event, error: ApiError | None) -> ErrorClass | None:
    """None when the result says that the work went well: no error anywhere and an answer.

    ``error`` is the last API error, if no answer came after it. Known to happen: subtype
    ``success`` with ``is_error``, an error's text as the result, and no result at all.
    """
    subtype = text_in(result, "subtype")
    if subtype in _LIMITS:
        return ErrorClass.LIMIT
    if text_in(result, "terminal_reason") in _OVERFLOWS:
        return ErrorClass.CONTEXT_OVERFLOW
    if text_in(result, "stop_reason") == "refusal":
        return ErrorClass.REFUSED
    if result.get("is_error") is not False or subtype != "success" or error is not None:
        said = error or ApiError()
        status = said.status or number_in(result, "api_error_status")
        text = f"{said.text}\n{text_of_result(result)}"
        found = class_of_error(ApiError(said.kind, status, said.detail, text, said.refused))
        return found or ErrorClass.EXIT
    return None if text_in(result, "result") is not None else ErrorClass.NO_RESULT


def text_of_result(result: Event) -> str:
    """The answer, or else the messages of its errors."""
    answer = text_in(result, "result")
    errors = result.get("errors")
    if answer is not None or not isinstance(errors, list):
        return answer or ""
    return "\n".join(str(item) for item in errors)


def reset_in_text(text: str) -> int | None:
    """Seconds since 1970 that older versions append to the message of a used-up limit."""
    found = _RESET_IN_TEXT.search(text)
    return int(found.group(1)) if found else None


def _status_in(text: str) -> int | None:
    found = _STATUS_IN_TEXT.search(text)
    return int(found.group(1)) if found else None
