"""How output reaches a terminal, a pipe or a file: never a crash, never a stray escape code."""

import errno
import json
import os
import stat
import sys
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

WIDTH_OF_FILES = 160
"""Where output is no terminal, tables may be this wide; ``COLUMNS`` says otherwise."""


def prepare_streams() -> None:
    """Characters that the terminal's encoding lacks are spelled out instead of raising.

    A stream that was closed before the start leads nowhere.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _occupy_closed()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _occupy_closed() -> None:
    """Put /dev/null where streams were closed, lest the next opened file become one of them."""
    while (nowhere := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(nowhere, True)
    os.close(nowhere)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for good


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person reads it on something that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def ascii_only(stream: IO[str]) -> bool:
    return (
        not (getattr(stream, "encoding", None) or "ascii")
        .lower()
        .replace("-", "")
        .startswith("utf")
    )


def console(stream: IO[str] | None = None) -> "Console":
    """A console on stdout that takes text as it is: no markup, no emoji codes, no guessing.

    Only a terminal gets colours, and not with ``NO_COLOR``.
    """
    from rich.console import Console

    class Unforgiving(Console):
        def on_broken_pipe(self) -> None:
            """Whoever prints decides what a reader that has gone means; the process goes on."""
            raise BrokenPipeError

    stream = stream or sys.stdout
    terminal = is_terminal(stream)
    width = None if terminal or "COLUMNS" in os.environ else WIDTH_OF_FILES
    return Unforgiving(
        file=stream,
        force_terminal=terminal,
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_line(out: "Console", *parts: "str | Text | tuple[str, str]") -> None:
    """One line that is never wrapped or cut, so that commands and paths can be copied."""
    from rich.text import Text

    out.print(Text.assemble(*parts), soft_wrap=True)


def print_block(out: "Console", block: "RenderableType") -> None:
    """A table or a tree without the blanks that would fill its lines up."""
    with out.capture() as captured:
        out.print(block)
    out.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def print_json(value: Any) -> None:
    """One JSON document on one line of stdout, at once."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """A diagnostic line on stderr; nothing happens when nobody reads it any more."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return


def reader_has_gone(error: OSError) -> bool:
    """Whether output failed because nobody is there: a closed pipe, or a terminal that hung up."""
    if isinstance(error, BrokenPipeError):
        return True
    return error.errno == errno.EIO and error.filename is None and _leads_to_a_device()


def _leads_to_a_device() -> bool:
    """A terminal that hung up is still a device, while ``isatty`` denies it."""
    try:
        return stat.S_ISCHR(os.fstat(1).st_mode)
    except OSError:
        return False


def is_full(error: OSError) -> bool:
    """Whether there is no room for what was to be written."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def close_output() -> None:
    """After the reader has gone: what is still buffered goes nowhere, silently."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
