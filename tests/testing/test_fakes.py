"""The shipped fakes keep the promises of what they stand for."""

import hashlib

import pytest

from counterfoil.core.errors import ArtifactCorrupt, NotFound
from counterfoil.testing.fakes import CountedIds, MemoryBlobs, StillClock


def test_a_still_clock_moves_only_when_told():
    clock = StillClock(5)
    assert (clock.now_us(), clock.monotonic()) == (5, 0.0)
    clock.advance(1.5)
    assert (clock.now_us(), clock.monotonic()) == (1_500_005, 1.5)
    with pytest.raises(ValueError):
        clock.advance(-1)


def test_the_wall_clock_may_jump_back_without_the_monotonic_one():
    clock = StillClock(1_000_000)
    clock.advance(2)
    clock.set_wall(7)
    assert (clock.now_us(), clock.monotonic()) == (7, 2.0)


def test_ids_count_within_their_prefix_and_are_the_same_every_time():
    ids = CountedIds()
    handed_out = [ids.new("run"), ids.new("st"), ids.new("run")]
    assert handed_out == ["run_" + "0" * 31 + "1", "st_" + "0" * 31 + "1", "run_" + "0" * 31 + "2"]


def test_memory_blobs_are_found_by_their_hash(tmp_path):
    blobs = MemoryBlobs()
    sha256 = blobs.put(b"bytes")
    assert sha256 == hashlib.sha256(b"bytes").hexdigest()
    assert blobs.get(sha256) == b"bytes"
    (tmp_path / "f").write_bytes(b"bytes")
    assert blobs.put_file(tmp_path / "f") == (sha256, 5)
    with pytest.raises(NotFound):
        blobs.get("0" * 64)
    with pytest.raises(NotFound):
        blobs.put_file(tmp_path / "missing")


def test_damaged_memory_blobs_are_noticed():
    blobs = MemoryBlobs()
    sha256 = blobs.put(b"bytes")
    blobs.stored[sha256] = b"other"
    with pytest.raises(ArtifactCorrupt, match=sha256):
        blobs.check(sha256)
