"""This process as a holder of leases: a locked file proves its life, a thread renews its lease."""

import fcntl
import os
import socket
import threading
from pathlib import Path

from counterfoil.core.errors import StoreError
from counterfoil.core.ids import HOLDER
from counterfoil.ledger import holders
from counterfoil.ledger.record import Ledger
from counterfoil.ledger.states import HolderStatus
from counterfoil.ledger.values import HolderRow

RENEW_SECONDS = holders.LEASE_SECONDS / 3


class HeldLock:
    """A locked file. The lock ends with the process, however the process ends."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.path = path

    def release(self) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self._file)


def is_locked(path: Path) -> bool:
    """True while a process holds the file's lock; False when nobody does or it is gone."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True  # another user's: no proof that it is over
    try:
        # Shared, so that two that look at once do not take each other for the holder.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(file)


def boot_id() -> str:
    """Which boot of this machine it is; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


class Holder:
    """Registers this process, renews its lease, and releases it at the end."""

    def __init__(self, ledger: Ledger, folder: Path, kind: str) -> None:
        self._ledger = ledger
        self.id = ledger.ids.new(HOLDER)
        self._lock = HeldLock(folder / f"{self.id}.lock")
        self._ending = threading.Event()
        self._lost = threading.Event()
        process = holders.Process(
            id=self.id,
            kind=kind,
            host=socket.gethostname(),
            boot_id=boot_id(),
            pid=os.getpid(),
            lock_path=str(self._lock.path),
        )
        try:
            ledger.do(lambda unit: holders.register(unit, ledger.scope, process))
        except BaseException:
            self._lock.release()
            raise
        self._thread = threading.Thread(target=self._renew, name="holder-lease", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> bool:
        """True once a renewal was refused: somebody has proof or belief that we are over."""
        return self._lost.is_set()

    def release(self) -> None:
        """Give up everything that this process holds."""
        self._ending.set()
        self._thread.join()
        try:
            self._ledger.do(
                lambda unit: holders.finish(
                    unit, self._ledger.scope, self.id, HolderStatus.RELEASED
                )
            )
        except StoreError:
            pass  # the freed lock says the same
        finally:
            self._lock.release()

    def _renew(self) -> None:
        while not self._ending.wait(RENEW_SECONDS):
            try:
                answer = self._ledger.submit(
                    lambda unit: holders.renew(unit, self._ledger.scope, self.id)
                ).wait()
            except StoreError:
                continue
            if answer is not None:
                self._lost.set()
                return


def is_gone(holder: HolderRow | None, now: int) -> bool:
    """True with proof that a holder's process is over.

    On this machine the proof is its lock; elsewhere it is a lease that ran out.
    """
    if holder is None or holder.status != HolderStatus.ALIVE:
        return True
    if holder.host == socket.gethostname():
        return holder.boot_id != boot_id() or not is_locked(Path(holder.lock_path))
    return holder.lease_expires_at < now
