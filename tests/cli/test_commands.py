"""Every command that Counterfoil prints exists, and is parsed as it is printed."""

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import counterfoil
from counterfoil.cli.commands import Commands
from counterfoil.cli.main import COMMANDS, cli

RUN = "run_0198f2aabbccddeeff00112233445566"
VALUES = {
    "run_id": RUN,
    "task_id": "-it's [odd]",
    "attempt_id": "at_1",
    "plan": "my plan.jsonl",
    "cursor": "3-0a1b2c3d",
}
STAND_INS = {"RUN": RUN, "PLAN": "plan.jsonl", "FILE": "plan.jsonl", "T": "t", "BRANCH": "main"}
PRINTED = rf"`(counterfoil [^`{{]+)`|^(counterfoil (?:{'|'.join(COMMANDS)})\b[^{{\n]*)$"
SOURCE = Path(counterfoil.__file__).parent


def parse(line: str) -> None:
    """Walk down to the command as click does, and parse its arguments without running it."""
    program, *words = shlex.split(line)
    assert program == "counterfoil"
    command: click.Command = cli
    context = click.Context(cli, info_name=program)
    while isinstance(command, click.Group):
        _, found, words = command.resolve_command(context, words)
        assert found is not None, line
        command = found
        context = click.Context(command, parent=context, info_name=command.name)
        if not words and isinstance(command, click.Group):
            return
    with context:
        command.parse_args(context, words)


def proposed(ledger: Path | None) -> Iterator[str]:
    commands = Commands(ledger)
    for name, method in inspect.getmembers(commands, inspect.ismethod):
        if name.startswith("_"):
            continue
        wanted = inspect.signature(method).parameters
        yield method(**{one: VALUES[one] for one in wanted})


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that examples and proposals name, since click looks whether they are there."""
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "library").mkdir()
    for name in ("plan.jsonl", "my plan.jsonl"):
        (here / name).write_text("")
    monkeypatch.chdir(here)


@pytest.mark.parametrize("ledger", [None, Path("my ledger.db")])
def test_every_proposed_command_exists(ledger: Path | None) -> None:
    lines = list(proposed(ledger))
    assert len(lines) > 8
    for line in lines:
        parse(line)


def test_a_ledger_that_was_named_is_named_again() -> None:
    assert "'my ledger.db'" in Commands(Path("my ledger.db")).land(RUN)


def commands_below(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands_below(below, *path, name)


ALL = dict(commands_below(cli, "counterfoil"))


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_help_that_teaches(path: str, call: Any) -> None:
    result = call(*path.split()[1:], "--help")
    assert result.exit_code == 0
    assert "Example:" in result.stdout
    assert not result.stderr
    for parameter in ALL[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path}: {parameter.name} has no help"


@pytest.mark.parametrize("path", ALL)
def test_every_example_is_a_command(path: str) -> None:
    text = inspect.cleandoc(ALL[path].help or "")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("counterfoil ")]
    assert lines
    for line in lines:
        parse(re.sub(r" [>|] .*", "", line))


@pytest.mark.parametrize(
    "path", [path for path, one in ALL.items() if not isinstance(one, click.Group)]
)
def test_everything_that_prints_can_print_json(path: str) -> None:
    assert "--json" in [name for one in ALL[path].params for name in one.opts]


def printed_in_source() -> Iterator[tuple[str, str]]:
    """Texts of the source that name a command: between backticks, or as a whole hint."""
    for file in sorted(SOURCE.rglob("*.py")):
        if "tidepool" in file.parts:
            continue
        nodes = list(ast.walk(ast.parse(file.read_text())))
        parts = {id(part) for one in nodes if isinstance(one, ast.JoinedStr) for part in one.values}
        for node in nodes:
            if id(node) in parts:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(
                    part.value if isinstance(part, ast.Constant) else RUN for part in node.values
                )
            else:
                continue
            for found in re.finditer(PRINTED, text):
                yield file.name, re.sub(r"\s+", " ", found[1] or found[2])


def test_every_command_in_the_source_exists() -> None:
    seen = list(printed_in_source())
    assert seen
    for file, line in seen:
        words = [STAND_INS.get(word, word) for word in shlex.split(line)]
        if words[1] == RUN:
            continue  # a command that is only known when it is printed
        if words[-1:] == ["recover"]:
            words.append(RUN)  # the verb alone, in running text
        try:
            parse(shlex.join(words))
        except click.UsageError as error:
            raise AssertionError(f"{file} prints {line!r}: {error.format_message()}") from error


def test_the_list_of_commands_says_what_their_own_help_says() -> None:
    for name, summary in COMMANDS.items():
        assert ALL[f"counterfoil {name}"].get_short_help_str(200) == summary
