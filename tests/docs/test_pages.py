"""What the pages say is so: links lead somewhere, plans read, commands of make exist."""

import re
import shlex
from pathlib import Path

import click
import pytest

from counterfoil.cli.main import cli
from counterfoil.plans.parser import parse_plan

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
named = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@named
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@named
def test_every_plan_that_is_shown_reads(page: Path) -> None:
    for block in re.findall(r"```json\n(.*?)```", page.read_text(), re.S):
        lines = block.splitlines()
        if any('"id"' in line for line in lines):
            assert parse_plan(block.encode(), name=page.name).tasks


@named
def test_every_target_of_make_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"[`$] ?make ([a-z-]+)", page.read_text())) <= targets


def shown_commands(text: str) -> list[list[str]]:
    """The words after ``counterfoil`` in each console line and in each piece of inline code."""
    lines = re.findall(r"(?:\$ |`)counterfoil ([^`\n#]*)", text)
    return [shlex.split(line) for line in lines]


@named
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    for words in shown_commands(page.read_text()):
        command: click.Command = cli
        while isinstance(command, click.Group) and words:
            inner = command.get_command(click.Context(command), words[0])
            assert inner is not None, words
            command, words = inner, words[1:]
        known = {name for parameter in command.params for name in parameter.opts}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= known | {"--help"}, f"{command.name} {given - known}"


def test_every_page_is_reached_from_the_map() -> None:
    linked = set(re.findall(r"\]\(([^)]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").glob("*/*.md")}
    assert linked == pages | {"glossary.md"}


def test_every_generated_part_is_closed_by_its_own_name() -> None:
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        text = page.read_text()
        opened = re.findall(r"<!-- generated: (\S+) -->", text)
        assert opened == re.findall(r"<!-- end generated: (\S+) -->", text)
