"""The command line: its commands, and how every error becomes a sentence and an exit code."""

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import click

from counterfoil import __version__
from counterfoil.cli.exit_codes import MEANINGS, Exit, of_error
from counterfoil.cli.terminal import (
    close_output,
    is_full,
    prepare_streams,
    reader_has_gone,
    say,
)
from counterfoil.cli.words import harmless, harmless_lines
from counterfoil.core.errors import CounterfoilError

TRACEBACK = "COUNTERFOIL_TRACEBACK"
"""When this variable is set, an error shows where it happened."""


COMMANDS: Mapping[str, str] = {
    "run": "Run a plan on a repository, to its end.",
    "runs": "Look at recorded runs, take one up again, land its work.",
    "plan": "Check and show plans.",
    "verify": "Prove that the ledger is what was recorded.",
    "db": "Look after the ledger's database.",
    "doctor": "Look whether this machine has what runs need.",
}
"""Each is read from ``cmd_<name>.py`` when it is needed, so that help is there at once."""


_NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What newer versions of click raise for a group without a command: no error, but help."""


class CommandLine(click.Group):
    """The top group. Commands return an ``Exit``; whatever they raise is told in one way."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        prepare_streams()
        run = super().main
        sys.exit(_ended(lambda: run(args, prog_name, complete_var, standalone_mode=False, **extra)))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if not reader_has_gone(error):
                raise
            close_output()
            return Exit.NO_READER

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are met."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"counterfoil.cli.cmd_{cmd_name}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, 1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"There is no command {name!r}.{guess}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _ended(command: Callable[[], Any]) -> Exit:
    """What the process ends with, after everything that went wrong was told."""
    try:
        code = command()
        sys.stdout.flush()
    except BaseException as error:
        if isinstance(error, OSError):
            close_output()
            if reader_has_gone(error):
                return Exit.NO_READER
        return told(error)
    return Exit(code or 0)


def told(error: BaseException) -> Exit:
    """Tell an error on stderr and say what the process ends with."""
    error = _innermost(error)
    if os.environ.get(TRACEBACK) and not isinstance(error, click.ClickException):
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
    match error:
        case KeyboardInterrupt() | click.Abort():
            return Exit.INTERRUPTED
        case SystemExit():
            raise error
        case CounterfoilError():
            _tell(error.message, error.hint)
            return of_error(error)
        case OSError() if is_full(error):
            where = f" to {error.filename}" if error.filename else ""
            _tell(f"writing{where} failed: {error.strerror}", "make room there and try again")
            return Exit.SURROUNDINGS
        case click.UsageError(ctx=click.Context() as ctx) if isinstance(error, _NO_ARGUMENTS):
            say(ctx.get_help())
            return Exit.USAGE
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "counterfoil"
            _tell(error.format_message(), f"{path} --help")
            return Exit.USAGE
        case click.ClickException():
            _tell(error.format_message(), "")
            return Exit.USAGE
        case _:
            _tell(
                f"unexpected {type(error).__name__}: {error}",
                f"{TRACEBACK}=1 shows where it happened; please report it",
            )
            return Exit.INTERNAL


def _innermost(error: BaseException) -> BaseException:
    """The error itself, where concurrent work has wrapped the only one into a group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _tell(message: str, hint: str) -> None:
    say(f"error: {harmless_lines(message).strip()}")
    if hint:
        say(f"hint: {harmless(hint)}")


def _exit_codes() -> str:
    rows = (f"  {int(code):>3}  {meaning}" for code, meaning in MEANINGS.items())
    return "\b\nExit codes:\n" + "\n".join(rows)


@click.group(
    "counterfoil",
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_exit_codes(),
)
@click.version_option(__version__, message="counterfoil %(version)s")
def cli() -> None:
    """Run a plan of agent work to its end, and keep a record of everything that left.

    A plan is a file of tasks, one JSON object a line. Each task is done by an agent or a command
    in a git worktree of its own, judged by gates, and merged into a run branch; your checkout is
    never touched. What happened stays in a ledger: a run that was interrupted goes on from there.

    \b
    Example:
      counterfoil plan check plan.jsonl
      counterfoil run plan.jsonl
      counterfoil runs show last
    """


def main() -> NoReturn:
    """The entry point of the installed command."""
    cli.main(prog_name="counterfoil")
    raise AssertionError("unreachable: the command line ends the process")
