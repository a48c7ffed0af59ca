"""A unit of work: a function of one transaction that returns a value.

A unit may run more than once (alone again, when its group did not commit), so it touches
nothing but its transaction. A refusal is a value; a unit that returns one leaves nothing.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from counterfoil.core.ids import Ids
from counterfoil.core.redaction import Redactor
from counterfoil.ledger.values import Scope
from counterfoil.ports.store import Connection, Row

T = TypeVar("T")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(slots=True)
class Head:
    """Where a stream stands inside this unit; ``fence`` is its run's, None where there is none.

    ``advanced``: the unit has appended to the stream.
    """

    scope: Scope
    stream: str
    seq: int
    hash: str
    fence: int | None
    stored: bool
    advanced: bool = False


@dataclass(slots=True)
class Unit:
    """What a unit of work sees: the connection, the time of its group, ids, the redactor.

    ``moves`` are the state changes that no journal entry has told yet.
    """

    connection: Connection
    now: int
    ids: Ids
    redactor: Redactor
    moves: list[tuple[str, dict[str, Any], dict[str, Any]]] = field(default_factory=list)
    heads: dict[tuple[str, str, str], Head] = field(default_factory=dict)
    run: Callable[[str, Mapping[str, Any]], None] = field(init=False)
    one: Callable[[str, Mapping[str, Any]], Row | None] = field(init=False)

    def __post_init__(self) -> None:
        self.run, self.one = self.connection.run, self.connection.one

    def text(self, text: str) -> str:
        """A text for a column: redacted, and what no engine can keep (NUL, surrogates) escaped."""
        return _UNSTORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", self.redactor.text(text))


Work = Callable[[Unit], T]
