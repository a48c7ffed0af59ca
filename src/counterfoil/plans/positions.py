"""Where keys and values stand in one line of JSON: read only when a fault needs a column."""

import json
import re
from dataclasses import dataclass, field

Path = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_SCALAR = re.compile(r"[^\s,\]}]+")


@dataclass(slots=True)
class Positions:
    """1-based columns by path; ``doubled`` are keys that their object holds already."""

    values: dict[Path, int] = field(default_factory=dict)
    doubled: list[tuple[Path, int]] = field(default_factory=list)

    def column(self, path: Path) -> int:
        """The column of the value at the path, or of the nearest thing that holds it."""
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, 1)


def positions(text: str) -> Positions:
    """Read a line that is known to be valid JSON of bounded depth."""
    found = Positions()
    _value(text, _skip(text, 0), (), found)
    return found


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None, "positions are read of valid JSON only"
    return match.end()


def _value(text: str, at: int, path: Path, found: Positions) -> int:
    found.values[path] = at + 1
    if text[at] == '"':
        return _end(_STRING, text, at)
    if text[at] == "{":
        return _members(text, at, path, found)
    if text[at] == "[":
        return _items(text, at, path, found)
    return _end(_SCALAR, text, at)


def _members(text: str, at: int, path: Path, found: Positions) -> int:
    seen: set[str] = set()
    at = _skip(text, at + 1)
    while text[at] != "}":
        key_end = _end(_STRING, text, at)
        key: str = json.loads(text[at:key_end])
        if key in seen:
            found.doubled.append(((*path, key), at + 1))
        seen.add(key)
        colon = _skip(text, key_end)
        at = _skip(text, _value(text, _skip(text, colon + 1), (*path, key), found))
        if text[at] == ",":
            at = _skip(text, at + 1)
    return at + 1


def _items(text: str, at: int, path: Path, found: Positions) -> int:
    place = 0
    at = _skip(text, at + 1)
    while text[at] != "]":
        at = _skip(text, _value(text, at, (*path, place), found))
        place += 1
        if text[at] == ",":
            at = _skip(text, at + 1)
    return at + 1
