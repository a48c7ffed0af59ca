"""The demo tells the truth: each of its checks can fail."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from counterfoil.samples import demo, git, unpack

IDENTITY = ("-c", "user.name=T", "-c", "user.email=t@example.invalid")


def entry(kind: str, task: str, phase: str = "implement") -> Mapping[str, Any]:
    return {"kind": kind, "payload": {"task": task, "phase": phase}}


def start(task: str) -> Mapping[str, Any]:
    return entry("dispatch.start", task)


def done(task: str) -> Mapping[str, Any]:
    return entry("dispatch.done", task)


Check = Callable[[list[Mapping[str, Any]]], str]


@pytest.mark.parametrize(
    ("check", "journal"),
    [
        (demo.side_by_side, [start("a"), start("b"), done("a"), done("b")]),
        (demo.in_order, [e for t in demo.CHAIN for e in (start(t), done(t))]),
        (demo.retried, [entry("gate0.fail", "stats"), entry("gate0.pass", "stats")]),
    ],
)
def test_a_journal_that_shows_it_is_believed(check: Check, journal: list[Any]) -> None:
    assert check(journal)


@pytest.mark.parametrize(
    ("check", "journal"),
    [
        (demo.side_by_side, [start("a"), done("a"), start("b"), done("b")]),
        (demo.side_by_side, [start("a"), entry(demo.STARTED, "b", "merge"), done("a")]),
        (demo.side_by_side, []),
        (demo.in_order, [start(task) for task in demo.CHAIN]),
        (demo.in_order, [e for t in demo.CHAIN[::-1] for e in (start(t), done(t))]),
        (demo.in_order, []),
        (demo.retried, [entry("gate0.pass", "stats")]),
        (demo.retried, [entry("gate0.fail", "stats"), entry("gate0.fail", "stats")]),
        (demo.retried, [entry("gate0.fail", "notice"), entry("gate0.pass", "parse")]),
    ],
)
def test_a_journal_that_does_not_is_not(check: Check, journal: list[Any]) -> None:
    with pytest.raises(demo.ClaimFailed):
        check(journal)


def test_a_check_that_cannot_be_made_is_a_claim_that_does_not_hold() -> None:
    claim = demo.judge("a chain ran", lambda: demo.retried([{}]))
    assert (claim.holds, claim.sentence) == (False, "a chain ran")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "scratch.txt").write_text("other"),
        lambda folder: (folder / "scratch.txt").unlink(),
        lambda folder: (folder / "new.txt").touch(),
        lambda folder: (folder / "README.md").chmod(0o755),
        lambda folder: git(folder, "reset", "--quiet"),
        lambda folder: git(folder, "checkout", "--quiet", "--detach"),
        lambda folder: git(folder, *IDENTITY, "commit", "--quiet", "--message=more"),
    ],
)
def test_the_fingerprint_sees_every_change_of_the_checkout(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    folder = unpack(tmp_path / "tidepool", dirty=True)
    before = demo.fingerprint(folder)
    assert demo.fingerprint(folder) == before
    change(folder)
    with pytest.raises(demo.ClaimFailed):
        demo.unchanged(before, demo.fingerprint(folder))


def test_the_demo_leaves_a_folder_that_is_not_its_own_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit):
        demo.prepare(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_the_suite_is_run_on_the_revision_that_was_asked_for(tmp_path: Path) -> None:
    stage = demo.prepare(tmp_path)
    assert "failures=" in demo.suite(stage, "HEAD", "before")
    git(stage.repository, "stash", "--quiet")
    for name in ("parse", "units", "intervals", "windows", "report", "stats"):
        for module in (stage.repository / "tests").glob(f"test_{name}.py"):
            module.write_text(
                "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"
            )
    git(stage.repository, "add", "--all")
    git(stage.repository, *IDENTITY, "commit", "--quiet", "--message=all pass")
    assert demo.suite(stage, "HEAD", "after") == ""
