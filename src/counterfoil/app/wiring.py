"""The one place that wires: which implementation stands behind each port."""

import os
from collections.abc import Callable
from pathlib import Path

from counterfoil.adapters.blobs import LocalBlobs
from counterfoil.adapters.git import open_repository
from counterfoil.agents.registry import agent_named
from counterfoil.app.settings import Settings
from counterfoil.core.clock import Clock, SystemClock
from counterfoil.core.ids import Ids, SystemIds
from counterfoil.core.redaction import Redactor
from counterfoil.executors.local import LocalExecutor
from counterfoil.ledger import hashing
from counterfoil.ledger.record import Ledger
from counterfoil.ledger.values import Scope
from counterfoil.ledger.writer import GroupWriter
from counterfoil.ports.agent import Agent
from counterfoil.ports.executor import Executor
from counterfoil.ports.store import Store
from counterfoil.ports.workspace import Workspace
from counterfoil.stores.sqlite import SqliteStore

_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL"}


def open_ledger(
    settings: Settings,
    *,
    store: Store | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    scope: Scope | None = None,
) -> Ledger:
    """Open the ledger that the settings name; parts given replace the real ones."""
    chosen = store or SqliteStore(
        settings.ledger_file, synchronous=_SYNCHRONOUS[settings.durability]
    )
    chosen.migrate()
    clock, ids, redactor = clock or SystemClock(), ids or SystemIds(), Redactor()
    writer = GroupWriter(chosen, clock=clock, ids=ids, redactor=redactor)
    try:
        key = writer.submit(hashing.load_key).wait()
    except BaseException:
        writer.close()
        chosen.close()
        raise
    return Ledger(
        store=chosen,
        writer=writer,
        blobs=LocalBlobs(settings.artifacts_folder),
        redactor=redactor,
        clock=clock,
        ids=ids,
        scope=scope or Scope(),
        key=key,
    )


def close_ledger(ledger: Ledger) -> None:
    ledger.writer.close()
    ledger.store.close()


def open_workspace(settings: Settings, repository: Path) -> Workspace:
    """The repository around a path. Raises ``RepositoryRefused``."""
    return open_repository(repository, worktree_folder=settings.home.expanduser().absolute())


def run_folder(settings: Settings, run_id: str) -> Path:
    """Where a run's worktrees and attempts lie: outside the repository, in the state folder."""
    return settings.home.expanduser().absolute() / "runs" / run_id


def executor(clock: Clock) -> Executor:
    return LocalExecutor(clock)


def agents() -> Callable[[str], Agent]:
    return agent_named


def child_environment(workspace: Workspace) -> dict[str, str]:
    """What agents and gates inherit: our environment without git's own variables."""
    return workspace.child_environment(os.environ)
