"""The one codec: every recorded value becomes canonical ASCII JSON text, and comes back exactly.

Canonical: sorted keys, no spaces, equal values of equal types give equal text. What JSON lacks
is an object with one key that starts with ``~``::

    {"~float":"nan"}          nan (all of them), inf, -inf, -0.0
    {"~int":"9007199254740992"}  beyond 2^53 - 1 either way; 0x… when it is huge
    {"~text":"a%0000"}        text with NUL or surrogates, each (and %) as % and four hex digits
    {"~bytes":"base64"}       {"~tuple":[…]}   {"~set":[…]}   {"~frozenset":[…]}
    {"~map":[[key,value],…]}  an object with a key that is not plain text
    {"~decimal":…} {"~datetime":…} {"~date":…} {"~time":…} {"~duration":[days,s,us]}
    {"~uuid":…} {"~path":…}
    {"~described":{…}}        what could not be recorded (``encode_safely`` only)

A user's own object of that look gets one more ``~``. Types are part of the text: 1, 1.0, True,
"1", [1] and (1,) are six values. One-way conversions: an Enum becomes its value, a dataclass
the object of its fields, any other mapping an object, a subclass of a plain type that type, a
named time zone its offset. The text never holds NUL or a surrogate, escaped or not.
"""

import base64
import dataclasses
import datetime
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, NoReturn
from uuid import UUID

from counterfoil.core.errors import ValueRefused
from counterfoil.core.failures import type_name
from counterfoil.core.limits import MAX_VALUE_COUNT, MAX_VALUE_DEPTH, cut

_MAX_INT = 2**53 - 1
_DECIMAL_BITS = 4_096
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_TO_ESCAPE = re.compile("[%\0\ud800-\udfff]")
_ESCAPED = re.compile("%([0-9a-f]{4})")
_TAGGISH = '{"~'
_NUL = "\\u0000"
_HINT = "Give text, numbers, bytes, lists, dicts, or another type that the codec names."

_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_make_c_encoder = getattr(json.encoder, "c_make_encoder", None)


def _one_encoder() -> Callable[[Any], str]:
    """What ``_encoder.encode`` does, without making a new C encoder for every call."""
    if _make_c_encoder is None:
        return _encoder.encode
    write = json.encoder.encode_basestring_ascii
    chunks = _make_c_encoder(
        None, _encoder.default, write, None, ":", ",", _encoder.sort_keys, False, False
    )
    return lambda value: "".join(chunks(value, 0))


_to_json = _one_encoder()


@dataclasses.dataclass(frozen=True, slots=True)
class Described:
    """Stands in a record for a value that could not be recorded.

    ``type`` names its class. The value itself is not shown: what cannot be walked cannot be
    searched for secrets either.
    """

    type: str
    reason: str


def encode(value: Any) -> str:
    """The canonical text of a value. Raises ``ValueRefused`` for what has no lossless form."""
    try:
        if _plain_count(value, 0) >= 0:
            text = _to_json(value)
            if _TAGGISH not in text and _NUL not in text:
                return text
        return _to_json(_Tagger().tag(value, 0))
    except RecursionError as error:
        raise _too_deep() from error


def decode(text: str) -> Any:
    """The value that ``encode`` was given. Raises ``ValueRefused`` for any other text."""
    try:
        if _TAGGISH not in text:
            return json.loads(text, parse_constant=_refuse_constant)
        return json.loads(text, object_hook=_untag, parse_constant=_refuse_constant)
    except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueRefused(
            f"A recorded value of {len(text)} characters cannot be read: {cut(str(error), 200)[0]}",
            hint="It was altered, or written by a newer version.",
        ) from error


def digest(value: Any) -> str:
    """The sha256 (64 hex digits) of the canonical text."""
    return hashlib.sha256(encode(value).encode("ascii")).hexdigest()


def encode_safely(value: Any) -> str:
    """Like ``encode``, but never raises: what cannot be recorded is described in its place."""
    try:
        return encode(value)
    except Exception as first:
        try:
            return _to_json(_SafeTagger().tag(value, 0))
        except Exception:
            return _to_json(_described(type_name(value), _reason(first)))


