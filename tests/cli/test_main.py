"""The top of the command line: help at once, errors as sentences, exit codes."""

import os
import subprocess
import sys
from typing import Any

import click
import pytest

from counterfoil import __version__
from counterfoil.cli import main
from counterfoil.cli.exit_codes import MEANINGS, Exit
from counterfoil.cli.main import told
from counterfoil.core.errors import Conflict, GitFailed

HEAVY = ("rich", "pydantic", "pydantic_settings", "apsw", "anyio", "asyncio", "psutil", "aiosql")


def test_the_version_is_told(call: Any) -> None:
    assert call("--version").stdout == f"counterfoil {__version__}\n"


def test_help_lists_every_exit_code(call: Any) -> None:
    text = call("--help").stdout
    for code, meaning in MEANINGS.items():
        assert f"{int(code)}  {meaning}" in text


@pytest.mark.parametrize("words", [[], ["runs"], ["plan"], ["db"]])
def test_a_group_without_a_command_shows_its_help(words: list[str], call: Any) -> None:
    result = call(*words)
    assert result.exit_code == Exit.USAGE
    assert "Example:" in result.stderr
    assert "error:" not in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnus"], "There is no command 'rnus'. Did you mean 'runs'?"),
        (["run"], "Missing argument 'PLAN'."),
        (["runs", "list", "--most", "0"], "0 is not in the range"),
        (["--nope"], "No such option"),
    ],
)
def test_a_wrong_use_is_a_sentence_and_a_hint(words: list[str], said: str, call: Any) -> None:
    result = call(*words)
    assert result.exit_code == Exit.USAGE
    assert result.stderr.startswith("error: ")
    assert said in result.stderr
    assert "\nhint: counterfoil" in result.stderr
    assert "--help" in result.stderr
    assert result.stdout == ""


def test_an_error_is_told_as_a_sentence_with_its_hint(capsys: pytest.CaptureFixture[str]) -> None:
    error = Conflict("it is \x1b[31mdriven\x1b[0m by another", hint="wait\nfor it")
    assert told(error) is Exit.REFUSED
    assert capsys.readouterr().err == (
        "error: it is \\x1b[31mdriven\\x1b[0m by another\nhint: wait for it\n"
    )


def test_the_only_error_of_a_group_is_told_itself(capsys: pytest.CaptureFixture[str]) -> None:
    group = BaseExceptionGroup("two", [ExceptionGroup("one", [GitFailed("git said no")])])
    assert told(group) is Exit.SURROUNDINGS
    assert capsys.readouterr().err == "error: git said no\n"


def test_an_unexpected_error_is_one_line_and_the_way_to_its_place(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(ValueError("odd\nthing")) is Exit.INTERNAL
    said = capsys.readouterr().err
    assert "unexpected ValueError: odd" in said
    assert "COUNTERFOIL_TRACEBACK=1" in said
    assert "Traceback" not in said
    monkeypatch.setenv("COUNTERFOIL_TRACEBACK", "1")
    with pytest.raises(ValueError) as caught:
        raise ValueError("odd")
    assert told(caught.value) is Exit.INTERNAL
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_ends_without_a_word(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(error) is Exit.INTERRUPTED
    assert capsys.readouterr().err == ""


def test_help_loads_nothing_heavy(kit: Any) -> None:
    program = (
        "import sys\n"
        "from counterfoil.cli.main import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("cached", [True, False])
def test_help_takes_less_than_300_ms_of_processor_time(cached: bool, kit: Any) -> None:
    """Processor time, the best of a few: wall time says more of the machine than of us."""
    env = dict(os.environ)
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    if not cached:
        env["PYTHONDONTWRITEBYTECODE"] = "1"
    assert min(_processor_seconds(kit.command, env) for _ in range(5)) < 0.3


def _processor_seconds(command: tuple[str, ...], env: dict[str, str]) -> float:
    started = subprocess.Popen([*command, "--help"], env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0
    return used.ru_utime + used.ru_stime


def test_a_reader_that_goes_away_is_no_error(kit: Any, recorded: Any) -> None:
    """The pipe is closed before anything is written to it."""
    reading, writing = os.pipe()
    os.close(reading)
    started = subprocess.Popen(
        [*kit.command, "runs", "events", "last"],
        env=kit.environment(recorded.home),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    _, said = started.communicate(timeout=60)
    assert (started.returncode, said) == (Exit.NO_READER, "")


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        (">&-", Exit.OK, ""),
        (">&- 2>&- <&-", Exit.OK, ""),
        ("> /dev/full", Exit.SURROUNDINGS, "error: writing failed: No space left on device\n"),
    ],
)
@pytest.mark.parametrize("words", [("runs", "show", "last"), ("runs", "list", "--json")])
def test_output_that_is_closed_or_has_no_room_is_no_crash(
    target: str, code: Exit, said: str, words: tuple[str, ...], kit: Any, recorded: Any
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {target}', "sh", *kit.command, *words],
        env=kit.environment(recorded.home),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(said)
    assert bool(done.stderr) is bool(said)
    assert "report it" not in done.stderr


def test_a_sequence_number_beyond_the_ledgers_is_a_wrong_use(call: Any) -> None:
    assert call("runs", "events", "last", "--since", "9" * 23).exit_code == Exit.USAGE


def test_the_entry_point_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["counterfoil", "--version"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == Exit.OK
