"""Holders: registered once, renewed while alive, and never brought back to life."""

from typing import Any

import pytest

from counterfoil.ledger import holders
from counterfoil.ledger.states import HolderStatus
from counterfoil.ledger.values import Scope

PROCESS = holders.Process("hd_1", "process", "host", "boot", 7, "lock")


def get(bench: Any) -> Any:
    return bench.read(lambda connection: holders.get(connection, bench.scope, "hd_1"))


def register(bench: Any) -> None:
    bench.submit(lambda unit: holders.register(unit, bench.scope, PROCESS))


def renew(bench: Any, scope: Scope | None = None) -> Any:
    return bench.submit(lambda unit: holders.renew(unit, scope or bench.scope, "hd_1"))


def finish(bench: Any, status: HolderStatus) -> None:
    bench.submit(lambda unit: holders.finish(unit, bench.scope, "hd_1", status))


def test_registering_twice_is_registering_once(bench: Any) -> None:
    register(bench)
    first = get(bench)
    bench.clock.advance(5)
    register(bench)
    assert get(bench) == first
    assert (first.status, first.pid, first.lock_path) == ("alive", 7, "lock")
    assert first.lease_expires_at == first.created_at + holders.LEASE_SECONDS * 1_000_000


def test_a_renewal_extends_the_lease_from_now(bench: Any) -> None:
    register(bench)
    bench.clock.advance(30)
    assert renew(bench) is None
    assert get(bench).lease_expires_at == bench.clock.now_us() + holders.LEASE_SECONDS * 1_000_000


@pytest.mark.parametrize("end", [HolderStatus.RELEASED, HolderStatus.LOST])
def test_a_holder_that_is_over_renews_nothing_and_stays_over(bench: Any, end: HolderStatus) -> None:
    register(bench)
    finish(bench, end)
    assert renew(bench).code == "STALE_FENCE"
    register(bench)
    for other in (HolderStatus.RELEASED, HolderStatus.LOST):
        finish(bench, other)
    assert get(bench).status == end


def test_a_holder_that_is_not_there_renews_nothing(bench: Any) -> None:
    assert renew(bench).code == "STALE_FENCE"
    register(bench)
    assert renew(bench, Scope("other")).code == "STALE_FENCE"
