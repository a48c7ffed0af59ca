"""Values as recorded: redacted, canonical, inline when small, an artifact when not.

Exact means as recorded, after redaction. Summaries are for people and are cut; a value that is
re-read or compared is never a summary.
"""

from dataclasses import dataclass
from typing import Any

from counterfoil.core import codec, limits
from counterfoil.core.redaction import Redactor
from counterfoil.ledger.hashing import sha256


@dataclass(frozen=True, slots=True)
class Exact:
    """A value ready to be recorded.

    ``inline`` holds the canonical text up to 8,192 bytes; larger text is in ``overflow`` and
    belongs into the artifact store. ``redacted`` are the paths that lost something.
    """

    summary: str
    cut: bool
    inline: str | None
    overflow: bytes | None
    size: int
    sha256: str
    redacted: tuple[str, ...]

    @property
    def redacted_paths(self) -> str:
        return codec.encode(list(self.redacted)) if self.redacted else "[]"


def prepare(value: Any, redactor: Redactor) -> Exact:
    """Redact and encode a value. It always succeeds: what has no form is described instead."""
    recorded, redacted = redactor.value(value)
    text = codec.encode_safely(recorded)
    summary, cut = limits.cut(text, limits.SUMMARY_CHARACTERS)
    data = text.encode("ascii")
    fits = len(data) <= limits.INLINE_BYTES
    return Exact(
        summary=summary,
        cut=cut,
        inline=text if fits else None,
        overflow=None if fits else data,
        size=len(data),
        sha256=sha256(data),
        redacted=tuple(redacted),
    )
