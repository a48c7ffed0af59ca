"""What tasks claim of the repository: whether two sets of globs can meet in one path.

A glob's parts between slashes: ``*`` is any text, ``?`` one character, ``[...]`` one of a set,
``{a,b}`` either, and ``**`` alone any number of parts, none too. ``src/`` and ``src`` claim
everything below; a last part with a dot in it, ``app.py``, is taken for a file unless the other
side names something below it. Where a glob can be read in two ways both count: a claim too wide
costs a wait, one too narrow a conflict.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

MAX_BRACES = 64
"""How many ways of reading the braces of one glob are told apart."""

MAX_RANGE = 1_024
"""How many characters a range in brackets may span; a longer one is read as any character."""


@dataclass(frozen=True, slots=True)
class _Chars:
    """One character: one of ``chars``, or with ``negated`` any other one."""

    chars: frozenset[str]
    negated: bool = False

    def meets(self, other: "_Chars") -> bool:
        if self.negated and other.negated:
            return True
        if self.negated:
            return bool(other.chars - self.chars)
        if other.negated:
            return bool(self.chars - other.chars)
        return not self.chars.isdisjoint(other.chars)


class _Any:
    """Stands for any number of items of a sequence, none too."""


_ANY: Final = _Any()
_ONE = _Chars(frozenset("/"), negated=True)

_Token = _Chars | _Any


@dataclass(frozen=True, slots=True)
class _Part:
    """What stands between two slashes; ``literal`` when it has no wildcard."""

    tokens: tuple[_Token, ...]
    literal: str | None = None

    def meets(self, other: "_Part") -> bool:
        if self.literal is not None and other.literal is not None:
            return self.literal == other.literal
        return _sequences_meet(self.tokens, other.tokens, _Chars.meets)


_Glob = tuple[_Part | _Any, ...]

_T = TypeVar("_T")


def claims_overlap(a: Sequence[str], b: Sequence[str]) -> bool:
    """True when some path may be claimed by both. No claim overlaps with nothing."""
    return any(_globs_meet(one, other) for one in a for other in b)


def outside_claims(paths: Iterable[str], claims: Sequence[str]) -> tuple[str, ...]:
    """The paths that no claim covers, in their order; () when nothing was claimed."""
    if not claims:
        return ()
    below = tuple(f"{claim.rstrip('/')}/" for claim in claims)
    globs = [glob for claim in claims for glob in _readings(claim)]
    return tuple(path for path in paths if not path.startswith(below) and not _covered(path, globs))


def _covered(path: str, globs: Sequence[_Glob]) -> bool:
    parts: _Glob = tuple(_plain(text) for text in path.split("/"))
    return any(_sequences_meet(parts, glob, _Part.meets) for glob in globs)


@lru_cache(maxsize=65_536)
def _globs_meet(a: str, b: str) -> bool:
    if a == b or _is_below(a, b) or _is_below(b, a):
        return True
    return any(
        _sequences_meet(one, other, _Part.meets) for one in _readings(a) for other in _readings(b)
    )


def _is_below(glob: str, other: str) -> bool:
    """True when a glob names something below the other, which so must be a directory."""
    directory = other.rstrip("/")
    last = directory.rpartition("/")[2]
    return not set(last) & set("*?[{") and glob.startswith(f"{directory}/")


def _sequences_meet(
    a: Sequence[_T | _Any], b: Sequence[_T | _Any], meets: Callable[[_T, _T], bool]
) -> bool:
    """Whether some sequence fits both patterns, row by row over (place in a, place in b)."""
    row = _skip_any(b, {0})
    for item in a:
        if isinstance(item, _Any):
            least = min(row, default=len(b) + 1)
            row = set(range(least, len(b) + 1))
            continue
        step: set[int] = set()
        for place in row:
            if place == len(b):
                continue
            other = b[place]
            if isinstance(other, _Any):
                step.add(place)
            elif meets(item, other):
                step.add(place + 1)
        row = _skip_any(b, step)
        if not row:
            return False
    return len(b) in row


def _skip_any(b: Sequence[_T | _Any], places: set[int]) -> set[int]:
    """The places, and those behind an _ANY that stands for nothing."""
    for place in sorted(places):
        at = place
        while at < len(b) and isinstance(b[at], _Any):
            at += 1
            places.add(at)
    return places


@lru_cache(maxsize=16_384)
def _readings(glob: str) -> tuple[_Glob, ...]:
    """Every way to read a glob: its braces spread out, its brackets as sets and as they are."""
    found: dict[_Glob, None] = {}
    for spread in _spread_braces(glob):
        found[_read(spread, brackets=True)] = None
        if "[" in spread:
            found[_read(spread, brackets=False)] = None
    return tuple(found)


def _spread_braces(glob: str) -> list[str]:
    pending, done = [glob], []
    while pending:
        text = pending.pop()
        match = re.search(r"\{([^{}]*,[^{}]*)\}", text)
        if match is None:
            done.append(text)
        elif len(pending) + len(done) > MAX_BRACES:
            pending.append(f"{text[: match.start()]}**{text[match.end() :]}")
        else:
            for choice in match[1].split(","):
                pending.append(text[: match.start()] + choice + text[match.end() :])
    return done


def _read(glob: str, *, brackets: bool) -> _Glob:
    parts: list[_Part | _Any] = []
    for text in glob.split("/"):
        if text in ("", "."):
            continue
        if text.strip("*") == "" and len(text) > 1:
            parts.append(_ANY)
        elif "**" in text:
            # ``a**b`` may cross slashes: read as everything that ends in ``b``.
            parts += [_ANY, _part(f"*{text.rpartition('**')[2]}", brackets)]
        else:
            parts.append(_part(text, brackets))
    if not parts or glob.endswith("/") or _may_be_a_directory(parts[-1]):
        parts.append(_ANY)
    return tuple(parts)


def _plain(text: str) -> _Part:
    return _Part(tuple(_Chars(frozenset(char)) for char in text), text)


def _may_be_a_directory(part: _Part | _Any) -> bool:
    """A name without wildcards and without an extension (``.github`` has none)."""
    return isinstance(part, _Part) and part.literal is not None and "." not in part.literal[1:]


def _part(text: str, brackets: bool) -> _Part:
    if not set(text) & ({*"*?["} if brackets else {*"*?"}):
        return _plain(text)
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        token, at = _token(text, at, brackets)
        tokens.append(token)
    return _Part(tuple(tokens))


def _token(text: str, at: int, brackets: bool) -> tuple[_Token, int]:
    char = text[at]
    if char == "*":
        return _ANY, at + 1
    if char == "?":
        return _ONE, at + 1
    if char == "[" and brackets:
        start = at + 2 if text[at + 1 : at + 2] in ("!", "^") else at + 1
        end = text.find("]", start + 1)
        if end > 0:
            return _set(text[start:end], negated=start == at + 2), end + 1
    return _Chars(frozenset(char)), at + 1


def _set(body: str, *, negated: bool) -> _Chars:
    chars: set[str] = set()
    at = 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            low, high = ord(body[at]), ord(body[at + 2])
            if high - low > MAX_RANGE:
                return _ONE
            chars.update(map(chr, range(low, high + 1)))
            at += 3
        else:
            chars.add(body[at])
            at += 1
    return _Chars(frozenset(chars | {"/"} if negated else chars - {"/"}), negated)
