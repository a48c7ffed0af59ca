"""``verify``, ``db`` and ``doctor``."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from counterfoil.cli.exit_codes import Exit


def test_what_is_as_recorded_is_said_so_with_its_head(recorded: Any) -> None:
    result = recorded.call("verify")
    assert result.exit_code == Exit.OK
    assert f"{recorded.run_id}  as recorded" in result.stdout
    assert "Everything is as it was recorded: 1 chain." in result.stdout
    assert "no head was given" in result.stdout
    (stream,) = recorded.ask("verify")["streams"]
    assert stream["head"] in result.stdout


def test_a_kept_head_proves_that_nothing_was_cut_off(recorded: Any) -> None:
    head = recorded.ask("verify")["streams"][0]["head"]
    for words in (["last", "--head", head], ["--head", f"last={head}"]):
        result = recorded.call("verify", *words)
        assert result.exit_code == Exit.OK
        assert f"complete up to the kept head {head}" in result.stdout


def test_another_head_is_a_finding(recorded: Any) -> None:
    result = recorded.call("verify", "last", "--head", "3-00000000")
    assert result.exit_code == Exit.FOUND
    assert "NOT as recorded" in result.stdout
    assert "the kept head is 3-00000000" in result.stdout
    assert "1 of 1 chain not as recorded" in result.stdout


@pytest.mark.parametrize(
    ("head", "said"), [("abc", "is no head"), ("3-0a1b2c3d", "does not say of which run")]
)
def test_a_head_that_cannot_be_used_is_a_wrong_use(head: str, said: str, call: Any) -> None:
    result = call("verify", "--head", head)
    assert result.exit_code == Exit.USAGE
    assert said in result.stderr


def test_a_changed_row_is_found(kit: Any, repository: Path, tmp_path: Path, home: Path) -> None:
    plan = kit.plan(tmp_path / "plan.jsonl", kit.shell("a", "echo x > x.txt"))
    assert kit.process("run", plan, "--repo", repository, home=home).returncode == Exit.OK
    with sqlite3.connect(home / "ledger.db") as ledger:
        ledger.execute("UPDATE plan_tasks SET status = 'failed'")
    result = kit.process("verify", "--json", home=home)
    assert result.returncode == Exit.FOUND
    told = json.loads(result.stdout)
    assert told["ok"] is False
    assert "status" in told["streams"][0]["faults"][0]


def test_an_empty_ledger_has_nothing_to_verify(call: Any) -> None:
    result = call("verify")
    assert result.exit_code == Exit.OK
    assert "nothing to verify" in result.stdout


def test_the_ledger_is_described(recorded: Any) -> None:
    result = recorded.call("db", "info")
    assert result.exit_code == Exit.OK
    assert str(recorded.home / "ledger.db") in result.stdout
    assert recorded.ask("db", "info")["streams"] == 1


def test_a_ledger_is_made_and_then_needs_nothing(call: Any, tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    first = call("db", "migrate", "--ledger", file)
    assert first.exit_code == Exit.OK
    assert "applied 0001_record" in first.stdout
    again = json.loads(call("db", "migrate", "--ledger", file, "--json").stdout)
    assert again == {"ledger": str(file), "applied": []}


def test_a_ledger_that_cannot_be_used_is_the_stores_fault(call: Any, tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    file.write_text("this is no database, and long enough that nobody can think it is one")
    result = call("db", "info", "--ledger", file)
    assert result.exit_code == Exit.STORE
    assert result.stderr.startswith("error: ")


def test_doctor_looks_at_the_machine(call: Any, repository: Path) -> None:
    result = call("doctor", "--repo", repository)
    told = json.loads(call("doctor", "--repo", repository, "--json").stdout)
    assert result.exit_code == (Exit.OK if told["ok"] else Exit.FOUND)
    for check in told["checks"]:
        assert f" {check['name']}: " in result.stdout
        assert check["ok"] or not check["hint"] or check["hint"] in result.stdout
    assert {"git", "ledger", "repository"} <= {check["name"] for check in told["checks"]}


def test_doctor_finds_that_a_folder_is_no_repository(call: Any, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    result = call("doctor", "--repo", folder)
    assert result.exit_code == Exit.FOUND
    assert "to mend" in result.stdout
