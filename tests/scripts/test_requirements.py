"""The pins: complete, hashed, of one mind, and without any host."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
PIN = re.compile(
    r"^([a-z0-9._-]+)==(\S+)((?:.*\\\n)(?:    --hash=sha256:[0-9a-f]{64}.*\n?)+)", re.M
)


def pins(path: Path) -> dict[str, str]:
    return {match[1]: match[2] for match in PIN.finditer(path.read_text())}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\s<>=!;\[]", one)[0].lower().replace("_", "-") for one in requirements}


def test_there_is_a_file_for_each_purpose() -> None:
    assert [path.stem for path in FILES] == ["agents", "bench", "dev", "runtime"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_line_belongs_to_a_hashed_pin_and_none_names_a_host(path: Path) -> None:
    text = path.read_text()
    assert PIN.sub("", text).strip() == ""
    assert "://" not in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_pins_what_the_program_itself_needs(path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert names(project["project"]["dependencies"]) <= pins(path).keys()


def test_each_purpose_pins_what_it_is_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups, extras = project["dependency-groups"], project["project"]["optional-dependencies"]
    dev = [one for one in groups["dev"] if isinstance(one, str)]
    by_stem = {path.stem: pins(path).keys() for path in FILES}
    assert names(dev + groups["build"]) <= by_stem["dev"]
    assert names(groups["build"]) <= by_stem["runtime"]
    assert names(extras["agents-test"]) <= by_stem["agents"]
    assert names(extras["bench"]) <= by_stem["bench"]


def test_all_files_agree_so_that_one_environment_can_hold_them() -> None:
    seen: dict[str, str] = {}
    for path in FILES:
        for name, version in pins(path).items():
            assert seen.setdefault(name, version) == version, f"{path.stem} pins another {name}"


def test_binary_packages_are_pinned_for_more_than_one_platform() -> None:
    text = (ROOT / "requirements" / "runtime.txt").read_text()
    apsw = next(match[3] for match in PIN.finditer(text) if match[1] == "apsw")
    assert apsw.count("--hash") > 10
