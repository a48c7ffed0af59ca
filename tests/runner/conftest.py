"""A repository, a house, a drive for tests of the runner, and the promises that all runs keep."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from counterfoil.app import plan_runs, run_views, wiring
from counterfoil.app.house import House
from counterfoil.app.maintenance import verify_ledger
from counterfoil.app.plan_runs import Control, LaunchRequest, Stop
from counterfoil.app.run_views import RunView
from counterfoil.app.settings import Settings
from counterfoil.core import codec
from counterfoil.core.clock import Clock
from counterfoil.executors import processes
from counterfoil.executors.local import LocalExecutor
from counterfoil.ledger import events
from counterfoil.ledger.values import AttemptRow, GateRow, TaskRow
from counterfoil.ports.store import Store

PATIENCE_SECONDS = 120.0
AGENT = (sys.executable, "-I", "-m", "counterfoil.testing.scripted_agent")
IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
SEED_FILES = {"a.txt": "one\ntwo\nthree\n", "b.txt": "bee\n", "tests/test_a.py": "assert True\n"}


@dataclass(frozen=True)
class Event:
    """A journal entry with its payload read."""

    seq: int
    kind: str
    task: str | None
    attempt: str | None
    payload: Mapping[str, Any]


@dataclass
class Live:
    """A run while it is driven: what a test looks at and does meanwhile."""

    house: House
    control: Control
    notices: list[str]
    run_id: str = ""

    def entries(self) -> list[Event]:
        return read_entries(self.house, self.run_id) if self.run_id else []

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until something of the outside world is true; the drive's deadline bounds it."""
        while True:
            value = condition()
            if value:
                return value
            await anyio.sleep(0.02)

    async def pause(self, seconds: float) -> None:
        """Give the run some time."""
        await anyio.sleep(seconds)

    async def seen(self, kind: str, task: str | None = None, count: int = 1) -> list[Event]:
        """Wait until the journal holds so many entries of a kind, of one task if it is named."""

        def enough() -> list[Event]:
            found = [e for e in self.entries() if e.kind == kind and task in (None, e.task)]
            return found if len(found) >= count else []

        return await self.until(enough)


Act = Callable[[Live], Awaitable[None]]


@dataclass
class Played:
    """A drive that is over: the run as the ledger has it, and what the operator was told."""

    view: RunView
    entries: list[Event]
    notices: list[str]
    stage: "Stage"

    @property
    def status(self) -> tuple[str, str]:
        return self.view.run.status, self.view.run.cause

    def statuses(self) -> dict[str, str]:
        return {task.task_id: task.status for task in self.view.tasks}

    def task(self, task_id: str) -> TaskRow:
        return next(task for task in self.view.tasks if task.task_id == task_id)

    def tries(self, task_id: str, phase: str = "implement") -> list[AttemptRow]:
        return [a for a in self.view.attempts if a.task_id == task_id and a.phase == phase]

    def gates(self, task_id: str) -> list[GateRow]:
        return [gate for gate in self.view.gates if gate.task_id == task_id]

    def of(self, kind: str, task_id: str | None = None) -> list[Event]:
        return [e for e in self.entries if e.kind == kind and task_id in (None, e.task)]

    def payloads(self, kind: str, task_id: str | None = None) -> list[Mapping[str, Any]]:
        return [entry.payload for entry in self.of(kind, task_id)]

    def output(self, name: str) -> bytes:
        """What a task's newest attempt that said something wrote, or the attempt named."""
        with self.stage.house() as house:
            return run_views.attempt_output(house, self.view.run.id, name)

    def done(self, task_id: str) -> Mapping[str, Any]:
        """The last ``dispatch.done`` of a task's implement attempts."""
        return [p for p in self.payloads("dispatch.done", task_id) if p["phase"] == "implement"][-1]


def read_entries(house: House, run_id: str) -> list[Event]:
    rows = run_views.entries(house, run_id, 0, None, 1_000_000)
    return [
        Event(row.seq, row.kind, row.task_id, row.attempt_id, codec.decode(row.payload))
        for row in rows
    ]


