"""The one mover: every status change is one guarded statement, and the journal tells of it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from counterfoil.ledger.queries import queries
from counterfoil.ledger.states import Machine
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import ROWS, Refusal, RefusalCode, Scope
from counterfoil.ports.store import Row

_CHANGEABLE: Mapping[str, tuple[str, ...]] = {
    "runs": (
        "cause",
        "holder_id",
        "output_summary",
        "output_cut",
        "result_json",
        "result_artifact_id",
        "result_size",
        "result_sha256",
        "error_code",
        "error_message",
        "started_at",
        "ended_at",
    ),
    "run_steps": (
        "output_summary",
        "cut",
        "result_json",
        "result_artifact_id",
        "result_size",
        "result_sha256",
        "record_hash",
        "redacted_paths",
        "error_code",
        "error_message",
        "started_at",
        "ended_at",
    ),
    "plan_tasks": ("accepted", "reason", "candidate", "merged_commit"),
    "attempts": (
        "outcome",
        "end_cause",
        "error_class",
        "message",
        "session",
        "holder_id",
        "candidate",
        "tree",
        "exit_json",
        "report_json",
        "duration_ms",
        "started_at",
        "ended_at",
    ),
}
_FENCED = frozenset({"runs", "attempts"})
_AS_RECORDED = frozenset(
    {
        "holder_id",
        "output_summary",
        "result_json",
        "result_artifact_id",
        "result_sha256",
        "record_hash",
        "redacted_paths",
    }
)
"""What ``ledger.exact`` has redacted and hashed already: to look at it again could change it."""


def tell(unit: Unit, machine: Machine, key: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
    """Have the unit's next journal entry carry these state columns of a row."""
    state = {name: columns[name] for name in machine.state if columns.get(name) is not None}
    unit.moves.append((machine.table, dict(key), state))


def move(
    unit: Unit,
    scope: Scope,
    machine: Machine,
    key: Mapping[str, Any],
    source: StrEnum | str,
    target: StrEnum | str,
    *,
    fence: int | None = None,
    **columns: Any,
) -> Row | Refusal:
    """Move one row from ``source`` to ``target`` and set ``columns`` with it.

    Returns the row as it is now, or the refusal: ``ILLEGAL_MOVE`` (the table of moves has no
    such arrow, the present status included), ``NOT_FOUND``, ``STALE_FENCE``, ``CONFLICT``
    (it stands elsewhere by now).
    """
    name = " ".join(str(part) for part in key.values())
    if unknown := columns.keys() - set(_CHANGEABLE[machine.table]):
        raise TypeError(f"{machine.table} has no changeable column {sorted(unknown)[0]}")
    if not machine.allows(source, target):
        return Refusal(
            RefusalCode.ILLEGAL_MOVE,
            f"{machine.table} {name}: {source} does not lead to {target}",
            str(source),
        )
    recorded = {
        column: unit.text(value) if isinstance(value, str) and column not in _AS_RECORDED else value
        for column, value in columns.items()
    }
    values = dict.fromkeys(_CHANGEABLE[machine.table]) | recorded
    parameters = scope.params(**key, **values, source=str(source), target=str(target), now=unit.now)
    if machine.table in _FENCED:
        parameters["fence"] = fence
    row = unit.one(queries(machine.table)["move"], parameters)
    if row is None:
        return _why_not(unit, scope, machine, key, str(source), fence)
    told = {**recorded, "status": str(target)}
    if told.get("result_sha256") is not None and "result_artifact_id" in values:
        told["result_artifact_id"] = told.get("result_artifact_id") or ""  # they move together
    tell(unit, machine, key, told)
    return row


def _why_not(
    unit: Unit,
    scope: Scope,
    machine: Machine,
    key: Mapping[str, Any],
    source: str,
    fence: int | None,
) -> Refusal:
    name = f"{machine.table} {' '.join(str(part) for part in key.values())}"
    row = unit.one(queries(machine.table)["get"], scope.params(**key))
    if row is None:
        return Refusal(RefusalCode.NOT_FOUND, f"{name} does not exist in this workspace")
    present = ROWS[machine.table](*row)
    if fence is not None and present.fence != fence:
        return Refusal(
            RefusalCode.STALE_FENCE,
            f"{name} is held under fence {present.fence}, not {fence}",
            present.status,
        )
    return Refusal(
        RefusalCode.CONFLICT, f"{name} is {present.status}, not {source}", present.status
    )
