"""This process as a holder: a held lock is life, and only proof ends it for others."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.app import holder as room
from counterfoil.app.holder import HeldLock, Holder, boot_id, is_gone, is_locked
from counterfoil.core.errors import StoreError, StoreUnavailable
from counterfoil.ledger import holders
from counterfoil.ledger.states import HolderStatus
from counterfoil.ledger.values import HolderRow
from counterfoil.testing.faults import FaultKind


@pytest.fixture
def holder(house: Any, tmp_path: Path) -> Iterator[Holder]:
    held = Holder(house.ledger, tmp_path / "holders", "process")
    yield held
    held._ending.set()
    held._thread.join()


def row_of(house: Any, holder: Holder) -> HolderRow:
    found = house.ledger.read(
        lambda connection: holders.get(connection, house.ledger.scope, holder.id)
    )
    assert found is not None
    return found


def until(condition: Callable[[], bool]) -> None:
    """Wait for another thread's deed."""
    tick = threading.Event()
    for _ in range(3_000):
        if condition():
            return
        tick.wait(0.01)
    raise AssertionError("it did not come about within thirty seconds")


# Life


def test_a_holder_is_registered_with_what_proves_its_life(house: Any, holder: Holder) -> None:
    row = row_of(house, holder)
    assert (row.kind, row.status, row.pid) == ("process", "alive", os.getpid())
    assert row.boot_id == boot_id()
    assert is_locked(Path(row.lock_path))
    assert not is_gone(row, house.ledger.clock.now_us())


def test_on_this_machine_time_alone_ends_nobody(house: Any, holder: Holder) -> None:
    row = row_of(house, holder)
    assert not is_gone(row, row.lease_expires_at + 10**12)


def test_a_released_holder_is_gone_and_leaves_no_file(house: Any, holder: Holder) -> None:
    path = Path(row_of(house, holder).lock_path)
    holder.release()
    row = row_of(house, holder)
    assert row.status == HolderStatus.RELEASED
    assert is_gone(row, 0)
    assert not path.exists()


def test_a_holder_whose_lock_is_free_is_gone_at_once(house: Any, holder: Holder) -> None:
    row = row_of(house, holder)
    holder._lock.release()
    assert is_gone(row, 0)
    holder._lock = HeldLock(Path(row.lock_path))


def test_a_holder_of_another_boot_is_gone_although_its_file_is_held(
    house: Any, holder: Holder
) -> None:
    row = changed(row_of(house, holder), boot_id="before the power cut")
    assert is_gone(row, 0)


def test_a_holder_on_another_host_is_gone_when_its_lease_ran_out(
    house: Any, holder: Holder
) -> None:
    row = changed(row_of(house, holder), host="another", lock_path="/nowhere")
    assert not is_gone(row, row.lease_expires_at)
    assert is_gone(row, row.lease_expires_at + 1)


def test_a_holder_that_is_not_there_is_gone() -> None:
    assert is_gone(None, 0)


def changed(row: HolderRow, **values: Any) -> HolderRow:
    names = HolderRow.__dataclass_fields__
    return HolderRow(**({name: getattr(row, name) for name in names} | values))


CHILD = """
import sys
from pathlib import Path
from counterfoil.app.holder import HeldLock
lock = HeldLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_ends_with_its_process_however_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    assert is_locked(path)
    child.send_signal(signal.SIGSTOP)
    assert is_locked(path)
    child.kill()
    child.communicate()
    assert path.exists()
    assert not is_locked(path)


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    lock = HeldLock(tmp_path / "a.lock")
    with pytest.raises(BlockingIOError):
        HeldLock(tmp_path / "a.lock")
    lock.release()


def test_two_that_look_at_once_do_not_take_each_other_for_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    path.touch()
    looking = os.open(path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not is_locked(path)
    os.close(looking)


def test_a_lock_that_cannot_be_looked_at_is_no_proof_of_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "open", refuse)
    assert is_locked(tmp_path / "a.lock")


# The lease


def test_the_lease_is_renewed_from_a_thread_of_its_own(
    house: Any, tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "RENEW_SECONDS", 0.01)
    held = Holder(house.ledger, tmp_path / "holders", "process")
    first = row_of(house, held).lease_expires_at
    clock.advance(25)
    until(lambda: row_of(house, held).lease_expires_at == first + 25_000_000)
    held.release()


def test_a_store_that_is_away_for_a_while_loses_nothing(
    house: Any, tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "RENEW_SECONDS", 0.01)
    held = Holder(house.ledger, tmp_path / "holders", "process")
    store = house.ledger.store
    store.arm(FaultKind.BEGIN_REFUSED, times=5)
    until(lambda: store.struck.count(FaultKind.BEGIN_REFUSED) == 5)
    first = row_of(house, held).lease_expires_at
    clock.advance(25)
    until(lambda: row_of(house, held).lease_expires_at > first)
    assert not held.lost
    held.release()


def test_a_holder_that_was_given_up_learns_it_and_does_not_come_back(
    house: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "RENEW_SECONDS", 0.01)
    held = Holder(house.ledger, tmp_path / "holders", "process")
    assert not held.lost
    house.ledger.do(
        lambda unit: holders.finish(unit, house.ledger.scope, held.id, HolderStatus.LOST)
    )
    until(lambda: held.lost)
    held.release()
    assert row_of(house, held).status == HolderStatus.LOST


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreError("wrong")])
def test_a_release_that_cannot_be_recorded_still_frees_the_lock(
    house: Any, holder: Holder, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    path = Path(row_of(house, holder).lock_path)

    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(holders, "finish", refuse)
    holder.release()
    assert not path.exists()
    assert is_gone(row_of(house, holder), 0)


def test_a_holder_that_cannot_be_registered_holds_nothing(house: Any, tmp_path: Path) -> None:
    house.ledger.store.arm(FaultKind.BEGIN_REFUSED)
    with pytest.raises(StoreUnavailable):
        Holder(house.ledger, tmp_path / "holders", "process")
    assert [*(tmp_path / "holders").iterdir()] == []
