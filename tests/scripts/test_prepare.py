"""Set-up says what is missing; it is the first thing that a newcomer meets."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the set-up script, nothing prepared, and an empty folder of programs."""
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "programs").mkdir()
    return tmp_path


def program(project: Path, name: str, script: str) -> None:
    path = project / "programs" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def prepare(project: Path, python: str = "python3") -> subprocess.CompletedProcess[str]:
    path = f"{project / 'programs'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    return subprocess.run(
        ["/bin/sh", "scripts/prepare.sh", "runtime"],
        cwd=project,
        env={"PATH": path, "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )


def refusal(project: Path, python: str = "python3") -> str:
    done = prepare(project, python)
    assert done.returncode == 1
    assert not (project / ".venv" / "prepared-runtime").exists()
    return done.stderr


def test_a_missing_python_is_named(project: Path) -> None:
    assert "python9.9 is not on the PATH" in refusal(project, "python9.9")


def test_an_old_python_is_named_with_its_version(project: Path) -> None:
    program(project, "python3", '[ "$1" = --version ] && echo Python 3.9.2 && exit; exit 1')
    said = refusal(project)
    assert "Python 3.9.2 is too old" in said
    assert "make PYTHON=" in said


def test_a_python_without_venv_is_told_the_package(project: Path) -> None:
    program(project, "python3", 'case "$2" in *ensurepip*) exit 1 ;; esac')
    assert "python3-venv" in refusal(project)


@pytest.mark.parametrize("version", ["2.37.9", "1.9.1", "2.9.5"])
def test_an_old_git_is_named_with_its_version(project: Path, version: str) -> None:
    program(project, "python3", "exit 0")
    program(project, "git", f"echo git version {version}")
    said = refusal(project)
    assert f"git {version.rpartition('.')[0]} is too old" in said


@pytest.mark.parametrize("version", ["2.38.0", "2.51.1 (Apple Git-154)", "3.0.0"])
def test_a_newer_git_is_fine(project: Path, version: str) -> None:
    program(project, "python3", "exit 0")
    program(project, "git", f"echo 'git version {version}'")
    assert "too old" not in prepare(project).stderr


def venv_with(project: Path, python: str) -> None:
    """Lets ``python3 -m venv`` write a Python that is a shell script of one line."""
    program(
        project,
        "python3",
        f"""case "$2" in venv)
        mkdir -p .venv/bin
        printf '%s\\n' '#!/bin/sh' '{python}' >.venv/bin/python
        chmod +x .venv/bin/python ;;
        esac""",
    )
    program(project, "git", "echo git version 2.40.0")


def test_an_unreachable_index_is_an_error_that_says_so(project: Path) -> None:
    venv_with(project, '[ "$2" != pip ]')
    assert "a package index must be reachable" in refusal(project)


def test_nothing_is_done_twice(project: Path) -> None:
    venv_with(project, 'echo "$*" >>calls')
    first = prepare(project)
    assert first.returncode == 0, first.stderr
    calls = (project / "calls").read_text()
    assert "--require-hashes -r requirements/runtime.txt" in calls
    assert "--no-deps --no-build-isolation --editable ." in calls
    again = prepare(project)
    assert (again.returncode, again.stdout) == (0, "")
    assert (project / "calls").read_text() == calls


def test_changed_pins_are_installed_again(project: Path) -> None:
    venv_with(project, "exit 0")
    assert prepare(project).returncode == 0
    pins = project / "requirements" / "runtime.txt"
    pins.write_text(pins.read_text() + "\n")
    assert "installing requirements/runtime.txt" in prepare(project).stdout
