"""Shipped fakes of the ground: a clock that stands still, ids that count, blobs in memory."""

import hashlib
import threading
from collections import Counter
from pathlib import Path

from counterfoil.core.errors import ArtifactCorrupt, NotFound

START_US = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z."""


class StillClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start_us: int = START_US) -> None:
        self._now_us = start_us
        self._elapsed_us = 0
        self._lock = threading.Lock()

    def now_us(self) -> int:
        return self._now_us

    def monotonic(self) -> float:
        return self._elapsed_us / 1_000_000

    def advance(self, seconds: float) -> None:
        """Both clocks go on; time that passed is never taken back."""
        if seconds < 0:
            raise ValueError("a clock advances, use set_wall to let the wall clock jump")
        with self._lock:
            step = round(seconds * 1_000_000)
            self._now_us += step
            self._elapsed_us += step

    def set_wall(self, now_us: int) -> None:
        """Let the wall clock jump, also backwards; the monotonic one does not move."""
        with self._lock:
            self._now_us = now_us


class CountedIds:
    """``run_00…01``, ``run_00…02``: 32 hex digits that count within their prefix."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        with self._lock:
            self._counts[prefix] += 1
            return f"{prefix}_{self._counts[prefix]:032x}"


class MemoryBlobs:
    """Blobs in a dict, ``stored``, which a test may damage."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.stored.setdefault(sha256, bytes(data))
        return sha256

    def put_file(self, path: Path) -> tuple[str, int]:
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"{path} is not there.", hint="Nothing was stored.") from error
        return self.put(data), len(data)

    def get(self, sha256: str) -> bytes:
        if sha256 not in self.stored:
            raise NotFound(f"Artifact {sha256} is not in memory.", hint="Put it first.")
        data = self.stored[sha256]
        found = hashlib.sha256(data).hexdigest()
        if found != sha256:
            raise ArtifactCorrupt(
                f"Artifact {sha256} is not what was recorded: it hashes to {found}.",
                details={"sha256": sha256, "found": found},
            )
        return data

    def check(self, sha256: str) -> None:
        self.get(sha256)
