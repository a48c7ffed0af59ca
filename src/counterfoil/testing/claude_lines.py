"""Lines of the shapes that Claude Code prints with ``--output-format stream-json``."""

import json
from collections.abc import Callable, Mapping
from typing import Any

SESSION = "00000000-0000-4000-8000-000000000001"
MODEL = "scripted-1"
RESETS_AT = 1_900_000_000

Lines = list[bytes]


def init(session: str) -> Lines:
    return [
        _line(
            type="system",
            subtype="init",
            session_id=session,
            cwd="/",
            model=MODEL,
            permissionMode="bypassPermissions",
            tools=[],
            mcp_servers=[],
            claude_code_version="0.0.0-scripted",
            apiKeySource="none",
        )
    ]


def says(session: str, text: str = "working", **more: Any) -> Lines:
    """An assistant message; its usage is a snapshot that must not be added up."""
    message = {
        "id": "msg_1",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return [
        _line(
            type="assistant", message=message, parent_tool_use_id=None, session_id=session, **more
        )
    ]


def result(session: str, **changes: Any) -> Lines:
    """The terminal event; ``changes`` replace fields, None-valued keys stay."""
    fields: dict[str, Any] = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "done",
        "num_turns": 2,
        "duration_ms": 12,
        "duration_api_ms": 10,
        "session_id": session,
        "total_cost_usd": 0.0017928,
        "usage": {
            "input_tokens": 240,
            "cache_creation_input_tokens": 8,
            "cache_read_input_tokens": 16,
            "output_tokens": 39,
        },
        "modelUsage": {
            MODEL: {
                "inputTokens": 240,
                "outputTokens": 39,
                "cacheReadInputTokens": 16,
                "cacheCreationInputTokens": 8,
                "costUSD": 0.0017928,
                "contextWindow": 200000,
                "maxOutputTokens": 32000,
            }
        },
        "permission_denials": [],
        "terminal_reason": "completed",
        "api_error_status": None,
        "errors": None,
        "structured_output": None,
    }
    return [_line(**(fields | changes))]


def ok(session: str) -> Lines:
    return init(session) + says(session) + result(session)


def cut(session: str) -> Lines:
    """The stream ends in the middle of a line, without a terminal event."""
    return [*init(session), says(session)[0][:60]]


def no_result(session: str) -> Lines:
    return init(session) + says(session)


def rate_limit(session: str) -> Lines:
    """A subscription's limit: success and exit 0 in name, with the reset time at hand."""
    retry = _line(
        type="system",
        subtype="api_retry",
        attempt=1,
        max_retries=2,
        retry_delay_ms=593,
        error_status=429,
        error="rate_limit",
        session_id=session,
    )
    limit = _line(
        type="rate_limit_event",
        rate_limit_info={
            "status": "rejected",
            "resetsAt": RESETS_AT,
            "rateLimitType": "five_hour",
            "utilization": 1.0,
        },
        session_id=session,
    )
    said = says(session, "You have reached your limit", error="rate_limit")
    return [*init(session), retry, limit, *said, *_api_error(session, 429)]


def auth(session: str) -> Lines:
    said = says(session, "Please log in", error="authentication_failed")
    return [*init(session), *said, *_api_error(session, 401)]


def billing(session: str) -> Lines:
    said = says(session, "Credit balance is too low", error="billing_error")
    return [*init(session), *said, *_api_error(session, 400)]


def denied(session: str) -> Lines:
    """Success and exit 0 although a tool was refused and nothing was written."""
    denial = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": "true"}}
    return init(session) + result(session, permission_denials=[denial])


def max_turns(session: str) -> Lines:
    return init(session) + result(
        session, subtype="error_max_turns", is_error=True, terminal_reason="max_turns", result=None
    )


def _api_error(session: str, status: int) -> Lines:
    return result(session, is_error=True, api_error_status=status, terminal_reason="api_error")


def _line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


KINDS: Mapping[str, Callable[[str], Lines]] = {
    "init": init,
    "says": says,
    "result": result,
    "ok": ok,
    "cut": cut,
    "no-result": no_result,
    "rate-limit": rate_limit,
    "auth": auth,
    "billing": billing,
    "denied": denied,
    "max-turns": max_turns,
}
