"""Houses on a ledger of their own; nothing of the machine's settings is read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.app.house import House
from counterfoil.app.settings import Settings
from counterfoil.app.wiring import open_ledger
from counterfoil.core.clock import Clock
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.fakes import StillClock
from counterfoil.testing.faults import FaultyStore

OpenHouse = Callable[..., House]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def open_house(settings: Settings, clock: Clock) -> Iterator[OpenHouse]:
    """Opens houses on one ledger. ``house.ledger.store`` is a ``FaultyStore``."""
    opened: list[House] = []

    def go(**given: Any) -> House:
        store = FaultyStore(SqliteStore(settings.ledger_file, synchronous="OFF"))
        opened.append(House(settings, open_ledger(settings, store=store, clock=clock, **given)))
        return opened[-1]

    yield go
    for house in opened:
        house.ledger.store.disarm()
        house.close()


@pytest.fixture
def house(open_house: OpenHouse) -> House:
    return open_house()
