"""Artifacts: rows that point to bytes by their hash, and the doors through which bytes come."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from counterfoil.core.errors import NotFound
from counterfoil.ledger import artifacts, runs
from counterfoil.ledger.artifacts import Stored


def test_an_artifact_belongs_to_its_run_and_is_told(bench: Any) -> None:
    driver = bench.running()
    stored = bench.ledger.keep(b"bytes", "log", "text/plain")
    kept = bench.do(
        lambda unit: artifacts.record(
            unit,
            bench.scope,
            driver.run_id,
            Stored(stored.sha256, stored.size_bytes, "log", "text/plain", {"password": "p"}),
            task_id="a",
            attempt_id="at_1",
            fence=1,
        )
    )
    row = bench.read(lambda connection: artifacts.get(connection, bench.scope, driver.run_id, kept))
    assert (row.sha256, row.size_bytes) == (hashlib.sha256(b"bytes").hexdigest(), 5)
    assert row.storage_key == f"sha256/{row.sha256}"
    assert json.loads(row.meta) == {"password": "[REDACTED]"}
    assert bench.read(
        lambda connection: artifacts.of_run(connection, bench.scope, driver.run_id)
    ) == [row]
    entry = bench.entries(driver.run_id)[-1]
    assert (entry.kind, entry.task_id, entry.attempt_id) == ("artifact.recorded", "a", "at_1")
    assert bench.faults() == []


def test_an_artifact_may_have_an_id_that_was_minted_before(bench: Any) -> None:
    driver = bench.running()
    stored = bench.ledger.keep(b"bytes", "log")
    kept = bench.do(
        lambda unit: artifacts.record(
            unit, bench.scope, driver.run_id, stored, artifact_id="art_mine"
        )
    )
    assert kept == "art_mine"


def test_a_stale_driver_records_no_artifact(bench: Any) -> None:
    driver = bench.running()
    stored = bench.ledger.keep(b"bytes", "log")
    bench.do(
        lambda unit: runs.take(
            unit, bench.scope, runs.get(unit.connection, bench.scope, driver.run_id), "hd_2"
        )
    )
    assert (
        bench.refused(
            lambda unit: artifacts.record(unit, bench.scope, driver.run_id, stored, fence=1)
        )
        == "STALE_FENCE"
    )


def test_bytes_are_redacted_before_they_are_kept(bench: Any) -> None:
    bench.redactor.register("hunter2-hunter2")
    stored = bench.ledger.keep(b"it is hunter2-hunter2", "log")
    assert bench.blobs.get(stored.sha256) == b"it is [REDACTED:secret]"
    assert stored.size_bytes == len(b"it is [REDACTED:secret]")


def test_a_large_value_is_kept_as_it_was_hashed(bench: Any) -> None:
    """What is found in the finished text only must not change it: the row's hash is that text's."""
    bench.redactor.register("AAAAAAAAAAAA")
    prepared = bench.ledger.prepare([b"\0" * 9] * 2_000)
    stored = bench.ledger.keep_exact(prepared)
    assert stored.sha256 == prepared.sha256
    assert bench.blobs.get(prepared.sha256) == prepared.overflow
    assert bench.ledger.keep_exact(bench.ledger.prepare(1)) is None


def test_a_file_is_redacted_across_its_chunks_and_leaves_no_copy(
    bench: Any, tmp_path: Path
) -> None:
    bench.redactor.register("hunter2-hunter2")
    path = tmp_path / "output"
    path.write_bytes(b"x" * 65_530 + b" hunter2-hunter2 end")
    stored = bench.ledger.keep_file(path, "log", meta={"name": "output"})
    kept = bench.blobs.get(stored.sha256)
    assert b"hunter2" not in kept
    assert kept.endswith(b"[REDACTED:secret] end")
    assert stored.size_bytes == len(kept)
    assert [one.name for one in tmp_path.iterdir() if "output" in one.name] == ["output"]


def test_a_file_that_cannot_be_kept_leaves_no_copy(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "output"
    path.write_bytes(b"x")

    def refuse(_: Path) -> Any:
        raise NotFound("the folder is gone")

    monkeypatch.setattr(bench.blobs, "put_file", refuse)
    with pytest.raises(NotFound):
        bench.ledger.keep_file(path, "log", meta={})
    assert [one.name for one in tmp_path.iterdir() if "output" in one.name] == ["output"]
