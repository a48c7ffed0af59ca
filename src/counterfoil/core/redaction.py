"""Takes secrets out of everything that is about to be recorded; the forwarded copy is not touched.

A value under a sensitive name becomes exactly ``[REDACTED]``; a secret found in text becomes
``[REDACTED:<kind>]``, one that the process holds ``[REDACTED:secret]``. When the redactor itself
fails, nothing of the value is kept but its size, hash and names.
"""

import dataclasses
import hashlib
import json
import re
import threading
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from counterfoil.core.codec import encode_safely
from counterfoil.core.detection import (
    SHORTEST_SECRET,
    KnownSecrets,
    Span,
    find,
    is_sensitive,
    may_hold_name,
    may_hold_pattern,
)
from counterfoil.core.limits import MAX_VALUE_DEPTH
from counterfoil.core.patterns import RULESET

__all__ = ["BLANKED", "RULESET", "Redactor"]

BLANKED = "[REDACTED]"

_SHORTEST_TEXT = 6
_SECRET_VARIABLE = re.compile(r"(PASSWORD|PASSWD|SECRET_KEY_BASE)$|_(KEY|PAT|PASS|PWD)$")
_SHORTEST_KEY = 12
_SHORTEST_PATTERN = 16
_CACHED_NAME = 100


class Redactor:
    """Redacts values, texts and bytes; safe to share between threads."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._known = KnownSecrets(_usable(secrets))

    def register(self, secret: str) -> None:
        """From now on this secret is found in all its encodings; one too short is ignored."""
        with self._lock:
            wanted = self._known.secrets.union(_usable([secret]))
            if wanted != self._known.secrets:
                self._known = KnownSecrets(wanted)

    def register_variables(self, variables: Mapping[str, str]) -> None:
        """Register the values of those environment variables whose names say that they are one.

        More names count here than for the keys of a value: in an environment ``STRIPE_KEY`` is
        a secret, unless what it holds is short or the path of a file.
        """
        for name, value in variables.items():
            named = _SECRET_VARIABLE.search(name) and len(value) >= _SHORTEST_KEY
            if is_sensitive(name) or (named and not value.startswith("/")):
                self.register(value)

    @property
    def known(self) -> KnownSecrets:
        """The secrets registered so far."""
        return self._known

    def value(self, value: Any) -> tuple[Any, tuple[str, ...]]:
        """A copy without secrets and the JSON pointers of what was taken out.

        The value itself, the same object, when nothing was found; it is never changed.
        """
        known = self._known
        try:
            if _looks_clean(value, known):
                return value, ()
            walk = _Walk(known)
            return walk.value(value, 0), tuple(walk.found)
        except Exception:
            return _withheld(value), ("",)

    def text(self, text: str) -> str:
        """The text without secrets, JSON in it included; the same object when it has none."""
        try:
            return _Walk(self._known).text(text, 0)
        except Exception:
            data = text.encode("utf-8", "surrogatepass")
            return f"[WITHHELD: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}]"

    def data(self, data: bytes) -> bytes:
        """Bytes of a transcript without secrets; bytes that are not UTF-8 stay as they are."""
        try:
            text = data.decode("utf-8", "surrogateescape")
            clean = _Walk(self._known).text(text, 0)
            return data if clean is text else clean.encode("utf-8", "surrogateescape")
        except Exception:
            note = f"[WITHHELD: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}]"
            return note.encode("ascii")


class _Walk:
    """One pass over one value, with the pointers of what it took out."""

    def __init__(self, known: KnownSecrets) -> None:
        self.found: list[str] = []
        self._known = known

    def value(self, value: Any, depth: int) -> Any:
        if depth > MAX_VALUE_DEPTH:
            raise RecursionError
        if isinstance(value, str):
            return self._noted(value, self.text(value, depth))
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return self._number(value)
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple):
            return self._sequence(value, depth)
        return self._other(value, depth)

    def text(self, text: str, depth: int) -> str:
        if len(text) < _SHORTEST_TEXT:
            return text
        if may_hold_name(text):
            text = self._json_lines(text, depth)
        spans = find(text, self._known)
        return marked(text, spans) if spans else text

    def _json_lines(self, text: str, depth: int) -> str:
        whole = self._json(text, depth)
        if whole is not text or "\n" not in text:
            return whole
        lines = text.split("\n")
        clean = [self._json(line, depth) for line in lines]
        same = all(new is old for new, old in zip(clean, lines, strict=True))
        return text if same else "\n".join(clean)

    def _json(self, text: str, depth: int) -> str:
        stripped = text.strip()
        if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
            return text
        try:
            document = json.loads(stripped)
        except ValueError:
            return text
        inner = _Walk(self._known)
        clean = inner.value(document, depth + 1)
        if not inner.found:
            return text
        spaced = '": ' in stripped or ", " in stripped
        ascii_only = text.isascii() or "\\u" in text
        separators = None if spaced else (",", ":")
        written = json.dumps(clean, ensure_ascii=ascii_only, separators=separators)
        before, _, after = text.partition(stripped)
        return before + written + after

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        clean: dict[Any, Any] = {}
        same = True
        labelled = _labels_secret(value)
        for key, item in value.items():
            mark = len(self.found)
            if _is_sensitive_key(key) or (labelled and key in ("value", "Value")):
                new = self._under_name(item, depth + 1)
            else:
                new = self.value(item, depth + 1)
            new_key = self._key(key, depth)
            same = same and new is item and new_key is key
            while new_key in clean:
                new_key = f"{new_key}#"
            self._prefix(mark, str(new_key))
            clean[new_key] = new
        return value if same else clean

    def _sequence(self, value: list[Any] | tuple[Any, ...], depth: int) -> Any:
        clean = []
        pairs = bool(value) and all(_is_named_pair(item) for item in value)
        flag = False
        for place, item in enumerate(value):
            mark = len(self.found)
            if flag and isinstance(item, str) and not item.startswith("-"):
                new = self._blank(item)
            elif pairs and _is_sensitive_key(item[0]):
                second = self._blank(item[1])
                new = item if second is item[1] else type(item)((item[0], second))
            else:
                new = self.value(item, depth + 1)
            flag = isinstance(item, str) and item.startswith("--") and is_sensitive(item[2:])
            self._prefix(mark, str(place))
            clean.append(new)
        if all(new is old for new, old in zip(clean, value, strict=True)):
            return value
        return clean if isinstance(value, list) else tuple(clean)

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(value)
            text = data.decode("utf-8", "surrogateescape")
            clean = self._noted(text, self.text(text, depth))
            return value if clean is text else clean.encode("utf-8", "surrogateescape")
        if isinstance(value, set | frozenset):
            members = [(item, self.value(item, depth + 1)) for item in value]
            same = all(new is old for old, new in members)
            return value if same else type(value)(new for _, new in members)
        if isinstance(value, PurePath):
            text = str(value)
            clean = self._noted(text, self.text(text, depth))
            return value if clean is text else clean
        if isinstance(value, Enum):
            inner = self.value(value.value, depth + 1)
            return value if inner is value.value else inner
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            clean_fields = self._mapping(fields, depth)
            return value if clean_fields is fields else clean_fields
        return value

    def _under_name(self, item: Any, depth: int) -> Any:
        if isinstance(item, Mapping) and isinstance(item.get("secret_id"), str):
            return self.value(item, depth)
        return self._blank(item)

    def _blank(self, item: Any) -> Any:
        if item is None or isinstance(item, bool):
            return item
        if isinstance(item, str | bytes | list | tuple | dict) and (not item or item == BLANKED):
            return item
        self.found.append("")
        return BLANKED

    def _number(self, number: int) -> Any:
        if not self._known.numeric:
            return number
        text = str(number)
        clean = self._noted(text, self.text(text, 0))
        return number if clean is text else clean

    def _key(self, key: Any, depth: int) -> Any:
        if not isinstance(key, str):
            return self.value(key, depth + 1)
        if len(key) < _SHORTEST_PATTERN and not self._known:
            return key
        return self._noted(key, self.text(key, depth))

    def _noted(self, old: str, new: str) -> str:
        if new is not old:
            self.found.append("")
        return new

    def _prefix(self, mark: int, step: str) -> None:
        if len(self.found) > mark:
            pointer = "/" + step.replace("~", "~0").replace("/", "~1")
            self.found[mark:] = [pointer + below for below in self.found[mark:]]


def marked(text: str, spans: list[Span]) -> str:
    """The text with each span's kind in its place."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], f"[REDACTED:{span.kind}]")
        at = span.end
    parts.append(text[at:])
    return "".join(parts)


