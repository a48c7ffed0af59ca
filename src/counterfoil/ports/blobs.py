"""Where artifact bytes live, addressed by their content."""

from pathlib import Path
from typing import Protocol


class Blobs(Protocol):
    """Bytes by sha256 (64 lower-case hex). Writing the same bytes twice is one blob."""

    def put(self, data: bytes) -> str:
        """Store durably (synced before it returns); returns the sha256."""
        ...

    def put_file(self, path: Path) -> tuple[str, int]:
        """Store a file's bytes without reading them into memory; returns (sha256, size)."""
        ...

    def get(self, sha256: str) -> bytes:
        """The bytes, hashed again. Raises ``NotFound`` or ``ArtifactCorrupt``."""
        ...

    def check(self, sha256: str) -> None:
        """Hash again without keeping the bytes. Raises ``NotFound`` or ``ArtifactCorrupt``."""
        ...