def broken_promises(house: House, view: RunView, entries: Sequence[Event]) -> list[str]:
    """What a run that nobody drives any more must not show."""
    found = [fault for one in verify_ledger(house, view.run.id, {}) for fault in one.faults]
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        found.append("the journal has a gap")
    for entry in entries:
        events.KINDS[entry.kind].check(entry.payload)
    for kind, owed in (
        ("task.dispatch", {one.id for one in view.attempts}),
        ("task.duration", {one.id for one in view.attempts if one.status == "ended"}),
        ("dispatch.done", {one.id for one in view.attempts if one.status == "ended"}),
    ):
        told = Counter(entry.attempt for entry in entries if entry.kind == kind)
        if set(told) != owed or set(told.values()) - {1}:
            found.append(f"{kind} is not there exactly once for each attempt: {told}, {owed}")
    return found


def living(attempt_ids: Sequence[str]) -> list[str]:
    """The processes that carry the marker of one of these attempts."""
    alive = [process.pid for process in processes.table().values() if not process.dead]
    return [
        f"{pid} {processes.command_of(pid)}"
        for pid in alive
        if any(processes.carries(pid, attempt_id) for attempt_id in attempt_ids)
    ]


@dataclass
class Stage:
    """One repository and one state folder, and runs on them."""

    folder: Path
    repository: Path
    home: Path
    changes: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> Settings:
        base: dict[str, Any] = {"durability": "normal", "grace": 0.5, "agent": "command"}
        return Settings(home=self.home, **(base | self.changes))

    def house(self, store: Store | None = None) -> House:
        settings = self.settings()
        return House(settings, wiring.open_ledger(settings, store=store))

    def plan(self, *lines: Mapping[str, Any]) -> Path:
        path = self.folder / "plan.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def request(self, *lines: Mapping[str, Any], **given: Any) -> LaunchRequest:
        return LaunchRequest(self.plan(*lines), self.repository, **given)

    def run(
        self,
        *lines: Mapping[str, Any],
        act: Act | None = None,
        concurrency: int = 2,
        boundary: Callable[[str], None] | None = None,
        house: House | None = None,
        **given: Any,
    ) -> Played:
        """Launch a plan and drive it until it ends or pauses."""
        request = self.request(*lines, concurrency=concurrency, **given)
        return self.drive(
            lambda opened, control: plan_runs.drive_new(opened, request, control),
            act=act,
            boundary=boundary,
            house=house,
        )

    def resume(self, run_id: str = "last", act: Act | None = None, **given: Any) -> Played:
        return self.drive(
            lambda house, control: plan_runs.drive_resumed(house, run_id, control, **given),
            act=act,
            run_id=run_id,
        )

    def recover(self, run_id: str = "last", act: Act | None = None) -> Played:
        return self.drive(
            lambda house, control: plan_runs.drive_recovered(house, run_id, control),
            act=act,
            run_id=run_id,
        )

    def drive(
        self,
        work: Callable[[House, Control], Awaitable[RunView]],
        *,
        act: Act | None = None,
        boundary: Callable[[str], None] | None = None,
        house: House | None = None,
        run_id: str = "",
    ) -> Played:
        """Drive to the end, hold the outcome against the promises; errors come out as they are."""
        notices: list[str] = []
        with contextlib.ExitStack() as stack:
            opened = house or stack.enter_context(self.house())
            control = Control(notice=notices.append)
            if boundary is not None:
                control.boundary = boundary
            live = Live(opened, control, notices, run_id)
            control.on_started = lambda started: setattr(live, "run_id", started)
            view = asyncio.run(_driven(work, live, act))
            entries = read_entries(opened, view.run.id)
            assert broken_promises(opened, view, entries) == []
            if control.stopping is not Stop.LEAVE:
                assert living([one.id for one in view.attempts]) == []
        return Played(view, entries, notices, self)

    def git(self, *words: str, folder: Path | None = None, stdin: str = "") -> str:
        done = subprocess.run(
            ["git", *IDENTITY, *words],
            cwd=folder or self.repository,
            check=True,
            input=stdin.encode(),
            stdout=subprocess.PIPE,
        )
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def files(self, played: Played) -> list[str]:
        """The names of the files on the run branch."""
        listed = self.git("ls-tree", "-r", "-z", "--name-only", played.view.branch)
        return sorted(name for name in listed.split("\0") if name)

    def read(self, played: Played, path: str) -> str:
        return self.git("show", f"{played.view.branch}:{path}")

    def refs(self, pattern: str) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname)", pattern).split()

    def pin(self, attempt: AttemptRow) -> str:
        return f"refs/counterfoil/{attempt.run_id}/{attempt.id}"

    def marks(self, name: str = "log") -> list[str]:
        """What the plan's commands wrote into a file beside the repository."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


async def _driven(
    work: Callable[[House, Control], Awaitable[RunView]], live: Live, act: Act | None
) -> RunView:
    outcome: list[RunView | BaseException] = []

    async def at_work(scope: anyio.CancelScope) -> None:
        try:
            outcome.append(await work(live.house, live.control))
        except Exception as error:
            outcome.append(error)
        scope.cancel()

    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as group:
            group.start_soon(at_work, group.cancel_scope)
            if act is not None:
                group.start_soon(act, live)
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def sh(task_id: str, script: str, **more: Any) -> dict[str, Any]:
    """A task that runs a shell script."""
    return {"id": task_id, "run": ["sh", "-c", script], **more}


def agent(task_id: str, *steps: str, **more: Any) -> dict[str, Any]:
    """A task that runs the scripted agent as a plain command."""
    return {"id": task_id, "run": [*AGENT, *steps], **more}


def gate(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "run": ["sh", "-c", script], **more}


def alive(pid_file: Path | str) -> bool:
    """Whether the process whose pid is in the file runs; a zombie does not."""
    return processes.identity(int(Path(pid_file).read_text())) is not None


@dataclass(frozen=True)
class Kit:
    """What tests take from here, since test folders are no packages."""

    alive = staticmethod(alive)

    sh = staticmethod(sh)
    agent = staticmethod(agent)
    gate = staticmethod(gate)
    living = staticmethod(living)
    patience = PATIENCE_SECONDS
    agent_argv = AGENT


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()


@pytest.fixture(autouse=True)
def plain_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the machine or of its user reaches a test."""
    for name in list(os.environ):
        if name.startswith(("COUNTERFOIL_", "GIT_", "ANTHROPIC_", "CLAUDE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, to be copied."""
    folder = tmp_path_factory.mktemp("template") / "repository"
    for name, text in SEED_FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all"),
        ("commit", "--quiet", "--message=first"),
    ):
        subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True)
    for name, value in (("user.name", "Dev"), ("user.email", "dev@example.invalid")):
        subprocess.run(["git", "config", name, value], cwd=folder, check=True)
    return folder


