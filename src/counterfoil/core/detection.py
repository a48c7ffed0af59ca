"""Finds secrets in text: by the table of patterns, by the name before a value, by being known.

It says where a secret stands and of which kind it is; it changes nothing. Searches go by plain
substrings first (an anchor that every match contains), so that text without secrets is fast.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from counterfoil.core.patterns import (
    FURTHER_NAMES,
    NO_SECRET_TOKENS,
    PATTERNS,
    SENSITIVE_NAMES,
)

SHORTEST_SECRET = 6
"""Known secrets shorter than this are not searched for: they would blank ordinary text."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_FOLD = re.compile(r"[^a-z0-9]+")
_SENSITIVE = re.compile(rf"(?:^|_)(?:{'|'.join(SENSITIVE_NAMES + FURTHER_NAMES)})(?:_?\d+)?$")
_NO_SECRET = re.compile(rf"(?:^|_)(?:{'|'.join(NO_SECRET_TOKENS)})_token$")


class Span(NamedTuple):
    """A secret in a text. ``rank`` decides which kind is told when spans overlap."""

    start: int
    rank: int
    end: int
    kind: str


_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrtbf]))"
_SEARCHES = tuple(
    (anchor, re.compile((_EDGE if row.bare else "") + row.regex, re.ASCII), row.kind)
    for row in PATTERNS
    for anchor in row.anchors
)
_ANCHORS = tuple(dict.fromkeys(anchor for anchor, _, _ in _SEARCHES))
_ANCHORS_BY_CHARACTER = tuple(
    (character, tuple(anchor for anchor in _ANCHORS if character in anchor))
    for character in ("-", "_")
)
_OTHER_ANCHORS = tuple(anchor for anchor in _ANCHORS if "-" not in anchor and "_" not in anchor)
_ASSIGNED = (
    *("password", "passwd", "passphrase", "secret", "token", "credential", "credentials"),
    *("authorization", "cookie", "key", "signature", "sig"),
)
_WORDS = (*(word for word in _ASSIGNED if word != "credentials"), "bearer", "basic")

_KNOWN, _PATTERN, _BY_NAME = range(3)


@lru_cache(maxsize=8_192)
def is_sensitive(name: str) -> bool:
    """Whether a value under this name is a secret: one of the names, or a compound ending in one.

    Camel case is split and anything but letters and digits folded, so that ``dbPassword``,
    ``DB-PASSWORD`` and ``db_password`` are alike; ``max_tokens`` and ``author`` are no secrets.
    """
    folded = _FOLD.sub("_", _CAMEL.sub("_", name).lower()).strip("_")
    return _SENSITIVE.search(folded) is not None and _NO_SECRET.search(folded) is None


