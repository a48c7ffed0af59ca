"""Reads single known fields of a plan's objects: right ones become values, wrong ones faults."""

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.plans.faults import FaultCode, Findings, Line, shown
from counterfoil.plans.positions import Path

MAX_SECONDS = 31_536_000
"""One year: the longest time limit that a plan may ask for."""

_DRIVE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ARGV_HINT = 'write an argv list such as ["make", "test"]'


@dataclass(slots=True)
class Fields:
    """The fields of one object. A field that is null counts as absent.

    ``what`` names the object in messages, ``where`` is the path from the line to it.
    """

    findings: Findings
    line: Line
    values: Mapping[str, Any]
    what: str
    where: Path = ()
    task_id: str | None = None

    def within(self, path: Path, values: Mapping[str, Any], what: str) -> "Fields":
        """An object inside this one."""
        where = (*self.where, *path)
        return Fields(self.findings, self.line, values, what, where, self.task_id)

    def fault(self, path: Path, code: FaultCode, message: str, hint: str = "") -> None:
        """A fault of this object, its name put before the message."""
        self.findings.fault(
            self.line,
            (*self.where, *path),
            code,
            f"{self.what}: {message}",
            hint,
            self.task_id,
        )

    def _wrong(self, name: str, code: FaultCode, wanted: str, hint: str = "") -> None:
        self.fault((name,), code, f"`{name}` is {shown(self.values.get(name))}, not {wanted}", hint)

    def text(self, name: str, code: FaultCode) -> str | None:
        """A text that is not blank."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            self._wrong(name, code, "a text")
        elif not value.strip():
            self.fault((name,), code, f"`{name}` is empty", "write it out or leave it out")
        elif "\0" in value:
            self.fault((name,), code, f"`{name}` contains a NUL character")
        else:
            return value
        return None

    def argv(
        self, name: str, code: FaultCode, *, may_be_empty: bool = False
    ) -> tuple[str, ...] | None:
        """A command as an argv list; None when absent or wrong."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            self._wrong(name, code, "an argv list", _argv_hint(value))
            return None
        if not isinstance(value, list):
            self._wrong(name, code, "an argv list", _ARGV_HINT)
            return None
        if not value and may_be_empty:
            return ()
        if not value or value[0] == "":
            self.fault((name,), code, f"`{name}` names no program", _ARGV_HINT)
            return None
        return self._strings(name, code, value)

    def strings(self, name: str, code: FaultCode) -> tuple[str, ...]:
        """A list of texts, none empty; () when absent or wrong."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            self._wrong(name, code, "a list of texts", f"write {shown([value])}")
            return ()
        for place, entry in enumerate(value):
            if entry == "":
                self.fault((name, place), code, f"`{name}` number {place + 1} is empty")
                return ()
        return self._strings(name, code, value) or ()

    def _strings(self, name: str, code: FaultCode, value: list[Any]) -> tuple[str, ...] | None:
        for place, entry in enumerate(value):
            if not isinstance(entry, str):
                self.fault(
                    (name, place),
                    code,
                    f"`{name}` number {place + 1} is {shown(entry)}, not a text",
                    f"write {shown(str(entry))}" if isinstance(entry, int | float) else "",
                )
                return None
            if "\0" in entry:
                self.fault((name, place), code, f"`{name}` number {place + 1} contains a NUL")
                return None
        return tuple(value)

    def seconds(self, name: str, code: FaultCode) -> float | None:
        """A time limit: more than 0 and at most a year."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(name, code, "a number of seconds", "write 90 for a minute and a half")
            return None
        if math.isnan(value) or not 0 < value <= MAX_SECONDS:
            self._wrong(name, code, f"more than 0 and at most {MAX_SECONDS:,} seconds")
            return None
        return float(value)

    def whole(
        self, name: str, code: FaultCode, least: int | None = None, most: int | None = None
    ) -> int | None:
        """A whole number, not below ``least`` and not above ``most``."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(name, code, "a whole number")
            return None
        if least is not None and value < least:
            self._wrong(name, code, f"{least} or more")
            return None
        if most is not None and value > most:
            self._wrong(name, code, f"{most} or less")
            return None
        return value

    def mapping(self, name: str, code: FaultCode) -> Mapping[str, Any]:
        """An object; empty when absent or wrong."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._wrong(name, code, "an object")
            return {}
        return value

    def env(self, code: FaultCode) -> Mapping[str, str]:
        """``env``: names and values of environment variables."""
        for key, value in (found := self.mapping("env", code)).items():
            if not key or "=" in key or "\0" in key:
                self.fault(("env", key), code, f"`env` has the impossible name {shown(key)}")
            elif not isinstance(value, str):
                self.fault(
                    ("env", key),
                    code,
                    f"`env` gives {key!r} the value {shown(value)}, not a text",
                    f"quote it: {shown(value if value is None else str(value))}",
                )
            elif "\0" in value:
                self.fault(("env", key), code, f"`env` gives {key!r} a value with a NUL")
        return found

    def refuse_halves(self, *names: str) -> None:
        """Refuse texts in these fields, at any depth, that hold half a surrogate pair.

        Only an escape can bring one in, and nothing can take it: no file, no argv, no terminal.
        """
        if "\\ud" in self.line.text.lower():
            for name in names:
                self._refuse_halves((name,), self.values.get(name))

    def _refuse_halves(self, path: Path, value: object) -> None:
        if isinstance(value, str):
            if half := _SURROGATE.search(value):
                self._half(path, f"holds {shown(half[0])}, half a character")
        elif isinstance(value, list):
            for place, entry in enumerate(value):
                self._refuse_halves((*path, place), entry)
        elif isinstance(value, dict):
            for key, entry in value.items():
                if half := _SURROGATE.search(key):
                    self._half((*path, key), f"has a name with {shown(half[0])}, half a character")
                self._refuse_halves((*path, key), entry)

    def _half(self, path: Path, what: str) -> None:
        hint = "write the character itself, or both halves of its surrogate pair"
        self.fault(path, FaultCode.BAD_TEXT, f"`{path[0]}` {what}", hint)

    def inside(self, path: Path, name: str, value: str) -> None:
        """Refuse a path that is absolute or climbs with ``..``."""
        absolute = value.startswith("/") or _DRIVE.match(value) is not None
        if absolute or ".." in re.split(r"[\\/]", value):
            self.fault(
                path,
                FaultCode.PATH_ESCAPES,
                f"`{name}` holds {shown(value)}, which "
                + ("is absolute" if absolute else "climbs with `..`"),
                "write it relative to the repository's root, without `..`",
            )


def _argv_hint(command: str) -> str:
    shell = shown(["sh", "-c", command], 200)
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        return f"write an argv list; where a shell is meant, say so: {shell}"
    return f"write {shown(words, 200)}; where a shell is meant, say so: {shell}"


def identifier(value: object) -> str | None:
    """An id as the opaque text that it is: whole numbers become texts; None for all else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None
