"""A two-task plan comes through every fault of the store, wherever it strikes."""

import asyncio
from pathlib import Path

import enumerate_points as crash
import pytest

from counterfoil.app import plan_runs, run_views, wiring
from counterfoil.app.house import House
from counterfoil.app.maintenance import verify_ledger
from counterfoil.app.settings import Settings
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.faults import FaultKind, FaultyStore

STATEMENTS = (0, 30, 70)
COMMITS = (0, 5, 11)
AFTER = {
    FaultKind.ENGINE_ENDS_TRANSACTION: STATEMENTS,
    FaultKind.STATEMENT_REFUSED: STATEMENTS,
    FaultKind.CONNECTION_DIES: STATEMENTS,
    FaultKind.BEGIN_REFUSED: COMMITS,
    FaultKind.COMMIT_FAILS: COMMITS,
    FaultKind.COMMITTED_REPLY_LOST: COMMITS,
    FaultKind.NOT_COMMITTED_REPLY_LOST: COMMITS,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", AFTER, ids=str)
def test_the_plan_completes_and_the_ledger_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FaultKind
) -> None:
    monkeypatch.setenv("CRASH_LOG", "set by prepare")
    for after in AFTER[kind]:
        folder = tmp_path / str(after)
        crash.prepare(folder)
        settings = Settings(home=folder / "home", grace=1.0)
        store = FaultyStore(SqliteStore(settings.ledger_file))
        notices: list[str] = []
        with House(settings, wiring.open_ledger(settings, store=store)) as house:

            def arm(_run_id: str, store: FaultyStore = store, after: int = after) -> None:
                store.arm(kind, after=after)
                if kind is FaultKind.NOT_COMMITTED_REPLY_LOST:
                    store.arm(FaultKind.CONNECT_REFUSED, times=2)

            request = plan_runs.LaunchRequest(folder / "plan.jsonl", folder / "repo")
            control = plan_runs.Control(on_started=arm, notice=notices.append)
            view = asyncio.run(plan_runs.drive_new(house, request, control))
            store.disarm()
            findings = verify_ledger(house, None, {})
            entries = run_views.entries(house, view.run.id, 0, None, 1000)
        assert kind in store.struck, f"{kind} after {after} struck nothing"
        assert view.run.status == "succeeded", (view.run.error_message, notices)
        assert [one for found in findings for one in found.faults] == []
        kinds = [entry.kind for entry in entries]
        assert kinds.count("merge.done") == 2
        assert kinds.count("run.created") == 1
        assert kinds.count("task.dispatch") == len(view.attempts)
