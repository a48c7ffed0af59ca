"""What is found out about a plan before anything runs."""

import json
from pathlib import Path

import pytest

from counterfoil.app.plan_inputs import check_agents, check_plan
from counterfoil.core.errors import PlanInvalid
from counterfoil.plans.parser import parse_plan


def plan_file(folder: Path, *lines: dict[str, object]) -> Path:
    path = folder / "plan.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_every_unknown_agent_is_a_fault_on_its_tasks_line(tmp_path: Path) -> None:
    path = plan_file(
        tmp_path,
        {"plan": {"agent": "Claud"}},
        {"id": "a", "prompt": "x"},
        {"id": "b", "prompt": "x", "agent": "claude"},
        {"id": "c", "prompt": "x", "agent": {"name": "zzz"}},
    )
    with pytest.raises(PlanInvalid, match="has 2 faults: line 2 column 1: task 'a'") as raised:
        check_plan(path)
    first, second = raised.value.details["faults"]
    assert (first["line"], first["code"], first["task_id"]) == (2, "UNKNOWN_AGENT", "a")
    assert first["hint"] == "did you mean 'claude'? known agents: claude, command"
    assert (second["line"], second["task_id"]) == (4, "c")
    assert second["hint"] == "known agents: claude, command"


def test_the_default_agent_is_checked_where_a_prompt_task_needs_it() -> None:
    prompt = parse_plan(b'{"id": "a", "prompt": "x"}', name="p")
    check_agents(prompt, None)
    check_agents(prompt, "claude")
    with pytest.raises(PlanInvalid, match="there is no agent named 'codex'"):
        check_agents(prompt, "codex")
    check_agents(parse_plan(b'{"id": "a", "run": ["x"]}', name="p"), "codex")
