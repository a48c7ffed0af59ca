"""Reading JSON events that an agent's program wrote: nothing about their shape is trusted."""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

Event = Mapping[str, Any]

_MAX_EXPONENT = 30


def event_of(line: bytes) -> Event | None:
    """The line's JSON object, or None. Undecodable bytes become replacement characters."""
    text = line.decode("utf-8", "replace").lstrip("\ufeff")
    try:
        value = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text_in(event: Event, key: str) -> str | None:
    """The text under a key (lone surrogates replaced), or None when it is anything else."""
    value = event.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def number_in(event: Event, key: str) -> int | None:
    """The whole number ≥ 0 under a key, or None when it is anything else."""
    value = event.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


def money_in(event: Event, key: str) -> Decimal | None:
    """The amount ≥ 0 under a key exactly as it was written, or None."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    amount = Decimal(value)
    if not amount.is_finite() or amount < 0 or abs(amount.adjusted()) > _MAX_EXPONENT:
        return None
    return amount


def object_in(event: Event, key: str) -> Event:
    """The object under a key, or an empty one."""
    value = event.get(key)
    return value if isinstance(value, dict) else {}


def objects_in(event: Event, key: str) -> Sequence[Event]:
    """The objects in the list under a key; anything else in it is left out."""
    value = event.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def tail_of(text: str, characters: int) -> str:
    """The last characters of a text, with a sign when something was left out."""
    stripped = text.strip()
    return stripped if len(stripped) <= characters else "…" + stripped[1 - characters :]
