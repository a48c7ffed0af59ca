"""The scripted agent does what its steps say."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from counterfoil.testing.claude_lines import KINDS, SESSION

AGENT = (sys.executable, "-I", "-m", "counterfoil.testing.scripted_agent")


def run(folder: Path, *steps: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([*AGENT, *steps], cwd=folder, capture_output=True, check=False, **options)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    run(path, "write:a.txt=one\\n", "commit:first")
    return path


def test_steps_run_in_order_until_one_exits(tmp_path: Path) -> None:
    done = run(tmp_path, "write:d/a.txt=1", "say:hi", "err:oh", "exit:145", "write:b.txt=2")
    assert (done.returncode, done.stdout, done.stderr) == (145, b"hi\n", b"oh\n")
    assert (tmp_path / "d/a.txt").read_text() == "1"
    assert not (tmp_path / "b.txt").exists()


def test_an_unknown_step_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "fly:home")
    assert done.returncode == 1
    assert b"knows no step 'fly'" in done.stderr


def test_all_steps_are_listed(tmp_path: Path) -> None:
    listed = {line.split()[0] for line in run(tmp_path, "--steps").stdout.decode().splitlines()}
    assert listed >= {"write", "commit", "index-lock", "stdin-closed", "wait-for", "claude"}


def test_steps_come_from_a_prompt_on_stdin(tmp_path: Path) -> None:
    prompt = b"Please.\nstep write:a.txt=hello\nstep exit:4\n"
    done = run(tmp_path, "-", stdin=None, input=prompt)
    assert done.returncode == 4
    assert (tmp_path / "a.txt").read_text() == "hello"


def test_files_of_all_kinds(tmp_path: Path) -> None:
    run(tmp_path, "files:30", "binary:big.bin=1500000", "symlink:out=/etc", "append:a=x\\n")
    assert len(list((tmp_path / "many").iterdir())) == 30
    assert (tmp_path / "big.bin").stat().st_size == 1_500_000
    assert (tmp_path / "out").readlink() == Path("/etc")
    run(tmp_path, "delete:big.bin", "append:a=y")
    assert not (tmp_path / "big.bin").exists()
    assert (tmp_path / "a").read_text() == "x\ny"


def test_it_counts_its_runs_and_needs_what_it_needs(tmp_path: Path) -> None:
    steps = ("count:../count", "need:feedback.txt")
    (tmp_path / "work").mkdir()
    assert run(tmp_path / "work", *steps).returncode == 1
    (tmp_path / "work/feedback.txt").touch()
    assert run(tmp_path / "work", *steps).returncode == 0
    lines = (tmp_path / "count").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 2
    assert run(tmp_path, "need-env:FEEDBACK").returncode == 1
    assert run(tmp_path, "need-env:FEEDBACK", env={**os.environ, "FEEDBACK": "1"}).returncode == 0


def test_git_is_used_and_misused(repository: Path) -> None:
    run(repository, "write:b.txt=two\\n", "commit:second", "branch:side", "index-lock")
    assert git(repository, "log", "--format=%s") == "second\nfirst"
    assert git(repository, "branch", "--show-current") == "side"
    assert (repository / ".git/index.lock").exists()
    (repository / ".git/index.lock").unlink()
    run(repository, "checkout:HEAD~1", "write:c.txt=3")
    assert git(repository, "branch", "--show-current") == ""
    assert git(repository, "status", "--porcelain") == "?? c.txt"
    run(repository, "delete-worktree")
    assert not repository.exists()


def test_output_can_be_anything(tmp_path: Path) -> None:
    assert run(tmp_path, "line:300000").stdout == b"x" * 300_000 + b"\n"
    garbage = run(tmp_path, "garbage", "bytes:00ff", "torn:end").stdout
    for odd in (b"\xe9", b"\r\n", b"\0", b"\x1b"):
        assert odd in garbage
    assert garbage.endswith(b"\x00\xffend")
    with pytest.raises(UnicodeDecodeError):
        garbage.decode()


def test_an_open_stdin_is_noticed_and_a_question_needs_an_answer(tmp_path: Path) -> None:
    assert run(tmp_path, "stdin-closed").returncode == 0
    reader, writer = os.pipe()
    assert run(tmp_path, "stdin-closed", stdin=reader).returncode == 97
    os.close(reader)
    os.close(writer)
    assert run(tmp_path, "ask").returncode == 98
    assert run(tmp_path, "ask:Sure?", stdin=None, input=b"y\n").stdout == b"Sure?\n"


def test_it_dies_by_a_signal(tmp_path: Path) -> None:
    assert run(tmp_path, "kill:9").returncode == -signal.SIGKILL


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_claude_lines_carry_one_session(tmp_path: Path, kind: str) -> None:
    said = run(tmp_path, f"claude-{kind}").stdout.splitlines()
    whole = said[:-1] if kind == "cut" else said
    assert whole
    assert {json.loads(line)["session_id"] for line in whole} == {SESSION}
    foreign = run(tmp_path, "session:other", "claude-result").stdout
    assert json.loads(foreign)["session_id"] == "other"
