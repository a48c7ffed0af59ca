"""Real processes for the tests of this room, and a broom that leaves none behind."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterfoil.executors import processes
from counterfoil.executors.folder import Folder, launch_to_bytes
from counterfoil.ports.executor import LaunchSpec

PYTHON = (sys.executable, "-I")
AGENT = (*PYTHON, "-m", "counterfoil.testing.scripted_agent")
KEEPER = (*PYTHON, "-m", "counterfoil.executors.keeper")
FAULTY = (*PYTHON, "-m", "counterfoil.testing.keeper_faults")
PATIENCE_SECONDS = 20.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    """Wait for a condition of the outside world; returns its first true value."""

    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.01)

    return wait


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    path = tmp_path / "work tree é"
    path.mkdir()
    return path


@pytest.fixture
def marker(worktree: Path) -> Iterator[str]:
    """An attempt id of this test alone; what carries it, or works here, is ended after it."""
    value = f"at_{secrets.token_hex(8)}"
    yield value
    search = processes.Search(value, os.path.realpath(worktree), since=0)
    processes.end_tree(search, grace_seconds=0, monotonic=time.monotonic, wait=time.sleep)


@pytest.fixture
def marked(marker: str) -> Callable[[], set[int]]:
    """The pids of the living that carry the marker."""

    def pids() -> set[int]:
        return {
            pid
            for pid, process in processes.table().items()
            if not process.dead and processes.carries(pid, marker)
        }

    return pids


@pytest.fixture
def agent(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """The command line of a scripted agent that first counts itself."""

    def command(*steps: str) -> tuple[str, ...]:
        return (*AGENT, f"count:{tmp_path / 'count'}", *steps)

    return command


@pytest.fixture
def runs(tmp_path: Path) -> Callable[[], int]:
    """How often a scripted agent ran."""

    def count() -> int:
        path = tmp_path / "count"
        return len(path.read_text().splitlines()) if path.exists() else 0

    return count


@pytest.fixture
def spec(tmp_path: Path, worktree: Path, marker: str) -> Callable[..., LaunchSpec]:
    """A launch of this argv; keywords replace fields."""

    def make(argv: tuple[str, ...], **changes: Any) -> LaunchSpec:
        launch = LaunchSpec(
            marker=marker,
            fence=1,
            folder=tmp_path / "attempt",
            argv=argv,
            cwd=worktree,
            env={"PATH": os.environ["PATH"]},
            timeout_seconds=PATIENCE_SECONDS,
            grace_seconds=0.3,
        )
        return replace(launch, **changes)

    return make


@pytest.fixture
def keeper() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a keeper of this launch, as a runner would, in a folder with this fence."""
    started: list[subprocess.Popen[bytes]] = []

    def start(launch: LaunchSpec, *command: str, fence: int | None = 1) -> subprocess.Popen[bytes]:
        home = Folder(launch.folder)
        home.make()
        if fence is not None and home.fence() != fence:
            home.write_fence(fence)
        log = home.open_output("keeper.log")
        child = subprocess.Popen(
            [*(command or KEEPER), str(launch.folder)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        os.close(log)
        assert child.stdin is not None
        child.stdin.write(launch_to_bytes(launch))
        child.stdin.close()
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()
