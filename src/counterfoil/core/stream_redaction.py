"""Redaction of bytes that arrive in pieces: a secret across the border of two is found too."""

from counterfoil.core.detection import find
from counterfoil.core.redaction import Redactor, marked

_WINDOW = 32_768
_NAME_ROOM = 256


class StreamRedactor:
    """Redacts a stream of bytes, also secrets that stand across the border of two chunks.

    Whole lines are given out at once. Held back are the unfinished line, a private key that
    has not ended, and what a known secret of several lines may still need; of a line without
    an end at most twice the window.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._buffer = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can be given out now, without secrets."""
        self._buffer += chunk
        cut = self._after_whole_lines()
        ready, self._buffer = self._buffer[:cut], self._buffer[cut:]
        out = self._redactor.data(ready) if ready else b""
        return out + self._part_of_line() if len(self._buffer) > 2 * _WINDOW else out

    def finish(self) -> bytes:
        """The rest, when the stream has ended."""
        ready, self._buffer = self._buffer, b""
        return self._redactor.data(ready)

    def _after_whole_lines(self) -> int:
        buffer = self._buffer
        cut = buffer.rfind(b"\n") + 1
        room = 4 * self._redactor.known.longest_with_newline
        if room:
            cut = buffer.rfind(b"\n", 0, max(0, cut - room)) + 1
        opened = buffer.rfind(b"-----BEGIN", 0, cut)
        private = opened >= 0 and b"PRIVATE KEY" in buffer[opened : opened + 80]
        if private and buffer.find(b"-----END", opened, cut) < 0:
            cut = buffer.rfind(b"\n", 0, opened) + 1
        return cut

    def _part_of_line(self) -> bytes:
        """All but a window, cut where neither a secret nor a name and its value are parted.

        The secrets are marked as they were found in the whole: the part alone may lack the
        quote that ends one.
        """
        text = self._buffer.decode("latin-1")
        spans = find(text, self._redactor.known)
        cut = len(text) - _WINDOW
        after = 0
        for span in spans:
            if span.start - _NAME_ROOM < cut < span.end:
                cut = max(after, span.start - _NAME_ROOM) or cut
                break
            after = span.end
        self._buffer = self._buffer[cut:]
        return marked(text[:cut], [span for span in spans if span.start < cut]).encode("latin-1")
