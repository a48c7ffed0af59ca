"""The ledger as one value: where units are done, reads are made and bytes are kept."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from counterfoil.core import limits
from counterfoil.core.clock import Clock
from counterfoil.core.ids import Ids
from counterfoil.core.redaction import Redactor
from counterfoil.core.stream_redaction import StreamRedactor
from counterfoil.ledger import exact, hashing
from counterfoil.ledger.artifacts import Stored
from counterfoil.ledger.unit import Work
from counterfoil.ledger.values import Refusal, Scope
from counterfoil.ledger.writer import GroupWriter, Pending
from counterfoil.ports.blobs import Blobs
from counterfoil.ports.store import Connection, Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ledger:
    """One open ledger in one scope."""

    store: Store
    writer: GroupWriter
    blobs: Blobs
    redactor: Redactor
    clock: Clock
    ids: Ids
    scope: Scope
    key: hashing.HashKey

    def submit(self, work: Work[T]) -> Pending[T]:
        """Hand in a unit; the answer may be a ``Refusal``."""
        return self.writer.submit(work)

    def do(self, work: Work[T | Refusal]) -> T:
        """Do a unit from a plain thread. Raises the refusal."""
        return expect(self.writer.do(work))

    async def perform(self, work: Work[T | Refusal]) -> T:
        """Do a unit from asyncio. Raises the refusal."""
        return expect(await self.writer.submit(work))

    def read(self, question: Callable[[Connection], T]) -> T:
        """Ask one or more questions of one snapshot."""
        with self.store.snapshot() as connection:
            return question(connection)

    async def ask(self, question: Callable[[Connection], T]) -> T:
        """``read`` in a worker thread."""
        return await anyio.to_thread.run_sync(functools.partial(self.read, question))

    def prepare(self, value: Any) -> exact.Exact:
        return exact.prepare(value, self.redactor)

    def keep_exact(self, prepared: exact.Exact) -> Stored | None:
        """Store what is too large for a row, as it was hashed; None when it fits into the row."""
        if prepared.overflow is None:
            return None
        sha256 = self.blobs.put(prepared.overflow)
        return Stored(sha256, prepared.size, "json", "application/json")

    def keep(self, data: bytes, type: str, mime: str = "application/octet-stream") -> Stored:
        """Redact and store bytes; the caller records the artifact afterwards."""
        recorded = self.redactor.data(data)
        return Stored(self.blobs.put(recorded), len(recorded), type, mime)

    def keep_file(self, path: Path, type: str, *, meta: dict[str, Any]) -> Stored:
        """Redact and store a file's bytes without holding them in memory."""
        redacted = path.with_name(f"{path.name}.redacted")
        stream = StreamRedactor(self.redactor)
        try:
            with path.open("rb") as source, redacted.open("wb") as target:
                redacted.chmod(0o600)
                while chunk := source.read(limits.READ_CHUNK_BYTES):
                    target.write(stream.feed(chunk))
                target.write(stream.finish())
            sha256, size = self.blobs.put_file(redacted)
        finally:
            redacted.unlink(missing_ok=True)
        return Stored(sha256, size, type, "text/plain", meta)


def expect(value: T | Refusal) -> T:
    """The value, or the refusal raised as an error."""
    if isinstance(value, Refusal):
        raise value.error()
    return value