@pytest.fixture
def stage(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A place for runs. Keepers that were left outlive their executor: they are reaped here."""
    executors: list[LocalExecutor] = []

    def executor(clock: Clock) -> LocalExecutor:
        executors.append(LocalExecutor(clock, sweep_grace_seconds=0.5))
        return executors[-1]

    monkeypatch.setattr(wiring, "executor", executor)
    repository = tmp_path / "repository"
    shutil.copytree(template, repository, symlinks=True)
    stage = Stage(tmp_path, repository, tmp_path / "home")
    yield stage
    end_left_overs(stage)
    for one in executors:
        for child in one._children.values():
            child.wait()


def end_left_overs(stage: Stage) -> None:
    """End what a failed test left running: all that works inside its folder."""
    search = processes.Search("", os.path.realpath(stage.folder), since=0)
    processes.end_tree(search, grace_seconds=0, monotonic=time.monotonic, wait=time.sleep)


DRIVER = """
import asyncio, json, sys
from pathlib import Path
from counterfoil.app import plan_runs, wiring
from counterfoil.app.house import House
from counterfoil.app.settings import Settings
from counterfoil.core.errors import CounterfoilError

home, repository, plan = map(Path, sys.argv[1:4])
settings = Settings(home=home, durability="normal", grace=0.5, agent="command")
request = plan_runs.LaunchRequest(plan, repository, concurrency=2)
with House(settings, wiring.open_ledger(settings)) as house:
    try:
        view = asyncio.run(plan_runs.drive_new(house, request, plan_runs.Control()))
    except CounterfoilError as error:
        print(json.dumps([type(error).__name__, error.message]))
    else:
        print(json.dumps([view.run.status, view.run.cause]))
"""


@pytest.fixture
def driver(stage: Stage) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Drive a plan in a process of its own, on another stage's repository if one is given."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*lines: Any, on: Stage | None = None) -> "subprocess.Popen[bytes]":
        plan = (on or stage).plan(*lines)
        words = (str(stage.home), str((on or stage).repository), str(plan))
        child = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *words], stdout=subprocess.PIPE, cwd="/"
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], Any]:
    def wait(condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (value := condition()):
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.02)
        return value

    return wait
