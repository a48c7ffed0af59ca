"""Holders: processes that hold leases, one row each, renewed by one statement.

On one machine life is proven by a held lock file, so time alone expires nobody there.
"""

from dataclasses import dataclass

from counterfoil.ledger.queries import queries
from counterfoil.ledger.states import HolderStatus
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import HolderRow, Refusal, RefusalCode, Scope
from counterfoil.ports.store import Connection

_SQL = queries("holders")
LEASE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Process:
    """The process behind a holder. ``lock_path`` is locked for as long as it lives."""

    id: str
    kind: str
    host: str
    boot_id: str
    pid: int
    lock_path: str


def register(unit: Unit, scope: Scope, process: Process) -> None:
    """Idempotent, as the unit writes no journal entry."""
    if get(unit.connection, scope, process.id) is not None:
        return
    unit.run(
        _SQL["insert"],
        scope.params(
            id=process.id,
            kind=process.kind,
            status=str(HolderStatus.ALIVE),
            host=process.host,
            boot_id=process.boot_id,
            pid=process.pid,
            lock_path=process.lock_path,
            lease_expires_at=unit.now + LEASE_SECONDS * 1_000_000,
            now=unit.now,
        ),
    )


def renew(unit: Unit, scope: Scope, holder_id: str) -> Refusal | None:
    """Extend the lease. ``STALE_FENCE``: the holder was given up for lost or released."""
    row = unit.one(
        _SQL["renew"],
        scope.params(
            id=holder_id,
            lease_expires_at=unit.now + LEASE_SECONDS * 1_000_000,
            now=unit.now,
        ),
    )
    if row is None:
        return Refusal(RefusalCode.STALE_FENCE, f"holder {holder_id} holds nothing any more")
    return None


def finish(unit: Unit, scope: Scope, holder_id: str, status: HolderStatus) -> None:
    """Mark a holder released or lost; one that is already stays as it is."""
    unit.one(
        _SQL["move"],
        scope.params(
            id=holder_id, source=str(HolderStatus.ALIVE), target=str(status), now=unit.now
        ),
    )


def get(connection: Connection, scope: Scope, holder_id: str) -> HolderRow | None:
    row = connection.one(_SQL["get"], scope.params(id=holder_id))
    return HolderRow(*row) if row else None
