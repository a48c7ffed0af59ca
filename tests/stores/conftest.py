"""Other processes on the same database file."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

WRITER = """
import sys
from pathlib import Path
from counterfoil.core.clock import SystemClock
from counterfoil.core.ids import SystemIds
from counterfoil.core.redaction import Redactor
from counterfoil.ledger import events, journal
from counterfoil.ledger.values import Scope
from counterfoil.ledger.writer import GroupWriter
from counterfoil.stores.sqlite import SqliteStore

path, stream, count, backlog = sys.argv[1:]
store = SqliteStore(Path(path), synchronous="OFF")
writer = GroupWriter(store, clock=SystemClock(), ids=SystemIds(), redactor=Redactor())
payload = {"message": "m", "where": stream}
print("ready", flush=True)
sys.stdin.readline()
left = int(count)
while left:
    pending = [
        writer.submit(lambda unit: journal.append(
            unit, Scope(), stream, events.RUN_DIAGNOSTIC, payload
        ))
        for _ in range(min(left, int(backlog)))
    ]
    for one in pending:
        one.wait()
    left -= len(pending)
writer.close()
store.close()
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process that runs a program; whatever is left of it is ended afterwards."""
    started: list[subprocess.Popen[str]] = []

    def go(program: str, *arguments: object) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield go
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def start_writer(start: Start, tmp_path: Path) -> Start:
    """A process that appends ``count`` entries to a stream, ``backlog`` at a time."""
    return lambda stream, count, backlog: start(
        WRITER, tmp_path / "ledger.db", stream, count, backlog
    )