def _usable(secrets: Iterable[str]) -> list[str]:
    return [secret for secret in secrets if len(secret.strip()) >= SHORTEST_SECRET]


def _is_sensitive_key(key: Any) -> bool:
    if isinstance(key, bytes):
        key = key.decode("latin-1")
    if not isinstance(key, str):
        return False
    return is_sensitive(key[-_CACHED_NAME:])


def _labels_secret(value: Mapping[Any, Any]) -> bool:
    """A header or variable spelled out, such as ``{"name": "Authorization", "value": …}``."""
    if len(value) > 8:
        return False
    return any(_is_sensitive_key(value.get(label)) for label in ("name", "key", "Name", "Key"))


def _is_named_pair(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str | bytes)


def _looks_clean(value: Any, known: KnownSecrets) -> bool:
    """True when a quick search over all texts at once finds nothing to look at more closely."""
    texts: list[str] = []
    names: list[str] = []
    if known.numeric or not _gather(value, texts, names, bool(known), 0):
        return False
    text = "\n".join(texts)
    if may_hold_name(text):
        return False
    everything = "\n".join((text, *names)) if names else text
    if may_hold_pattern(everything):
        return False
    return not (known.forms and known.in_text(everything))


def _gather(value: Any, texts: list[str], names: list[str], all_names: bool, depth: int) -> bool:
    """Collect the texts and longer names; False when the value needs the full walk."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str or is_sensitive(key[-_CACHED_NAME:]):
                return False
            if all_names or len(key) >= _SHORTEST_PATTERN:
                names.append(key)
        items: Iterable[Any] = value.values()
    elif kind is list or kind is tuple:
        items = value
    else:
        items = (value,)
    for item in items:
        kind = type(item)
        if kind is str:
            texts.append(item)
        elif kind is dict or kind is list or kind is tuple:
            if depth > MAX_VALUE_DEPTH or not _gather(item, texts, names, all_names, depth + 1):
                return False
        elif not (item is None or kind is int or kind is float or kind is bool):
            return False
    return True


def _withheld(value: Any) -> dict[str, Any]:
    data = encode_safely(value).encode("ascii")
    return {
        "withheld": True,
        "size_bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "names": _names(value),
    }


def _names(value: Any) -> list[str]:
    try:
        names = sorted(key for key in value if isinstance(key, str))
        return [name for name in names if name.isidentifier() and not may_hold_pattern(name)]
    except Exception:
        return []