def _plain_count(value: Any, depth: int) -> int:
    """How many values there are, or -1 when one of them needs a tag.

    NUL and a look of tags are searched in the finished text instead, which is cheaper.
    """
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str or not (key.isascii() or not _UNSTORABLE.search(key)):
                return -1
        items: Iterable[Any] = value.values()
    elif kind is list:
        items = value
    else:
        items = (value,)
    count = 1
    for item in items:
        kind = type(item)
        if kind is str:
            if not item.isascii() and _UNSTORABLE.search(item):
                return -1
            count += 1
        elif kind is int:
            if not -_MAX_INT <= item <= _MAX_INT:
                return -1
            count += 1
        elif item is None or item is True or item is False:
            count += 1
        elif kind is float:
            if item - item != 0.0 or (item == 0.0 and str(item) == "-0.0"):
                return -1
            count += 1
        elif kind is dict or kind is list:
            if depth >= MAX_VALUE_DEPTH - 1:
                raise _too_deep()
            inner = _plain_count(item, depth + 1)
            if inner < 0:
                return -1
            count += inner
        else:
            return -1
    if count > MAX_VALUE_COUNT:
        raise _too_many()
    return count


class _Tagger:
    """Turns one value into what JSON can hold; refuses what it cannot."""

    limit = MAX_VALUE_COUNT

    def __init__(self) -> None:
        self._count = 0
        self._open: set[int] = set()

    def tag(self, value: Any, depth: int) -> Any:
        self._count += 1
        if self._count > self.limit:
            raise _too_many()
        if isinstance(value, Enum):
            value = value.value
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return _tag_text(str.__str__(value))
        if isinstance(value, int):
            return _tag_int(int.__int__(value))
        if isinstance(value, float):
            return _tag_float(float.__float__(value))
        for leaf, write in _LEAVES:
            if isinstance(value, leaf):
                return write(value)
        return self._enter(value, depth)

    def refuse(self, value: Any, error: ValueRefused) -> Any:
        """Called for each part that has no lossless form."""
        raise error

    def _enter(self, value: Any, depth: int) -> Any:
        if id(value) in self._open:
            return self.refuse(value, ValueRefused("A value contains itself.", hint=_HINT))
        if depth >= MAX_VALUE_DEPTH:
            return self.refuse(value, _too_deep())
        self._open.add(id(value))
        try:
            return self._container(value, depth + 1)
        finally:
            self._open.discard(id(value))

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, list):
            return [self.tag(item, depth) for item in list.__iter__(value)]
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, tuple):
            return {"~tuple": [self.tag(item, depth) for item in tuple.__iter__(value)]}
        if isinstance(value, set | frozenset):
            return self._set(value, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self._mapping(fields, depth)
        error = ValueRefused(f"A value of type {type_name(value)} cannot be recorded.", hint=_HINT)
        return self.refuse(value, error)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        pairs = [(self._key(key, depth), self.tag(item, depth)) for key, item in value.items()]
        if not _all_differ(key for key, _ in pairs):
            return self.refuse(value, ValueRefused("Two keys are recorded alike.", hint=_HINT))
        if all(type(key) is str for key, _ in pairs):
            only = pairs[0][0] if len(pairs) == 1 else ""
            return {"~" + only: pairs[0][1]} if only.startswith("~") else dict(pairs)
        return {"~map": sorted(map(list, pairs), key=lambda pair: _to_json(pair[0]))}

    def _set(self, value: set[Any] | frozenset[Any], depth: int) -> Any:
        members = [self._key(item, depth) for item in value]
        if not _all_differ(members):
            return self.refuse(value, ValueRefused("Two members are recorded alike.", hint=_HINT))
        name = "~set" if isinstance(value, set) else "~frozenset"
        return {name: sorted(members, key=_to_json)}

    def _key(self, key: Any, depth: int) -> Any:
        """A key or a set's member: what comes back must be hashable."""
        tagged = self.tag(key, depth)
        if type(tagged) is str:
            return tagged
        try:
            hash(decode(_to_json(tagged)))
        except TypeError:
            message = f"A {type_name(key)} cannot be a key or a member of a set in a record."
            hint = "Give text, numbers, bytes or tuples of them."
            return self.refuse(key, ValueRefused(message, hint=hint))
        return tagged


class _SafeTagger(_Tagger):
    """Describes what the other one refuses, also what raises when it is looked at."""

    limit = MAX_VALUE_COUNT // 10

    def tag(self, value: Any, depth: int) -> Any:
        try:
            return super().tag(value, depth)
        except Exception as error:
            return _described(type_name(value), _reason(error))

    def refuse(self, value: Any, error: ValueRefused) -> Any:
        return _described(type_name(value), error.message)


def _described(type_name: str, reason: str) -> dict[str, Any]:
    return {"~described": {"type": _tag_text(type_name), "reason": _tag_text(cut(reason, 500)[0])}}


def _all_differ(tagged: Iterable[Any]) -> bool:
    """Whether as many values come back: an Enum and its value are recorded alike."""
    keys = list(tagged)
    return len({key if type(key) is str else decode(_to_json(key)) for key in keys}) == len(keys)


def _tag_text(text: str) -> Any:
    if not _UNSTORABLE.search(text):
        return text
    return {"~text": _TO_ESCAPE.sub(lambda found: f"%{ord(found[0]):04x}", text)}


def _tag_int(number: int) -> Any:
    if -_MAX_INT <= number <= _MAX_INT:
        return number
    huge = number.bit_length() > _DECIMAL_BITS
    return {"~int": hex(number) if huge else str(number)}


def _tag_float(number: float) -> Any:
    if number - number != 0.0 or str(number) == "-0.0":
        return {"~float": str(number)}
    return number


def _tag_bytes(data: bytes | bytearray | memoryview) -> Any:
    return {"~bytes": base64.b64encode(data).decode("ascii")}


_LEAVES: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((bytes, bytearray, memoryview), _tag_bytes),
    (Decimal, lambda value: {"~decimal": str(value)}),
    (datetime.datetime, lambda value: {"~datetime": value.isoformat()}),
    (datetime.date, lambda value: {"~date": value.isoformat()}),
    (datetime.time, lambda value: {"~time": value.isoformat()}),
    (
        datetime.timedelta,
        lambda value: {"~duration": [value.days, value.seconds, value.microseconds]},
    ),
    (UUID, lambda value: {"~uuid": str(value)}),
    (PurePath, lambda value: {"~path": _tag_text(str(value))}),
    (Described, lambda value: _described(value.type, value.reason)),
)


