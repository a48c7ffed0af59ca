"""The append-only record: gapless and hash-chained, written with the rows it tells of.

Sequence numbers are given out under the lock of the stream's head row, so commit order is
sequence order and no reader can pass a gap that fills later. The chain covers the headers (the
moves among them) and the hash of the body, so that a body can later be withheld and the chain
still stands, and still proves every state.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.core import codec
from counterfoil.ledger.events import EventKind
from counterfoil.ledger.queries import queries
from counterfoil.ledger.unit import Head, Unit
from counterfoil.ledger.values import EntryRow, Refusal, RefusalCode, Scope
from counterfoil.ports.store import Connection

_SQL = queries("journal")
_NOBODY = codec.encode([None, None])
PAGE = 500


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where an entry stands: ``<seq>-<first 8 of its hash>`` on the wire."""

    stream: str
    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}-{self.hash[:8]}"


def genesis(scope: Scope, stream: str) -> str:
    """The hash before a stream's first entry: it binds the chain to its stream."""
    return _sha256(f"{scope.tenant_id}\n{scope.workspace_id}\n{stream}")


def body_hash(payload: str) -> str:
    return _sha256(payload)


@dataclass(frozen=True, slots=True)
class Header:
    """What of an entry the chain covers directly, beside the hash before it."""

    seq: int
    kind: str
    at: int
    task_id: str | None
    attempt_id: str | None
    moves: str
    body_sha256: str

    def hash_after(self, previous: str) -> str:
        nobody = self.task_id is None and self.attempt_id is None
        owner = _NOBODY if nobody else codec.encode([self.task_id, self.attempt_id])
        return _sha256(
            f"{previous}\n{self.seq}\n{self.kind}\n{self.at}\n{owner}\n{self.moves}\n"
            f"{self.body_sha256}"
        )


def header_of(entry: EntryRow) -> Header:
    """The header of an entry as it is stored now."""
    return Header(
        entry.seq,
        entry.kind,
        entry.at,
        entry.task_id,
        entry.attempt_id,
        entry.moves,
        entry.body_sha256,
    )


def append(
    unit: Unit,
    scope: Scope,
    stream: str,
    kind: EventKind,
    payload: Mapping[str, Any],
    *,
    task_id: str | None = None,
    attempt_id: str | None = None,
    fence: int | None = None,
) -> Cursor | Refusal:
    """Append one entry that tells the unit's state changes since the last one.

    ``fence``: the driver's; ``STALE_FENCE`` when another driver has taken the run since.
    Raises ``ValueRefused`` when the payload is not of the kind's shape.
    """
    head = _head(unit, scope, stream)
    if fence is not None and head.fence != fence:
        return _stale(stream, head.fence, fence)
    kind.check(payload)
    body, _paths = unit.redactor.value(dict(payload))
    text = codec.encode(body)
    moves = codec.encode([list(move) for move in unit.moves]) if unit.moves else "[]"
    unit.moves.clear()
    body_sha256 = body_hash(text)
    head.seq += 1
    head.advanced = True
    header = Header(head.seq, kind.name, unit.now, task_id, attempt_id, moves, body_sha256)
    head.hash = header.hash_after(head.hash)
    unit.run(
        _SQL["append"],
        scope.params(
            stream=stream,
            seq=head.seq,
            kind=kind.name,
            at=unit.now,
            task_id=task_id,
            attempt_id=attempt_id,
            payload=text,
            moves=moves,
            body_sha256=body_sha256,
            hash=head.hash,
        ),
    )
    return Cursor(stream, head.seq, head.hash)


def refuse_stale(unit: Unit, scope: Scope, run_id: str, fence: int) -> Refusal | None:
    """The refusal that a driver with this fence gets, if any.

    Asked before a driver's first INSERT, so that a stale one hears of its fence and not of a
    row that the driver after it has written already.
    """
    present = _head(unit, scope, run_id).fence
    return None if present == fence else _stale(run_id, present, fence)


def _stale(run_id: str, present: int | None, fence: int) -> Refusal:
    if present is None:
        return Refusal(RefusalCode.NOT_FOUND, f"there is no run {run_id} in this workspace")
    return Refusal(
        RefusalCode.STALE_FENCE,
        f"{run_id} is driven under fence {present}, this driver holds {fence}",
    )


def hand_out(unit: Unit, scope: Scope, run_id: str, fence: int) -> None:
    """Have the rest of the unit know the fence that it has just given to the run's driver."""
    _head(unit, scope, run_id).fence = fence


def _head(unit: Unit, scope: Scope, stream: str) -> Head:
    name = (scope.tenant_id, scope.workspace_id, stream)
    known = unit.heads.get(name)
    if known is not None:
        return known
    row = unit.one(_SQL["head"], scope.params(stream=stream))
    head = (
        Head(scope, stream, row[0], row[1], row[2], stored=True)
        if row is not None
        else Head(scope, stream, 0, genesis(scope, stream), None, stored=False)
    )
    unit.heads[name] = head
    return head


def write_heads(unit: Unit) -> None:
    """Store where the unit left each stream. The writer calls it when the unit has returned."""
    for head in unit.heads.values():
        if head.advanced:
            statement = _SQL["advance_head"] if head.stored else _SQL["open_head"]
            stand = head.scope.params(stream=head.stream, seq=head.seq, hash=head.hash)
            unit.run(statement, stand)


def last_entries(unit: Unit) -> list[tuple[Scope, Cursor]]:
    """The newest entry of each stream that the unit wrote to: the proof of its commit."""
    return [
        (head.scope, Cursor(head.stream, head.seq, head.hash))
        for head in unit.heads.values()
        if head.advanced
    ]


def holds(connection: Connection, scope: Scope, cursor: Cursor) -> bool:
    """True when exactly this entry is in the journal."""
    row = connection.one(_SQL["entry_hash"], scope.params(stream=cursor.stream, seq=cursor.seq))
    return row is not None and row[0] == cursor.hash


def entries(
    connection: Connection, scope: Scope, stream: str, *, since: int = 0
) -> Iterator[EntryRow]:
    """The entries after ``since``, in order, read in pages."""
    while True:
        rows = connection.all(_SQL["since"], scope.params(stream=stream, since=since, most=PAGE))
        for row in rows:
            yield EntryRow(*row)
        if len(rows) < PAGE:
            return
        since = rows[-1][3]


def streams(connection: Connection, scope: Scope) -> Iterator[Cursor]:
    """The heads of all streams, by name."""
    after = ""
    while True:
        rows = connection.all(_SQL["streams"], scope.params(after=after, most=PAGE))
        for row in rows:
            yield Cursor(*row)
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
