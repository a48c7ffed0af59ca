"""Blobs on disk: durable, checked, confined, and safe to put twice."""

import errno
import hashlib
import os
import stat
import threading
from pathlib import Path

import pytest

from counterfoil.adapters.blobs import LocalBlobs
from counterfoil.core.errors import ArtifactCorrupt, NotFound, StoreUnavailable, ValueRefused


@pytest.fixture
def blobs(tmp_path):
    return LocalBlobs(tmp_path / "deep" / "artifacts")


def files_of(blobs):
    return sorted(path for path in blobs.root.rglob("*") if path.is_file())


def test_bytes_come_back_from_a_path_named_by_their_hash(blobs):
    sha256 = blobs.put(b"some bytes")
    assert sha256 == hashlib.sha256(b"some bytes").hexdigest()
    assert blobs.get(sha256) == b"some bytes"
    blobs.check(sha256)
    assert files_of(blobs) == [blobs.root / sha256[:2] / sha256]


def test_empty_bytes_are_a_blob_too(blobs):
    assert blobs.get(blobs.put(b"")) == b""


def test_only_the_owner_may_read(blobs):
    old = os.umask(0)
    try:
        sha256 = blobs.put(b"private")
    finally:
        os.umask(old)
    path = blobs.path(sha256)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, blobs.root, blobs.root.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_same_bytes_are_written_once(blobs):
    sha256 = blobs.put(b"same")
    before = blobs.path(sha256).stat()
    assert blobs.put(b"same") == sha256
    after = blobs.path(sha256).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_torn_blob_is_written_again(blobs):
    sha256 = blobs.put(b"whole bytes")
    blobs.path(sha256).write_bytes(b"whole")
    blobs.put(b"whole bytes")
    assert blobs.get(sha256) == b"whole bytes"


def test_a_file_is_stored_without_its_mode_and_is_left_alone(blobs, tmp_path):
    source = tmp_path / "transcript"
    source.write_bytes(b"x" * 3_000_000)
    source.chmod(0o644)
    sha256, size = blobs.put_file(source)
    assert size == 3_000_000
    assert blobs.get(sha256) == source.read_bytes()
    assert stat.S_IMODE(blobs.path(sha256).stat().st_mode) == 0o600
    assert blobs.put_file(source) == (sha256, size)
    assert files_of(blobs) == [blobs.path(sha256)]


def test_only_regular_files_that_exist_are_stored(blobs, tmp_path):
    with pytest.raises(NotFound):
        blobs.put_file(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueRefused, match="regular file"):
        blobs.put_file(tmp_path / "pipe")


@pytest.mark.parametrize("read", [LocalBlobs.get, LocalBlobs.check])
def test_altered_bytes_are_named_by_hash_and_path(blobs, read):
    sha256 = blobs.put(b"true")
    blobs.path(sha256).write_bytes(b"fake")
    with pytest.raises(ArtifactCorrupt) as caught:
        read(blobs, sha256)
    assert sha256 in caught.value.message
    assert str(blobs.path(sha256)) in caught.value.message


@pytest.mark.parametrize("read", [LocalBlobs.get, LocalBlobs.check])
def test_a_blob_that_is_not_there_is_not_found(blobs, read):
    with pytest.raises(NotFound, match="0" * 64):
        read(blobs, "0" * 64)


def test_a_link_in_place_of_a_blob_is_corrupt(blobs, tmp_path):
    sha256 = blobs.put(b"true")
    (tmp_path / "elsewhere").write_bytes(b"true")
    blobs.path(sha256).unlink()
    blobs.path(sha256).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactCorrupt, match="symbolic link"):
        blobs.get(sha256)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "a" * 63, "a" * 64 + "\n"])
def test_nothing_but_a_hash_is_a_path(blobs, name):
    for read in (blobs.get, blobs.check, blobs.path):
        with pytest.raises(ValueRefused):
            read(name)


def test_a_write_that_fails_leaves_no_blob_and_no_rest(blobs, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        blobs.put(b"bytes")
    assert files_of(blobs) == []


def test_bytes_are_synced_before_the_name_and_the_folder_after_it(blobs, monkeypatch):
    acts = []
    sync, replace = os.fsync, Path.replace

    def note_sync(descriptor):
        acts.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def note_replace(self, target):
        acts.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replace)
    blobs.put(b"durable")
    assert acts[-3:] == ["file", "rename", "folder"]
    acts.clear()
    blobs.put(b"durable")
    assert acts == ["folder"]


def test_a_left_over_temporary_file_harms_nothing(blobs):
    sha256 = blobs.put(b"bytes")
    (blobs.path(sha256).parent / ".new-torn").write_bytes(b"by")
    assert blobs.put(b"bytes") == sha256
    assert blobs.get(sha256) == b"bytes"


def test_many_threads_may_put_the_same_bytes(blobs, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"shared" * 1_000)
    barrier = threading.Barrier(8)
    results = []

    def work(number):
        barrier.wait()
        for _ in range(10):
            if number % 2:
                results.append(blobs.put(b"shared" * 1_000))
            else:
                results.append(blobs.put_file(source)[0])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    assert len(set(results)) == 1
    assert blobs.get(results[0]) == b"shared" * 1_000
    assert files_of(blobs) == [blobs.path(results[0])]
