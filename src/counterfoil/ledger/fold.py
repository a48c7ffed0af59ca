"""What the journal says the rows must be: a pure fold over entries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from counterfoil.core import codec
from counterfoil.core.errors import CounterfoilError
from counterfoil.ledger.states import MACHINES

RowKey = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass(slots=True)
class Folded:
    """State columns by row, and what in the journal itself cannot be so.

    ``illegal``: moves that the table of moves has not, and moves that cannot be read.
    """

    rows: dict[RowKey, dict[str, Any]] = field(default_factory=dict)
    illegal: list[str] = field(default_factory=list)


def row_key(table: str, values: Mapping[str, Any]) -> RowKey:
    """What identifies a row within its scope."""
    return table, tuple((name, values[name]) for name in MACHINES[table].key)


def fold(moves: Iterable[tuple[int, str]]) -> Folded:
    """Fold the ``moves`` column of a stream's entries, given as (seq, text)."""
    folded = Folded()
    for seq, text in moves:
        if text == "[]":
            continue
        try:
            for table, key, columns in codec.decode(text):
                _apply(folded, seq, table, key, columns)
        except (CounterfoilError, KeyError, TypeError, ValueError, AttributeError):
            folded.illegal.append(f"entry {seq}: its moves cannot be read")
    return folded


def _apply(
    folded: Folded, seq: int, table: str, key: Mapping[str, Any], columns: Mapping[str, Any]
) -> None:
    machine = MACHINES[table]
    name = row_key(table, key)
    row = folded.rows.setdefault(name, {})
    target, source = columns.get("status"), row.get("status")
    if target is not None and source is not None and not machine.allows(source, target):
        folded.illegal.append(f"entry {seq}: {describe(name)} went from {source} to {target}")
    row.update(columns)


def describe(name: RowKey) -> str:
    table, key = name
    return f"{table} {' '.join(str(value) for _, value in key)}"


def differences(folded: Folded, table: str, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """How a table's rows differ from what the journal says, a sentence each."""
    machine = MACHINES[table]
    found: list[str] = []
    seen: set[RowKey] = set()
    for row in rows:
        name = row_key(table, row)
        seen.add(name)
        told = folded.rows.get(name)
        if told is None:
            found.append(f"{describe(name)} is not told of in the journal")
            continue
        for column in machine.state:
            is_now, was_told = _plain(row[column]), _plain(told.get(column))
            if is_now != was_told:
                found.append(
                    f"{describe(name)}: {column} is {is_now!r}, the journal says {was_told!r}"
                )
    missing = [name for name in folded.rows if name[0] == table and name not in seen]
    found.extend(f"{describe(name)} is in the journal but not in its table" for name in missing)
    return found


def _plain(value: Any) -> Any:
    return "" if value is None else value
