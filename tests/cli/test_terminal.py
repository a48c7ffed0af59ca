"""How output reaches a terminal, a pipe or a file."""

import errno
import io
import os
import sys
from typing import Any

import pytest

from counterfoil.cli import terminal


class Stream(io.StringIO):
    def __init__(self, *, encoding: str = "utf-8", tty: bool = False) -> None:
        super().__init__()
        self._tty = tty
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._tty


def test_what_is_no_terminal_gets_no_escape_codes_whatever_is_forced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"):
        monkeypatch.setenv(name, "1")
    stream = Stream()
    terminal.print_line(terminal.console(stream), ("red", "red"), " and plain")
    assert stream.getvalue() == "red and plain\n"


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Stream(tty=True)
    terminal.print_line(terminal.console(stream), ("red", "red"))
    assert "\x1b[31mred" in stream.getvalue()


def test_a_dumb_terminal_is_treated_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal.is_terminal(Stream(tty=True))


@pytest.mark.parametrize(
    ("encoding", "plain"),
    [("utf-8", False), ("UTF8", False), ("ascii", True), ("iso-8859-1", True)],
)
def test_only_utf_terminals_get_more_than_ascii(encoding: str, plain: bool) -> None:
    assert terminal.ascii_only(Stream(encoding=encoding)) is plain


def test_markup_and_emoji_codes_stay_as_they_are() -> None:
    stream = Stream()
    terminal.print_line(terminal.console(stream), "[red]x[/red] :smile: http://a.example 12")
    assert stream.getvalue() == "[red]x[/red] :smile: http://a.example 12\n"


def test_lines_are_never_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Stream()
    terminal.print_line(terminal.console(stream), "word " * 30)
    assert stream.getvalue().count("\n") == 1


def test_blocks_have_no_blanks_at_their_lines_ends() -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_row("a", "long")
    table.add_row("b", "x")
    stream = Stream()
    terminal.print_block(terminal.console(stream), table)
    assert stream.getvalue() == "a long\nb x\n"


def test_characters_that_the_encoding_lacks_are_spelled_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    terminal.prepare_streams()
    print("✓ \udc80")
    sys.stdout.flush()
    assert raw.getvalue() == b"\\u2713 \\udc80\n"


def test_a_diagnostic_that_nobody_can_read_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Stream):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    terminal.say("hello")


def test_json_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_json({"a": "✓\n"})
    assert capsys.readouterr().out == '{"a": "\\u2713\\n"}\n'


def test_only_output_errors_mean_that_the_reader_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    hung_up = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(terminal, "_leads_to_a_device", lambda: True)
    assert terminal.reader_has_gone(hung_up)
    assert terminal.reader_has_gone(BrokenPipeError())
    assert not terminal.reader_has_gone(OSError(errno.EIO, "Input/output error", "ledger.db"))
    assert not terminal.reader_has_gone(OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(terminal, "_leads_to_a_device", lambda: False)
    assert not terminal.reader_has_gone(hung_up)


def test_a_reader_that_is_gone_is_told_to_whoever_prints(kit: Any) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1) as stream:
        out = terminal.console(stream)
        with pytest.raises(BrokenPipeError):
            terminal.print_line(out, "nobody")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)  # what is buffered has a place to go
