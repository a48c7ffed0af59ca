"""Lines from bytes that arrive in pieces: bounded memory, whatever a line's length or content."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from counterfoil.core.errors import IntegrityFault, StoreUnavailable
from counterfoil.core.limits import MAX_LINE_BYTES, READ_CHUNK_BYTES


class Line(NamedTuple):
    """One line without its end; ``cut`` when it was longer than the framer's limit."""

    data: bytes
    cut: bool


class LineFramer:
    r"""Frames lines ended by ``\n`` or ``\r\n``; every other byte is content.

    A line over ``max_line`` bytes is given once, cut, as soon as it is too long; the rest of it
    is skipped up to its end.
    """

    def __init__(self, max_line: int = MAX_LINE_BYTES) -> None:
        self._max_line = max_line
        self._held = bytearray()
        self._skipping = False
        self._fed = 0
        self._unfinished = 0

    @property
    def consumed(self) -> int:
        """Bytes up to the end of the last whole line: the offset from which to read on.

        A line that was given cut before its end came is read, and given, again from there.
        """
        return self._fed - self._unfinished

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines that this chunk completes."""
        self._fed += len(chunk)
        pieces = chunk.split(b"\n")
        lines: list[Line] = []
        for piece in pieces[:-1]:
            self._extend(piece, lines)
            if not self._skipping:
                lines.append(self._line())
            self._skipping = False
            self._unfinished = 0
        self._extend(pieces[-1], lines)
        return lines

    def rest(self) -> Line | None:
        """The last line when nothing more comes and its end is missing."""
        if self._skipping or not self._held:
            return None
        return self._line()

    def _extend(self, piece: bytes, lines: list[Line]) -> None:
        self._unfinished += len(piece)
        if self._skipping:
            return
        room = self._max_line + 1 - len(self._held)  # one more, it may be the \r of the end
        self._held += piece[: room + 1]
        if len(self._held) > self._max_line + 1:
            lines.append(self._line())
            self._skipping = True

    def _line(self) -> Line:
        held = self._held
        if held.endswith(b"\r"):
            del held[-1]
        line = Line(bytes(held[: self._max_line]), len(held) > self._max_line)
        held.clear()
        return line


class FileTail:
    """Reads what is appended to a file, from a stored offset on. Holds no file open."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset

    def read(self, limit: int = READ_CHUNK_BYTES) -> bytes:
        """At most ``limit`` new bytes; none when there are none or the file is not there yet.

        Raises ``IntegrityFault`` when the file is shorter than what was read of it before.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            size = os.fstat(descriptor).st_size
            if size < self.offset:
                raise IntegrityFault(
                    f"{self.path} has {size} bytes, but {self.offset} were read of it before.",
                    hint="Something cut or replaced the file; what it held is lost.",
                )
            data = os.pread(descriptor, limit, self.offset)
        except OSError as error:
            raise self._unreadable(error) from error
        finally:
            os.close(descriptor)
        self.offset += len(data)
        return data

    def chunks(self, limit: int = READ_CHUNK_BYTES) -> Iterator[bytes]:
        """All new bytes until a read finds no more, in chunks of at most ``limit``."""
        while data := self.read(limit):
            yield data

    def _unreadable(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.path} cannot be read: {error.strerror}.",
            hint="Check the disk and the permissions of the folder.",
        )