def _untag(found: dict[str, Any]) -> Any:
    if len(found) != 1:
        return found
    ((key, payload),) = found.items()
    if not key.startswith("~"):
        return found
    if key.startswith("~~"):
        return {key[1:]: payload}
    read = _READERS.get(key)
    if read is None:
        raise ValueError(f"the tag {key} is not known")
    return read(payload)


def _read_text(payload: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), payload)


_READERS: dict[str, Callable[[Any], Any]] = {
    "~float": float,
    "~int": lambda payload: int(payload, 0),
    "~text": _read_text,
    "~bytes": lambda payload: base64.b64decode(payload, validate=True),
    "~tuple": tuple,
    "~set": set,
    "~frozenset": frozenset,
    "~map": dict,
    "~decimal": Decimal,
    "~datetime": datetime.datetime.fromisoformat,
    "~date": datetime.date.fromisoformat,
    "~time": datetime.time.fromisoformat,
    "~duration": lambda payload: datetime.timedelta(*payload),
    "~uuid": UUID,
    "~path": Path,
    "~described": lambda payload: Described(**payload),
}


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not canonical")


def _too_deep() -> ValueRefused:
    return ValueRefused(
        f"A value nests deeper than {MAX_VALUE_DEPTH} levels, or contains itself.",
        hint="Keep the inner part as an artifact and record its sha256.",
    )


def _too_many() -> ValueRefused:
    return ValueRefused(
        f"A value holds more than {MAX_VALUE_COUNT} values.",
        hint="Keep it as an artifact and record its sha256.",
    )


def _reason(error: Exception) -> str:
    """Never a foreign error's message: it may show the value, unredacted."""
    if isinstance(error, ValueRefused):
        return error.message
    return f"Looking at it raised {type_name(error)}."
