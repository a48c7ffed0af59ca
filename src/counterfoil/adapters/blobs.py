"""Artifact bytes as files named by their sha256: written once, durable, checked on every read."""

import errno
import hashlib
import os
import re
import stat
import tempfile
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from counterfoil.core.errors import ArtifactCorrupt, NotFound, StoreUnavailable, ValueRefused

_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1_048_576
_TEMPORARY = ".new-"


class LocalBlobs:
    """Blobs under ``root/aa/<sha256>``, readable by their owner only.

    A blob appears by a rename after its bytes were synced, so a crash leaves at most a file
    ``.new-…`` that nothing reads. Raises ``StoreUnavailable`` when the disk refuses.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str) -> Path:
        """Where a blob is. Raises ``ValueRefused`` for anything but 64 lower-case hex digits."""
        if not _SHA256.fullmatch(sha256):
            raise ValueRefused(
                f"{sha256[:80]!r} is not a sha256.", hint="Give 64 lower-case hex digits."
            )
        return self.root / sha256[:2] / sha256

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        final = self.path(sha256)
        try:
            self._make_folder(final.parent)
            if not self._kept(final, len(data)):
                with _Temporary(final.parent) as temporary:
                    temporary.write(data)
                    temporary.become(final)
        except OSError as error:
            raise _refused(final, error) from error
        return sha256

    def put_file(self, path: Path) -> tuple[str, int]:
        """Raises ``NotFound`` and, for what is no regular file, ``ValueRefused``."""
        with _open_source(path) as source:
            try:
                return self._copy(source)
            except OSError as error:
                raise _refused(path, error) from error

    def get(self, sha256: str) -> bytes:
        path = self.path(sha256)
        with self._open(sha256) as file:
            try:
                data = file.read()
            except OSError as error:
                raise _refused(path, error) from error
        _compare(sha256, hashlib.sha256(data).hexdigest(), path)
        return data

    def check(self, sha256: str) -> None:
        path = self.path(sha256)
        with self._open(sha256) as file:
            try:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                raise _refused(path, error) from error
        _compare(sha256, found, path)

    def _copy(self, source: BufferedReader) -> tuple[str, int]:
        # Hashed while it is copied: what is stored is what was hashed, also when the source
        # changes meanwhile.
        hashed = hashlib.sha256()
        size = 0
        self._make_folder(self.root)
        with _Temporary(self.root) as temporary:
            while chunk := source.read(_CHUNK):
                hashed.update(chunk)
                size += len(chunk)
                temporary.write(chunk)
            sha256 = hashed.hexdigest()
            final = self.path(sha256)
            self._make_folder(final.parent)
            if not self._kept(final, size):
                temporary.become(final)
        return sha256, size

    def _kept(self, final: Path, size: int) -> bool:
        """Whether the blob is there already, and is durable; a torn one is written again."""
        try:
            kept = final.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(kept.st_mode) or kept.st_size != size:
            return False
        # Another writer may have renamed it and not yet synced the folder.
        _sync_folder(final.parent)
        return True

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        missing = [folder]
        while not missing[-1].parent.is_dir():
            missing.append(missing[-1].parent)
        for each in reversed(missing):
            with suppress(FileExistsError):
                each.mkdir(mode=0o700)
            _sync_folder(each.parent)

    def _open(self, sha256: str) -> BufferedReader:
        path = self.path(sha256)
        try:
            return os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb")
        except FileNotFoundError as error:
            raise NotFound(
                f"Artifact {sha256} is not in {self.root}.",
                hint="Restore the artifact folder from the same backup as the ledger.",
            ) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ArtifactCorrupt(
                    f"Artifact {sha256} is not what was recorded: {path} is a symbolic link.",
                    hint="Put the file itself there.",
                ) from error
            raise _refused(path, error) from error


class _Temporary:
    """A file that becomes a blob, or vanishes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> "_Temporary":
        self._descriptor, self._name = tempfile.mkstemp(prefix=_TEMPORARY, dir=self._folder)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        with suppress(FileNotFoundError):
            Path(self._name).unlink()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def become(self, final: Path) -> None:
        os.fsync(self._descriptor)
        Path(self._name).replace(final)
        _sync_folder(final.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_source(path: Path) -> BufferedReader:
    try:
        # Not blocking: opening a pipe that nobody writes to must not hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise NotFound(f"{path} is not there.", hint="Nothing was stored.") from error
    except OSError as error:
        raise _refused(path, error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueRefused(f"{path} is not a regular file.", hint="Store its content instead.")
    return os.fdopen(descriptor, "rb")


def _compare(expected: str, found: str, path: Path) -> None:
    if found != expected:
        raise ArtifactCorrupt(
            f"Artifact {expected} is not what was recorded: {path} hashes to {found}.",
            hint="Restore the file from a backup; the ledger's hash is right.",
            details={"sha256": expected, "found": found},
        )


def _refused(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} cannot be read or written: {error.strerror}.",
        hint="Check the free space and the permissions of the artifact folder.",
    )
