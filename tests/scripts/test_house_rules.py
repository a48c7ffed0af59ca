"""Each rule finds what breaks it, and nothing beside it."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import house_rules
import pytest

STATES = """
    from enum import StrEnum
    class RunStatus(StrEnum):
        PAUSED = "paused"
        FAILED = "failed"
    class Phase(StrEnum):
        FIX = "fix"
"""
Tree = Callable[[dict[str, str]], list[str]]


@pytest.fixture
def broken(tmp_path: Path) -> Tree:
    """Writes files into a new repository; returns the rules that they break, with the line."""

    def check(files: dict[str, str]) -> list[str]:
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        for name, text in {house_rules.STATES: STATES, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text).lstrip("\n"))
        sources = house_rules.read_tree(tmp_path)
        found = house_rules.check(sources, house_rules.long_ones(tmp_path))
        return [f"{one.rule}:{one.line}" for one in found]

    return check


def room(code: str) -> dict[str, str]:
    return {"src/counterfoil/app/plain.py": code}


def test_this_tree_keeps_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert house_rules.main([]) == 0, capsys.readouterr().out
    assert "largest rooms" in capsys.readouterr().out


def test_a_room_over_the_limit_is_reported(broken: Tree) -> None:
    assert broken(room("a = 1\n" * 400)) == []
    assert broken(room("a = 1\n" * 401)) == ["size:1"]


def test_a_function_over_the_limit_is_reported_where_it_starts(broken: Tree) -> None:
    assert broken(room("def f():\n" + "    a = 1\n" * 59)) == []
    assert broken(room("\ndef f():\n" + "    a = 1\n" * 60)) == ["size:1"]


@pytest.mark.parametrize(("reason", "left"), [("a table of moves", []), ("  ", ["size:1"])])
def test_a_long_room_may_stay_with_a_reason(broken: Tree, reason: str, left: list[str]) -> None:
    listed = f'[tool.house_rules.long]\n"src/counterfoil/app/plain.py" = "{reason}"\n'
    assert broken({**room("a = 1\n" * 401), "pyproject.toml": listed}) == left


def test_a_listed_room_that_is_short_again_leaves_the_list(broken: Tree) -> None:
    listed = '[tool.house_rules.long]\n"src/counterfoil/app/plain.py" = "was long"\n'
    assert broken({**room("a = 1\n"), "pyproject.toml": listed}) == ["size:1"]


@pytest.mark.parametrize(
    "path",
    ["src/counterfoil/utils.py", "tests/helpers/test_x.py", "docs/misc.md", "tests/test_common.py"],
)
def test_names_that_say_nothing_are_refused(broken: Tree, path: str) -> None:
    assert broken({path: "\n"}) == ["name:1"]


def test_a_name_that_only_contains_such_a_word_is_fine(broken: Tree) -> None:
    assert broken({"src/counterfoil/app/base_branch.py": "\n"}) == []


@pytest.mark.parametrize(
    "call",
    ["subprocess.run('ls', shell=True)", "os.system('ls')", "subprocess.getoutput('ls')"],
)
def test_shells_are_refused(broken: Tree, call: str) -> None:
    assert broken(room(f"import os, subprocess\n{call}\n")) == ["shell:2"]


def test_a_shell_that_is_switched_off_is_fine(broken: Tree) -> None:
    assert broken(room("run(['ls'], shell=False)\n")) == []


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(1)\n",
        "import time as t\nt.monotonic_ns()\n",
        "from time import sleep\nsleep(1)\n",
        "from time import monotonic as now\nwhen = now\n",
        "from datetime import datetime\ndatetime.now()\n",
        "import datetime\ndatetime.datetime.now()\n",
        "from uuid import uuid4\nuuid4()\n",
        "import asyncio\nasyncio.sleep(1)\n",
    ],
)
def test_clock_ids_and_sleep_are_refused_under_any_name(broken: Tree, code: str) -> None:
    assert broken(room(code)) == ["clock:2"]


def test_a_clock_that_came_in_from_outside_is_fine(broken: Tree) -> None:
    assert broken(room("def f(time, clock):\n    time.sleep(1)\n    clock.monotonic()\n")) == []


def test_a_clock_is_excused_only_with_a_reason(broken: Tree) -> None:
    code = "import time\ntime.sleep(1)  # noqa: TID251{}\n"
    assert broken(room(code.format(" - the keeper is alone"))) == []
    assert broken(room(code.format(""))) == ["clock:2"]


@pytest.mark.parametrize(
    "code",
    [
        "done = row.status == 'paused'\n",
        "done = word in ('paused', 'failed')\n",
        "match word:\n    case 'paused': pass\n",
        "row = Row(status='paused')\n",
        "row = {'status': 'paused'}\n",
        "task_status = 'paused'\n",
        "self.status: str = 'paused'\n",
        "move(run, 'paused')\n",
    ],
)
def test_a_status_word_used_as_a_status_is_refused(broken: Tree, code: str) -> None:
    assert {rule.split(":")[0] for rule in broken(room(code))} == {"status"}


@pytest.mark.parametrize(
    "code",
    [
        "'''It paused.'''\n",
        "print('paused')\n",
        "colours = {'paused': 'yellow'}\n",
        "done = phase == 'fix'\n",
        "done = word == 'the run has paused'\n",
        "done = word == 'paused'  # house: status - another program's word\n",
    ],
)
def test_prose_keys_and_other_vocabularies_stay_free(broken: Tree, code: str) -> None:
    assert broken(room(code)) == []


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("see pypi" + ".org\n", "host:1"),
        ("--extra-index-url " + "https://packages.example/simple\n", "host:1"),
        ("url = https:" + "//packages.example/a-1.0.tar.gz\n", "host:1"),
        ("cd /ro" + "ot/x\n", "machine:1"),
        ("cd '/ho" + "me/someone/x'\n", "machine:1"),
    ],
)
def test_registry_hosts_and_machine_paths_are_refused(broken: Tree, text: str, rule: str) -> None:
    assert broken({"docs/page.md": text}) == [rule]


def test_a_test_may_make_up_a_home_folder(broken: Tree) -> None:
    assert broken({"tests/test_x.py": "home = '/ho" + "me/someone/x'\n"}) == []


@pytest.mark.parametrize(
    "text", ["~/ro" + "ot/x\n", "a/wo" + "rk/b\n", "https://example.org/ro" + "ot/\n"]
)
def test_other_paths_and_hosts_are_fine(broken: Tree, text: str) -> None:
    assert broken({"docs/page.md": text}) == []


TABLES = "CREATE TABLE runs (\n  tenant_id TEXT, -- scope; both\n  workspace_id TEXT\n);\n"
SCOPE = "tenant_id = :tenant_id AND workspace_id = :workspace_id"


@pytest.mark.parametrize(
    ("query", "left"),
    [
        (f"SELECT id FROM runs WHERE {SCOPE};", []),
        ("SELECT id FROM runs WHERE tenant_id = :tenant_id;", ["scope:1"]),
        ("SELECT tenant_id, workspace_id FROM runs;", ["scope:1"]),
        ("UPDATE runs SET a = 1 WHERE id = :id RETURNING tenant_id, id;", ["scope:1"]),
        (f"UPDATE runs SET a = 1 WHERE {SCOPE} RETURNING id;", []),
        ("INSERT INTO runs (tenant_id, workspace_id) VALUES (:t, :w);", []),
        ("INSERT INTO runs (id) VALUES (:id);", ["scope:1"]),
        ("SELECT 1 FROM meta;", []),
        ("-- house: scope - the sweeper serves every scope\nSELECT id FROM runs;", []),
    ],
)
def test_every_query_on_a_scoped_table_names_its_scope(
    broken: Tree, query: str, left: list[str]
) -> None:
    sql = "src/counterfoil/ledger/sql"
    queries = f"-- name: one^\n{query}\n"
    assert broken({f"{sql}/0001.sql": TABLES, f"{sql}/runs.sql": queries}) == left


def test_the_second_query_of_a_file_is_reported_at_its_own_line(broken: Tree) -> None:
    sql = "src/counterfoil/ledger/sql"
    queries = (
        f"\n-- name: one\nSELECT id FROM runs WHERE {SCOPE};\n\n-- name: two\nDELETE FROM runs;\n"
    )
    found = broken({f"{sql}/0001.sql": TABLES, f"{sql}/runs.sql": f"-- runs\n{queries}"})
    assert found == ["scope:6"]
