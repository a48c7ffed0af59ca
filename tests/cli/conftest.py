"""The command line under test: as a function, as a process, on rows made here, on a real run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from counterfoil.app.run_views import RunView
from counterfoil.cli.main import cli
from counterfoil.ledger.states import (
    AttemptOutcome,
    AttemptStatus,
    ExecutionStatus,
    Phase,
    TaskStatus,
)
from counterfoil.ledger.values import AttemptRow, EntryRow, GateRow, RunRow, TaskRow

START = 1_700_000_000_000_000
SECOND = 1_000_000
COMMAND = (sys.executable, "-c", "from counterfoil.cli.main import main; main()")
HOSTILE = "[red]boo[/red] \x1b[31m\x07\u202e\r\n:smile: ✓"


def _blank(kind: type[Any], /, **given: Any) -> Any:
    """A row whose other columns are empty: no text, no number, 0 where a number must be."""
    values = {
        field.name: 0 if field.type in (int, "int") else "" if field.type in (str, "str") else None
        for field in fields(kind)
    }
    return kind(**(values | given))


@dataclass(frozen=True)
class Rows:
    """Makes rows of one run."""

    run_id: str = "run_0198f2aabbccddeeff00112233445566"

    def run(self, status: str = ExecutionStatus.SUCCEEDED, **given: Any) -> RunRow:
        base: RunRow = _blank(
            RunRow,
            id=self.run_id,
            subject_kind="plan",
            subject_id="tidepool",
            status=str(status),
            created_at=START,
            started_at=START,
            ended_at=START + 12 * SECOND,
            updated_at=START + 12 * SECOND,
        )
        return replace(base, **given)

    def task(self, task_id: str, status: str, **given: Any) -> TaskRow:
        base: TaskRow = _blank(
            TaskRow, run_id=self.run_id, task_id=task_id, title=task_id, status=str(status)
        )
        return replace(base, **given)

    def attempt(self, task_id: str, ordinal: int = 1, **given: Any) -> AttemptRow:
        base: AttemptRow = _blank(
            AttemptRow,
            id=f"at_{task_id}{ordinal}",
            run_id=self.run_id,
            task_id=task_id,
            phase=str(Phase.IMPLEMENT),
            ordinal=ordinal,
            status=str(AttemptStatus.ENDED),
            outcome=str(AttemptOutcome.SUCCEEDED),
            end_cause="finished",
            agent="claude",
            duration_ms=1500,
            created_at=START,
            started_at=START,
            ended_at=START + 2 * SECOND,
        )
        return replace(base, **given)

    def gate(self, task_id: str, result: str, **given: Any) -> GateRow:
        base: GateRow = _blank(
            GateRow,
            id=f"gr_{task_id}",
            run_id=self.run_id,
            task_id=task_id,
            attempt_id=f"at_{task_id}1",
            tree="a" * 40,
            gate="suite",
            result=str(result),
            command=json.dumps(["make", "test"]),
            duration_ms=200,
        )
        return replace(base, **given)

    def entry(self, seq: int, kind: str, task_id: str | None = None, **payload: Any) -> EntryRow:
        base: EntryRow = _blank(
            EntryRow,
            stream=self.run_id,
            seq=seq,
            kind=kind,
            at=START + seq * SECOND,
            task_id=task_id,
            payload=json.dumps(payload),
        )
        return base

    def view(self, run: RunRow | None = None, **given: Any) -> RunView:
        """Two merged tasks of a run that succeeded, unless something else is given."""
        merged = str(TaskStatus.MERGED)
        base = RunView(
            run=run or self.run(),
            tasks=(self.task("parse", merged), self.task("units", merged)),
            attempts=(self.attempt("parse"), self.attempt("units")),
            gates=(),
            branch=f"counterfoil/{self.run_id}",
            repository=Path("repository"),
        )
        return replace(base, **given)


@pytest.fixture
def rows() -> Rows:
    return Rows()


def environment(home: Path) -> dict[str, str]:
    """The environment of a user whose ledger is in ``home``."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("COUNTERFOIL_", "GIT_"))}
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING"):
        keep.pop(name, None)
    return keep | {"COUNTERFOIL_HOME": str(home), "COUNTERFOIL_DURABILITY": "normal"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a ledger of its own, and no setting of the machine's."""
    folder = tmp_path / "home"
    for name in list(os.environ):
        if name.startswith(("COUNTERFOIL_", "GIT_")) or name in ("COLUMNS", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COUNTERFOIL_HOME", str(folder))
    monkeypatch.setenv("COUNTERFOIL_DURABILITY", "normal")
    return folder


Call = Callable[..., Result]


def call_command(*words: str | Path, env: dict[str, str] | None = None) -> Result:
    """The command in this process, with its two streams apart."""
    return CliRunner().invoke(cli, [str(word) for word in words], env=env)


@pytest.fixture
def call() -> Call:
    return call_command


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("one\n")
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
    for words in (
        ("init", "--quiet", "--initial-branch=main"),
        ("add", "--all"),
        (*identity, "commit", "--quiet", "--message=first"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, env=environment(folder))
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def write_plan(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def shell(task_id: str, script: str, **more: Any) -> dict[str, Any]:
    return {"id": task_id, "run": ["sh", "-c", script], **more}


@dataclass(frozen=True)
class Recorded:
    """A run that has happened: one task merged, one failed at its gate, one blocked by it."""

    run_id: str
    home: Path
    plan: Path
    repository: Path
    result: subprocess.CompletedProcess[str]

    def call(self, *words: str | Path) -> Result:
        return call_command(*words, env={"COUNTERFOIL_HOME": str(self.home)})

    def ask(self, *words: str) -> Any:
        return json.loads(self.call(*words, "--json").stdout)


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    repository = make_repository(folder / "repository")
    plan = write_plan(
        folder / "plan.jsonl",
        {"plan": {"name": "three"}},
        shell("good", "echo hello; echo two >> a.txt", title=HOSTILE),
        shell(
            "bad",
            "echo working on it; echo b > b.txt",
            retries=0,
            gates=[{"name": "never", "run": ["sh", "-c", "echo it is not signed; exit 3"]}],
        ),
        shell("after", "echo c > c.txt", depends_on=["bad"]),
    )
    result = process("run", plan, "--repo", repository, home=folder / "home")
    listed = json.loads(process("runs", "list", "--json", home=folder / "home").stdout)
    return Recorded(listed["runs"][0]["id"], folder / "home", plan, repository, result)


def process(
    *words: str | Path, home: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, with pipes for streams."""
    return subprocess.run(
        [*COMMAND, *(str(word) for word in words)],
        env=environment(home) | (env or {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@dataclass(frozen=True)
class Kit:
    """What tests take from here, since test folders are no packages."""

    command = COMMAND
    hostile = HOSTILE
    start = START
    environment = staticmethod(environment)
    plan = staticmethod(write_plan)
    shell = staticmethod(shell)
    process = staticmethod(process)


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()
