"""What a command has said, redacted before anything is cut from it.

A secret of which the cut leaves a part is no longer found, so bytes are redacted first, with a
margin where they were cut already.
"""

from pathlib import Path

from counterfoil.core.redaction import Redactor
from counterfoil.plans.watch import Transcript
from counterfoil.ports.agent import Reader, Report

TAIL_BYTES = 64 * 1024
MARGIN_BYTES = 8 * 1024


class RedactedReader:
    """A reader that hears every line without its secrets."""

    def __init__(self, reader: Reader, redactor: Redactor) -> None:
        self._reader = reader
        self._redactor = redactor

    def feed(self, line: bytes) -> None:
        self._reader.feed(self._redactor.data(line))

    @property
    def finished(self) -> bool:
        return self._reader.finished

    def report(self, stderr_tail: bytes = b"") -> Report:
        return self._reader.report(stderr_tail)


def whole_report(stdout: Path, stderr: Path, reader: Reader, redactor: Redactor) -> Report:
    """Read a finished execution's output from its start with a fresh reader."""
    hearing = RedactedReader(reader, redactor)
    if stdout.exists():
        Transcript(stdout, hearing).finish()
    return hearing.report(redacted_tail(stderr, redactor))


def redacted_tail(path: Path, redactor: Redactor, most: int = TAIL_BYTES) -> bytes:
    """About the last ``most`` bytes of a file, without secrets; none when it is not there."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            begin = max(0, size - most - MARGIN_BYTES)
            file.seek(begin)
            data = redactor.data(file.read(most + MARGIN_BYTES))
    except FileNotFoundError:
        return b""
    return data[MARGIN_BYTES:] if begin else data
