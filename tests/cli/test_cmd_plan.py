"""``plan check`` and ``plan show``."""

import json
from pathlib import Path
from typing import Any

import pytest

from counterfoil.cli.exit_codes import Exit


@pytest.fixture
def good(tmp_path: Path, kit: Any) -> Path:
    return kit.plan(
        tmp_path / "good.jsonl",
        {"plan": {"name": "tidy"}},
        kit.shell("b", "true", deps=["a"], title=kit.hostile, files=["src/**"]),
        {"id": "a", "prompt": "Do it"},
        kit.shell("c", "true", gates=[{"name": "suite", "run": ["make"]}]),
    )


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "a", "run": ["x"], "depends_on": ["b", "a"]}\n{"id": "a"}\nnope\n')
    return path


def test_a_good_plan_is_counted(good: Path, call: Any) -> None:
    result = call("plan", "check", good)
    assert result.exit_code == Exit.OK
    assert "is a good plan: 3 tasks, 1 dependency, 2 waves" in result.stdout
    assert "`deps`, read as `depends_on`" in result.stdout
    assert result.stderr == ""


def test_every_fault_is_told_with_its_place_and_the_way_out(bad: Path, call: Any) -> None:
    result = call("plan", "check", bad)
    assert result.exit_code == Exit.FOUND
    for line, code in ((1, "UNKNOWN_DEPENDENCY"), (1, "SELF_DEPENDENCY"), (3, "SYNTAX")):
        found = [
            text
            for text in result.stdout.splitlines()
            if text.startswith(f"{bad}:{line}:") and f" {code} " in text
        ]
        assert found, (line, code)
    assert "    hint: " in result.stdout
    assert f"{bad} has 5 faults" in result.stdout


def test_faults_as_json(bad: Path, call: Any) -> None:
    result = call("plan", "check", bad, "--json")
    assert result.exit_code == Exit.FOUND
    told = json.loads(result.stdout)
    assert told["ok"] is False
    assert {"line", "column", "code", "message", "hint", "task_id"} == set(told["faults"][0])


def test_counts_as_json(good: Path, call: Any) -> None:
    told = json.loads(call("plan", "check", good, "--json").stdout)
    assert (told["ok"], told["tasks"], told["dependencies"], told["waves"]) == (True, 3, 1, 2)
    assert told["faults"] == []


@pytest.mark.parametrize("columns", ["40", "200"])
def test_a_plan_is_shown_in_waves(columns: str, good: Path, call: Any) -> None:
    result = call("plan", "show", good, env={"COLUMNS": columns})
    assert result.exit_code == Exit.OK
    text = " ".join(result.stdout.split())
    first, second = text.index("wave 1"), text.index("wave 2")
    assert first < text.index("a ") < text.index("suite") < second < text.index("after a")
    assert ("[red]boo[/red] \\x1b[31m" in text) == (columns == "200"), "cut by the narrow lines"
    assert "src/**" in text
    assert "\x1b" not in result.stdout
    assert all(len(line) <= int(columns) for line in result.stdout.splitlines())


def test_a_plan_as_json_keeps_its_lines(good: Path, call: Any, kit: Any) -> None:
    told = json.loads(call("plan", "show", good, "--json").stdout)
    assert told["waves"] == [["a", "c"], ["b"]]
    assert told["tasks"][0]["title"] == kit.hostile
    assert told["header"] == {"name": "tidy"}


def test_a_bad_plan_is_not_shown(bad: Path, call: Any) -> None:
    result = call("plan", "show", bad)
    assert result.exit_code == Exit.USAGE
    assert result.stderr.startswith("error: bad.jsonl has 5 faults")


def test_a_plan_that_is_not_there_is_a_wrong_use(call: Any) -> None:
    result = call("plan", "check", "nowhere.jsonl")
    assert result.exit_code == Exit.USAGE
    assert "does not exist" in result.stderr


def test_checking_a_plan_opens_no_ledger(good: Path, call: Any, home: Path) -> None:
    call("plan", "check", good)
    assert not home.exists()
