"""Ids: one prefix per table and a UUIDv7 behind it. Order never depends on them."""

from typing import Protocol

RUN = "run"
STEP = "st"
ATTEMPT = "at"
ARTIFACT = "art"
GATE_RESULT = "gr"
HOLDER = "hd"


class Ids(Protocol):
    """Hands out ids such as ``run_0198f2…``: a prefix of this module, one underscore, 32 hex."""

    def new(self, prefix: str) -> str: ...


class SystemIds:
    """Time-ordered random ids (UUIDv7)."""

    def __init__(self) -> None:
        from uuid_utils import uuid7

        self._uuid7 = uuid7

    def new(self, prefix: str) -> str:
        return f"{prefix}_{self._uuid7().hex}"
