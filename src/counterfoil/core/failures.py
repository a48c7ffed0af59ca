"""An exception as bounded text, whatever it does when it is looked at."""

import traceback
from typing import Any

from counterfoil.core.limits import (
    ERROR_MESSAGE_CHARACTERS,
    TRACEBACK_CHARACTERS,
    cut,
    cut_middle,
)


def describe_error(error: BaseException) -> dict[str, Any]:
    """``type``, ``message`` and ``traceback`` of an exception as bounded text; never raises."""
    message, message_cut = cut(_message(error), ERROR_MESSAGE_CHARACTERS)
    try:
        lines = traceback.TracebackException.from_exception(error, compact=True).format()
        trace, trace_cut = cut_middle("".join(lines), TRACEBACK_CHARACTERS)
    except Exception:
        trace, trace_cut = "", True
    described: dict[str, Any] = {"type": type_name(error), "message": message, "traceback": trace}
    if message_cut or trace_cut:
        described["truncated"] = True
    return described


def type_name(value: Any) -> str:
    """A value's type in words; never raises."""
    try:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return cut(name.removeprefix("builtins."), 200)[0]
    except Exception:
        return "unknown"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its message could not be read)"
