"""From the bytes of a JSONL file to its lines as objects; what is not one becomes a fault."""

import codecs
import json
from typing import Any

from counterfoil.core.limits import MAX_PLAN_LINE_BYTES
from counterfoil.plans.faults import FaultCode, Findings, Line, shown

MAX_DEPTH = 100
"""How deep a line's arrays and objects may nest."""


class _BadNumber(ValueError):
    """A number that JSON does not have or that a double cannot hold."""

    def __init__(self, literal: str) -> None:
        super().__init__(literal)
        self.literal = literal


class _Decoder(json.JSONDecoder):
    """JSON as the standard has it, noting whether an object held a key twice."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=self._pairs, parse_constant=_refuse, parse_float=_number)
        self.doubled = False

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            self.doubled = True
        return value


def _refuse(literal: str) -> float:
    raise _BadNumber(literal)


def _number(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise _BadNumber(literal)
    return value


def read_lines(data: bytes, findings: Findings) -> tuple[list[Line], list[str]]:
    """The lines that are objects, and the text of those that are not.

    Blank lines are passed over; a byte order mark and carriage returns at line ends are
    dropped. Columns count characters from 1.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        message = "the plan is UTF-16 text"
        findings.at(1, 1, FaultCode.NOT_UTF8, message, "save it as UTF-8")
        return [], [""]
    data = data.removeprefix(codecs.BOM_UTF8)
    lines: list[Line] = []
    unreadable: list[str] = []
    before = len(findings.faults)
    decoder = _Decoder()
    for number, raw in enumerate(data.split(b"\n"), 1):
        raw = raw.removesuffix(b"\r")
        if not raw.strip():
            continue
        line = _line(number, raw, decoder, findings)
        if line is None:
            unreadable.append(raw[:MAX_PLAN_LINE_BYTES].decode(errors="replace"))
        else:
            lines.append(line)
    if unreadable and _is_one_document(data):
        del findings.faults[before:]
        message = "the plan is one JSON document over several lines"
        findings.at(1, 1, FaultCode.NOT_JSONL, message, "write one task a line, as JSONL")
        return [], unreadable
    return lines, unreadable


def _line(number: int, raw: bytes, decoder: _Decoder, findings: Findings) -> Line | None:
    if len(raw) > MAX_PLAN_LINE_BYTES:
        findings.at(
            number,
            1,
            FaultCode.LINE_TOO_LONG,
            f"the line has {len(raw):,} bytes, more than {MAX_PLAN_LINE_BYTES:,}",
            "keep long texts in files and name them in the prompt",
        )
        return None
    text = _text(number, raw, findings)
    return None if text is None else _object(number, text, decoder, findings)


def _text(number: int, raw: bytes, findings: Findings) -> str | None:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        findings.at(
            number,
            len(raw[: error.start].decode()) + 1,
            FaultCode.NOT_UTF8,
            f"byte 0x{raw[error.start]:02x} is not UTF-8",
            "save the plan as UTF-8",
        )
        return None
    if "\0" in text:
        column = text.index("\0") + 1
        findings.at(number, column, FaultCode.NUL_BYTE, "the line contains a NUL byte")
        return None
    return text


def _object(number: int, text: str, decoder: _Decoder, findings: Findings) -> Line | None:
    decoder.doubled = False
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        message = f"the line is not valid JSON: {error.msg}"
        hint = "write one JSON object a line"
        findings.at(number, error.pos + 1, FaultCode.SYNTAX, message, hint)
        return None
    except RecursionError:
        _too_deep(number, findings)
        return None
    except ValueError as error:
        literal = error.literal if isinstance(error, _BadNumber) else ""
        findings.at(
            number,
            text.find(literal) + 1,
            FaultCode.BAD_NUMBER,
            f"{literal or 'a number'} is not a number that JSON can carry",
            "write it as a text",
        )
        return None
    if not isinstance(value, dict):
        findings.at(
            number,
            len(text) - len(text.lstrip()) + 1,
            FaultCode.NOT_AN_OBJECT,
            f"the line is {shown(value)}, not an object",
            'write one task a line: {"id": "a", "prompt": "..."}',
        )
        return None
    if _nests_deeper(text, value):
        _too_deep(number, findings)
        return None
    line = Line(number, text, value)
    if decoder.doubled:
        _doubled(line, findings)
    return line


def _doubled(line: Line, findings: Findings) -> None:
    for path, column in line.positions.doubled:
        findings.at(
            line.number,
            column,
            FaultCode.DUPLICATE_KEY,
            f"the key {shown(path[-1])} is there twice in one object",
            "keep one: most readers silently take the last",
        )


def _too_deep(number: int, findings: Findings) -> None:
    message = f"the line nests deeper than {MAX_DEPTH} levels"
    findings.at(number, 1, FaultCode.TOO_DEEP, message)


def _nests_deeper(text: str, value: object) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(inner, dict | list) for inner in level)


def _is_one_document(data: bytes) -> bool:
    if b"\n" not in data.strip():
        return False
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
