"""The tables of moves are those of the design, arrow by arrow."""

import itertools
from collections.abc import Mapping

import pytest

from counterfoil.ledger import states
from counterfoil.ledger.states import MACHINES, Machine, Moves
from counterfoil.ledger.values import ROWS

ENDS = "failed canceled expired"
WAITS = "waiting_input waiting_approval paused"
RUN = {
    "queued": f"preparing running {ENDS}",
    "preparing": f"running {WAITS} succeeded {ENDS}",
    "running": f"{WAITS} succeeded {ENDS}",
    "waiting_input": f"running {ENDS}",
    "waiting_approval": f"running {ENDS}",
    "paused": f"running succeeded {ENDS}",
    "retrying": f"queued preparing running {ENDS}",
    "succeeded": "",
    "failed": "retrying",
    "canceled": "retrying",
    "expired": "retrying",
}
STEP = RUN | {
    "queued": RUN["queued"] + " skipped",
    "preparing": RUN["preparing"] + " skipped",
    "skipped": "",
}
ATTEMPT = {
    "leased": "running ended",
    "running": "paused ended",
    "paused": "running ended",
    "ended": "",
}
TASK = {
    "waiting": "ready blocked canceled",
    "ready": "running blocked paused canceled",
    "running": ("ready paused waiting_decision merged no_change failed conflict canceled"),
    "paused": "ready running canceled",
    "waiting_decision": "ready running paused no_change failed conflict canceled",
    "blocked": "waiting canceled",
    "merged": "",
    "no_change": "ready",
    "failed": "ready",
    "conflict": "ready",
    "canceled": "",
    "imported_done": "",
}
HOLDER = {"alive": "released lost", "released": "", "lost": ""}

TABLES = [
    pytest.param(RUN, states.RUN_MOVES, id="runs"),
    pytest.param(STEP, states.STEP_MOVES, id="steps"),
    pytest.param(ATTEMPT, states.ATTEMPT_MOVES, id="attempts"),
    pytest.param(TASK, states.TASK_MOVES, id="tasks"),
    pytest.param(HOLDER, states.HOLDER_MOVES, id="holders"),
]
MOVING = [machine for machine in MACHINES.values() if machine.moves]


@pytest.mark.parametrize(("expected", "moves"), TABLES)
def test_the_table_of_moves_is_exactly_the_designs(
    expected: Mapping[str, str], moves: Moves
) -> None:
    found = {str(source): {str(one) for one in targets} for source, targets in moves.items()}
    assert found == {source: set(targets.split()) for source, targets in expected.items()}


@pytest.mark.parametrize("machine", MOVING, ids=lambda machine: machine.table)
def test_no_status_leads_to_itself(machine: Machine) -> None:
    assert not [status for status in machine.moves if machine.allows(status, status)]


@pytest.mark.parametrize("machine", MOVING, ids=lambda machine: machine.table)
def test_a_machine_allows_its_arrows_and_nothing_else(machine: Machine) -> None:
    for source, target in itertools.product(machine.moves, repeat=2):
        assert machine.allows(source, target) == (target in machine.moves[source])
        assert machine.allows(str(source), str(target)) == machine.allows(source, target)


@pytest.mark.parametrize("machine", MOVING, ids=lambda machine: machine.table)
def test_a_final_status_reaches_nothing(machine: Machine) -> None:
    for status in machine.moves:
        assert machine.final(status) == (not machine.moves[status])


def test_a_word_that_is_no_status_is_refused() -> None:
    with pytest.raises(ValueError, match="'skipped' is not a status of runs"):
        states.RUNS.allows("skipped", "running")


def test_the_ends_are_the_statuses_at_which_a_run_or_a_task_rests() -> None:
    assert {str(end) for end in states.RUN_ENDS} == {"succeeded", "failed", "canceled", "expired"}
    assert {str(end) for end in states.TASK_ENDS} == {
        "merged",
        "no_change",
        "failed",
        "conflict",
        "canceled",
        "imported_done",
    }


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.table)
def test_keys_and_state_columns_are_columns_of_their_table(machine: Machine) -> None:
    columns = set(ROWS[machine.table].__dataclass_fields__)
    assert set(machine.key) | set(machine.state) <= columns
    assert ("status" in machine.state) == bool(machine.moves)
