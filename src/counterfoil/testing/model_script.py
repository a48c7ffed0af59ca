"""What a scripted model does, request by request, and how that reads on the Messages wire.

Steps are plain values; ``script_from_json`` reads them from a file. Nothing here opens a socket.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from counterfoil.core.errors import ValueRefused

_WORDS = re.compile(r"\s*\S+|\s+")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What an answer says it used. ``input`` is the uncached part."""

    input: int = 40
    output: int = 5
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with text. ``pause_seconds`` lies before each word of a streamed answer."""

    text: str
    tokens: Tokens = Tokens()
    stop: str = "end_turn"
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """Ask the client to run one of its tools."""

    tool: str
    arguments: Mapping[str, Any]
    tokens: Tokens = Tokens()


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an HTTP error and the API's error body."""

    status: int
    kind: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """Begin a streamed answer with ``text`` and break the connection in the middle of it."""

    text: str = "I was about to"


@dataclass(frozen=True, slots=True)
class Hang:
    """Take the request and never answer."""


Step = Say | Call | Refuse | Cut | Hang
Script = Sequence[Step] | Mapping[str, Sequence[Step]]


def rate_limited(resets_at: int | None = None, retry_after_seconds: int | None = None) -> Refuse:
    """HTTP 429. With ``resets_at`` (seconds since 1970) it is a used-up subscription window."""
    headers = {}
    if retry_after_seconds is not None:
        headers["retry-after"] = str(retry_after_seconds)
    if resets_at is not None:
        headers |= {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(resets_at),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "anthropic-ratelimit-unified-5h-reset": str(resets_at),
        }
    return Refuse(429, "rate_limit_error", "This request would exceed your rate limit.", headers)


def out_of_credit() -> Refuse:
    """HTTP 400, as the API answers an account without credit."""
    text = "Your credit balance is too low to access the API. Please go to Plans & Billing."
    return Refuse(400, "invalid_request_error", text)


def bad_key() -> Refuse:
    """HTTP 401."""
    return Refuse(401, "authentication_error", "invalid x-api-key")


def broken(status: int = 500) -> Refuse:
    """HTTP 5xx; 529 is an overloaded service."""
    kind = "overloaded_error" if status == 529 else "api_error"
    return Refuse(status, kind, "Overloaded" if status == 529 else "Internal server error")


def prompt_too_long() -> Refuse:
    """HTTP 400, as the API answers a prompt beyond the model's window."""
    text = "prompt is too long: 214123 tokens > 200000 maximum"
    return Refuse(400, "invalid_request_error", text)


def script_from_json(text: str) -> Script:
    """A list of steps, or an object {words of the prompt: list of steps}.

    Steps are ``{"say": text}``, ``{"call": tool, "arguments": {…}}``, ``{"refuse": status,
    "kind": …, "message": …, "headers": {…}}``, ``{"cut": text}`` and ``{"hang": true}``; the
    first two take ``tokens``, the first ``stop`` and ``pause_seconds``. Raises ``ValueRefused``.
    """
    try:
        value = json.loads(text)
        if isinstance(value, dict):
            return {words: [_step(item) for item in items] for words, items in value.items()}
        return [_step(item) for item in value]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueRefused(
            f"The model script cannot be read: {error}.",
            hint='Steps look like {"say": "text"} or {"call": "Bash", "arguments": {…}}.',
        ) from error


def _step(item: Mapping[str, Any]) -> Step:
    values = dict(item)
    if "tokens" in values:
        values["tokens"] = Tokens(**values["tokens"])
    if "say" in values:
        return Say(values.pop("say"), **values)
    if "call" in values:
        return Call(values.pop("call"), **values)
    if "refuse" in values:
        status = values.pop("refuse")
        return Refuse(status, **({"kind": "api_error", "message": "scripted"} | values))
    if "cut" in values:
        return Cut(values["cut"])
    if "hang" in values:
        return Hang()
    raise ValueRefused(f"No step is named by {sorted(values)}.")


def message(step: Say | Call, model: str, number: str) -> dict[str, Any]:
    """The whole answer as one message object; ``number`` makes its ids unique."""
    block: dict[str, Any] = {"type": "text", "text": step.text} if isinstance(step, Say) else {}
    if isinstance(step, Call):
        block = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": step.tool,
            "input": dict(step.arguments),
        }
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": step.stop if isinstance(step, Say) else "tool_use",
        "stop_sequence": None,
        "usage": _usage(step.tokens),
    }


def events(step: Say | Call, model: str, number: str) -> Iterator[dict[str, Any]]:
    """The same answer as the events of a stream, in order.

    As on the real wire, ``message_start`` carries an output count that is not final.
    """
    whole = message(step, model, number)
    block = whole["content"][0]
    usage = whole["usage"]
    yield _start(whole)
    if isinstance(step, Say):
        yield {"type": "content_block_start", "index": 0, "content_block": block | {"text": ""}}
        for word in _WORDS.findall(step.text):
            yield _delta({"type": "text_delta", "text": word})
    else:
        yield {"type": "content_block_start", "index": 0, "content_block": block | {"input": {}}}
        yield _delta({"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": usage}
    yield {"type": "message_stop"}


def beginning(step: Cut, model: str, number: str) -> Iterator[dict[str, Any]]:
    """The events of an answer that is never finished."""
    whole = message(Say(step.text), model, number)
    yield _start(whole)
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield _delta({"type": "text_delta", "text": step.text})


def _start(whole: Mapping[str, Any]) -> dict[str, Any]:
    opened = {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    return {"type": "message_start", "message": {**whole, **opened}}


def _delta(delta: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def _usage(tokens: Tokens) -> dict[str, int]:
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write,
    }
