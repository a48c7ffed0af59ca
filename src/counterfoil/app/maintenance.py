"""Use cases around the ledger itself: migrate, describe, verify, and look over the machine."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterfoil.agents.registry import KNOWN, agent_named
from counterfoil.app import run_views, wiring
from counterfoil.app.house import House
from counterfoil.app.settings import Settings
from counterfoil.core.errors import CounterfoilError, NotFound
from counterfoil.ledger import journal, verify
from counterfoil.ledger.schema import migrations
from counterfoil.ledger.verify import Findings
from counterfoil.ports.agent import Brief
from counterfoil.stores.sqlite import SqliteStore

LEAST_FREE_BYTES = 512 * 1024 * 1024
OPTIONAL_PROGRAMS: Mapping[str, str] = {
    "bwrap": "contains an attempt's processes where it is installed; not needed",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. ``hint``: the way out when it is not ok."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


def migrate(settings: Settings) -> list[str]:
    """Bring the ledger's schema up to date; returns the migrations applied."""
    store = SqliteStore(settings.ledger_file)
    try:
        return store.migrate()
    finally:
        store.close()


def info(house: House) -> dict[str, Any]:
    """Where the ledger is, how large it is, and what it holds."""
    ledger, path = house.ledger, house.settings.ledger_file

    def count(connection: Any) -> dict[str, int]:
        heads = list(journal.streams(connection, ledger.scope))
        return {"streams": len(heads), "entries": sum(head.seq for head in heads)}

    return {
        "ledger": str(path),
        "engine": ledger.store.engine,
        "durability": house.settings.durability,
        "size_bytes": path.stat().st_size,
        "artifacts": str(house.settings.artifacts_folder),
        "migrations": [migration.name for migration in migrations()],
        "tenant_id": ledger.scope.tenant_id,
        "workspace_id": ledger.scope.workspace_id,
        **ledger.read(count),
    }


def verify_ledger(house: House, run_name: str | None, heads: Mapping[str, str]) -> list[Findings]:
    """Verify one run, or all streams. ``heads``: kept heads by run id.

    Raises ``NotFound`` for a run or a kept head's stream that is not there.
    """
    ledger = house.ledger
    wanted = run_views.find(house, run_name).id if run_name else None

    def read(connection: Any) -> list[Findings]:
        found = list(verify.streams(connection, ledger.scope))
        missing = heads.keys() - {head.stream for head in found}
        if missing:
            raise NotFound(
                f"the ledger has no stream {sorted(missing)[0]}, whose head was kept",
                hint="it was removed, or the head is another ledger's",
            )
        return [
            verify.verify_stream(
                connection,
                ledger.blobs,
                ledger.scope,
                head,
                kept_head=heads.get(head.stream, ""),
            )
            for head in found
            if wanted is None or head.stream == wanted
        ]

    return ledger.read(read)


def doctor(settings: Settings, repository: Path | None) -> list[Check]:
    """Look over the machine, the state folder, the ledger, the repository and the agents."""
    checks = [_python(), _git(), _home(settings), _space(settings), _ledger(settings)]
    if repository is not None:
        checks.append(_repository(settings, repository))
    checks.extend(_agent(name) for name in KNOWN)
    checks.extend(_program(name, use) for name, use in OPTIONAL_PROGRAMS.items())
    return checks


def _python() -> Check:
    version = platform.python_version()
    return Check("python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _git() -> Check:
    program = shutil.which("git")
    if program is None:
        return Check("git", False, "not found on PATH", "install git 2.38 or newer")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = said.stdout.strip().removeprefix("git version ")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    return Check("git", numbers >= (2, 38), version, "install git 2.38 or newer")


def _home(settings: Settings) -> Check:
    home = settings.home.expanduser().absolute()
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = home / ".write-probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        return Check("state folder", False, f"{home}: {error.strerror}", "set COUNTERFOIL_HOME")
    return Check("state folder", True, str(home))


def _space(settings: Settings) -> Check:
    folder = settings.home.expanduser().absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return Check(
        "disk space",
        free >= LEAST_FREE_BYTES,
        f"{free // (1024 * 1024):,} MiB free",
        "free some space: worktrees and outputs need it",
    )


def _ledger(settings: Settings) -> Check:
    path = settings.ledger_file
    if not path.exists():
        return Check("ledger", True, f"{path} (made at first use)")
    try:
        store = SqliteStore(path)
        try:
            store.migrate()
        finally:
            store.close()
    except CounterfoilError as error:
        return Check("ledger", False, error.message, error.hint)
    return Check("ledger", True, str(path))


def _repository(settings: Settings, path: Path) -> Check:
    try:
        workspace = wiring.open_workspace(settings, path)
        head = workspace.head()
    except CounterfoilError as error:
        return Check("repository", False, error.message, error.hint)
    where = head.branch or "a detached HEAD"
    dirty = ", with changes that are not committed" if head.dirty else ""
    return Check("repository", True, f"{workspace.root} on {where}{dirty}")


def _agent(name: str) -> Check:
    probe = Brief("probe", "probe", "probe", ("true",), Path(), Path())
    try:
        launch = agent_named(name).launch(probe)
    except CounterfoilError as error:
        return Check(f"agent {name}", True, f"not installed: {error.message}", error.hint)
    return Check(f"agent {name}", True, launch.argv[0])


def _program(name: str, use: str) -> Check:
    return Check(name, True, shutil.which(name) or f"not installed ({use})")