class KnownSecrets:
    """Secrets that the process holds, in the encodings in which they may turn up."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self.secrets = frozenset(secrets)
        forms = {form for secret in self.secrets for form in _forms(secret)}
        usable = (form for form in forms if len(form) >= SHORTEST_SECRET)
        self.forms = tuple(sorted(usable, key=lambda form: (-len(form), form)))
        self.longest = max(map(len, self.forms), default=0)
        self.longest_with_newline = max(
            (len(form) for form in self.forms if "\n" in form), default=0
        )
        self.numeric = any(form.isdigit() for form in self.forms)

    def __bool__(self) -> bool:
        return bool(self.forms)

    def in_text(self, text: str) -> bool:
        return _holds_any(text, self.forms)

    def spans(self, text: str) -> list[Span]:
        spans = []
        for form in self.forms:
            place = text.find(form)
            while place >= 0:
                spans.append(Span(place, _KNOWN, place + len(form), "secret"))
                place = text.find(form, place + 1)
        return spans


def may_hold_pattern(text: str) -> bool:
    """False when no row of the table can match."""
    for character, anchors in _ANCHORS_BY_CHARACTER:
        if character in text and _holds_any(text, anchors):
            return True
    return _holds_any(text, _OTHER_ANCHORS)


def may_hold_name(text: str) -> bool:
    """False when no sensitive name can be in the text."""
    return _holds_any(text.lower(), _WORDS)


def _holds_any(text: str, parts: tuple[str, ...]) -> bool:
    for part in parts:  # noqa: SIM110 - twice as fast as any() here, on the hot path
        if part in text:
            return True
    return False


def find(text: str, known: KnownSecrets) -> list[Span]:
    """All secrets in a text, in order and apart from each other."""
    spans = known.spans(text) if known else []
    if may_hold_pattern(text):
        for anchor, regex, kind in _SEARCHES:
            if anchor in text:
                spans += _probe(text, anchor, partial(_match, regex, kind, text))
    if may_hold_name(text):
        spans += _by_name(text)
    return _apart(spans) if spans else spans


def _probe(text: str, part: str, probe: Callable[[int], Span | None]) -> Iterator[Span]:
    """Ask at each place of a part; what lies inside a find is not asked again."""
    place = text.find(part)
    while place >= 0:
        span = probe(place)
        if span:
            yield span
        place = text.find(part, max(span.end if span else 0, place + 1))


def _match(regex: re.Pattern[str], kind: str, text: str, place: int) -> Span | None:
    match = regex.match(text, place)
    if match is None:
        return None
    group = match.lastindex or 0
    return Span(match.start(group), _PATTERN, match.end(group), kind)


def _apart(spans: list[Span]) -> list[Span]:
    """Overlapping spans become one, told as the best known of those that start it."""
    spans.sort(key=lambda span: (span.start, span.rank, -span.end))
    merged = [spans[0]]
    for span in spans[1:]:
        last = merged[-1]
        if span.start >= last.end:
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = last._replace(end=span.end)
    return merged


_SEPARATOR = re.compile(r"""\\*["'`]?\]?([ \t]*)(=>|:=|={1,3}|:(?![:/]))([ \t]*)""")
_FLAG_GAP = re.compile(r"[ \t]+(?!-)")
_OPENING = re.compile(r"""[bru]?\[?(\\*["'])""")
_BARE = re.compile(
    r"(?:\[REDACTED(?::[a-z-]+)?\]|\[(?!REDACTED[:\]]))?"
    r"""([^\s"'`,;&<>(){}\[\]\\|]{1,2048})"""
)
_ENVIRONMENT = re.compile(r"""((?:[^\s"'`\\]+|\\(?![nrtu"'\\]))+)""")
_HEADER = re.compile(r"""((?:[^\r\n"'`\\]+|\\(?![nr"']))+)""")
_SCHEME_VALUE = re.compile(r"(?i:bearer|basic|token|digest|negotiate|apikey)[ \t]+\S")
_SCHEMES = {
    "bearer": re.compile(r"(?:[ \t]+|%20|\+)([A-Za-z0-9._~+/=-]{8,})", re.ASCII),
    "basic": re.compile(r"(?:[ \t]+|%20|\+)([A-Za-z0-9+/=_-]{6,2048})", re.ASCII),
}
_LONGEST_QUOTED = 16_384
_AT_END = re.compile(r"[ \t]*(?:[;,]?[ \t]*$|\\[nr])", re.MULTILINE)
_MARKED = re.compile(r"\[REDACTED(?::[a-z-]+)?\]")
_CODE_PATH = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+[:,]?")
_STRONG = re.compile(r"[0-9!@#$%^*+=]")
_REFERENCE = re.compile(r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\{.*\}|\{\{.*\}\}|[*.xX]+|%s")
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_NO_VALUES = frozenset(
    (
        *("any", "bool", "boolean", "bytes", "int", "integer", "number", "object", "str"),
        *("string", "text", "void", "unknown", "secretstr", "optional", "required", "self"),
        *("none", "null", "undefined", "true", "false", "yes", "no", "value"),
    )
)
_FOLLOWING = frozenset("\"'`\\] \t:=_0123456789")
_COUNTED = re.compile(r"_?\d{1,2}(?!\w)")
_QUERY_STARTS = ("?", "&", "\\u0026", "&amp;")


def _by_name(text: str) -> list[Span]:
    """Values that stand behind a sensitive name, and credentials behind their scheme."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a few letters change their length; only ASCII matters here
        lowered = re.sub("[A-Z]+", lambda found: found[0].lower(), text)
    spans: list[Span] = []
    for word in _ASSIGNED:
        if word in lowered:
            spans += _probe(lowered, word, partial(_assigned, text, len(word)))
    for scheme in _SCHEMES:
        if scheme in lowered:
            spans += _probe(lowered, scheme, partial(_credential, text, scheme))
    return spans


def _credential(text: str, scheme: str, place: int) -> Span | None:
    match = _SCHEMES[scheme].match(text, place + len(scheme))
    if match is None or (place and text[place - 1].isalnum()):
        return None
    if not _is_credential(scheme, match[1]):
        return None
    return Span(match.start(1), _BY_NAME, match.end(1), scheme)


def _assigned(text: str, length: int, place: int) -> Span | None:
    end = place + length
    if text[end : end + 1] not in _FOLLOWING:
        return None
    counted = _COUNTED.match(text, end)
    end = counted.end() if counted else end
    start = place
    while start > 0 and end - start < 100 and text[start - 1] in _NAME_CHARACTERS:
        start -= 1
    if text[start : start + 5] == "u0026" and text[start - 1 : start] == "\\":
        start += 5
    name = text[start:end]
    separator = _SEPARATOR.match(text, end)
    query = text.endswith(_QUERY_STARTS, max(0, start - 6), start)
    if query and separator and separator[2] == "=" and _is_query_name(name):
        return _value_span(_BARE.match(text, separator.end()), "query")
    if not is_sensitive(name):
        return None
    if separator is None:
        gap = _FLAG_GAP.match(text, end) if name.startswith("--") else None
        return _loose(text, gap.end(), False, name) if gap else None
    return _after(text, start, name, separator)


def _after(text: str, start: int, name: str, separator: re.Match[str]) -> Span | None:
    """The value after ``name`` and its separator, by what kind of text it looks like."""
    at = separator.end()
    header = name.lower().endswith(("authorization", "cookie"))
    if header and separator[0].lstrip().startswith(":"):
        opens = start == 0 or text[start - 1] in "\n\"'`" or text[start - 2 : start] == "\\n"
        if opens or _SCHEME_VALUE.match(text, at):
            span = _value_span(_HEADER.match(text, at), "header")
            if span:
                return span
    tight = not separator[1] and not separator[3] and separator[2] == "="
    if tight and name.isupper():
        span = _value_span(_ENVIRONMENT.match(text, at), "assignment")
        if span:
            return span
    return _loose(text, at, tight, name)


def _loose(text: str, at: int, tight: bool, name: str) -> Span | None:
    """A quoted value, or an unquoted one that does not look like code or prose."""
    opening = _OPENING.match(text, at)
    if opening:
        return _quoted(text, opening)
    match = _BARE.match(text, at)
    if match is None or text[match.end() : match.end() + 1] in ("(", "["):
        return None
    value = match[1]
    if value.lower() in _NO_VALUES or value.lower() == name.lower().rpartition(".")[2]:
        return None
    if _CODE_PATH.fullmatch(value):
        return None
    if tight:
        plausible = len(value) >= 3
    else:
        ends = _AT_END.match(text, match.end()) is not None
        plausible = len(value) >= 6 and (ends or _STRONG.search(value) is not None)
    return _value_span(match, "assignment") if plausible else None


def _quoted(text: str, opening: re.Match[str]) -> Span | None:
    """Up to the same quote with as many backslashes before it, on the same line."""
    start = opening.end()
    quote_mark = opening[1]
    end = text.find(quote_mark, start, start + _LONGEST_QUOTED)
    while end > start and text[end - 1] == "\\":
        end = text.find(quote_mark, end + 1, start + _LONGEST_QUOTED)
    value = text[start:end] if end > start else ""
    if not value or "\n" in value or _no_secret(value):
        return None
    return Span(start, _BY_NAME, end, "assignment")


def _value_span(match: re.Match[str] | None, kind: str) -> Span | None:
    if match is None or _no_secret(match[1]):
        return None
    return Span(match.start(1), _BY_NAME, match.end(1), kind)


def _no_secret(value: str) -> bool:
    """A variable's name, a placeholder, or what was redacted before."""
    return _REFERENCE.fullmatch(value) is not None or _MARKED.fullmatch(value) is not None


def _is_query_name(name: str) -> bool:
    last = name.lower().replace("-", "_").rpartition("_")[2]
    return name.lower() == "key" or last in ("sig", "signature") or is_sensitive(name)


def _is_credential(scheme: str, value: str) -> bool:
    """Tells "Bearer x7…" from "bearer authentication"."""
    if scheme == "bearer":
        return _STRONG.search(value) is not None or (len(value) >= 24 and not value.islower())
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except ValueError:
        return False


def _forms(secret: str) -> Iterable[str]:
    """A secret as it is, and as JSON, URLs, HTML, Python, base64 and hex write it."""
    raw = secret.encode("utf-8", "surrogatepass")
    yield secret
    yield raw.decode("latin-1")
    yield secret.strip()
    yield html.escape(secret)
    yield repr(secret)[1:-1]
    for ascii_only in (True, False):
        once = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    for encoded in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), encoded)
    yield raw.hex()
    yield raw.hex().upper()
    for shift in range(3):
        # Only the characters that do not depend on what stands before and after the secret.
        text = base64.b64encode(b"\0" * shift + raw).decode("ascii")
        part = text[(shift * 8 + 5) // 6 : (shift + len(raw)) * 8 // 6]
        yield part
        yield part.replace("+", "-").replace("/", "_")
