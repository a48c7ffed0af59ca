"""Runs git safely: argv lists, no prompts, no hooks, a deadline, nothing leaked in.

It knows git as a program only; what a repository is, the rooms beside it know.
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from counterfoil.core.errors import GitFailed, RepositoryRefused

OLDEST_GIT = (2, 38)

# What of GIT_* a child may inherit: who commits, where the person's settings lie, how remotes
# are reached. All else names a repository, an index or a setting of the caller's own git.
_KEPT = frozenset(
    {
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CEILING_DIRECTORIES",
        "GIT_EXEC_PATH",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSH_VARIANT",
        "GIT_SSL_CAINFO",
        "GIT_SSL_CAPATH",
    }
)
_KEPT_PREFIX = "GIT_LFS_"

_NO_PROMPTS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "commit.gpgSign",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "tag.gpgSign",
    "GIT_CONFIG_VALUE_1": "false",
}

_OURS = {
    "LC_ALL": "C",
    "GIT_PAGER": "cat",
    # A replace ref could show another history than the one that is recorded.
    "GIT_NO_REPLACE_OBJECTS": "1",
}

_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.safecrlf=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "i18n.commitEncoding=UTF-8",
)
_STDERR_KEPT = 2_000
_ENDING_SECONDS = 5.0


def child_environment(
    base: Mapping[str, str], identity: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment for a child that may call git: no leaked repository, no prompts.

    ``identity`` holds the GIT_AUTHOR_* and GIT_COMMITTER_* that the repository lacks.
    Signing is off: it would prompt, and sign an agent's work with a person's key.
    """
    kept = {
        name: value
        for name, value in base.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_PREFIX)
    }
    return kept | _NO_PROMPTS | dict(identity or {})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a git command said, as bytes: paths need not be UTF-8."""

    code: int
    out: bytes
    err: bytes

    @property
    def line(self) -> str:
        """The output as one line of text."""
        return decode(self.out).strip("\n")

    @property
    def fields(self) -> list[str]:
        """The NUL-terminated fields of the output."""
        return decode(self.out).split("\0")[:-1]


def decode(raw: bytes) -> str:
    """Bytes as text; those that are not UTF-8 become surrogates, as in file names."""
    return raw.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The bytes that ``decode`` read."""
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class GitCommand:
    """Git in one folder. ``place`` are arguments such as --git-dir that go before the verb."""

    folder: Path
    environment: Mapping[str, str]
    timeout_seconds: float = 600.0
    place: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    def at(self, folder: Path, *place: str) -> "GitCommand":
        """The same git in another folder."""
        return replace(self, folder=folder, place=place)

    def knowing(self, **variables: str) -> "GitCommand":
        """The same git with more environment variables."""
        return replace(self, extra={**self.extra, **variables})

    def run(
        self,
        *args: str,
        accepts: Sequence[int] = (0,),
        stdin: bytes | None = None,
        settings: Sequence[str] = (),
    ) -> Answer:
        """Run one command to its end.

        Raises ``GitFailed`` for an exit code that is not among ``accepts`` (empty: any is
        accepted) and when the deadline has passed.
        """
        flags = [flag for setting in (*_SETTINGS, *settings) for flag in ("-c", setting)]
        argv = ["git", *flags, *self.place, *args]
        answer = self._ended(argv, args, stdin)
        if accepts and answer.code not in accepts:
            raise self.failed(args, answer)
        return answer

    def failed(self, args: Sequence[str], answer: Answer) -> GitFailed:
        """The error that tells what was run, where, and the end of what git said."""
        said = answer.err.decode("utf-8", "replace").strip()[-_STDERR_KEPT:]
        lines = said.splitlines() or ["it said nothing"]
        told = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1])
        return GitFailed(
            f"git {args[0]} failed with exit code {answer.code} in {self.folder}: {told}",
            details={"argv": ["git", *args], "exit_code": answer.code, "stderr": said},
        )

    def _ended(self, argv: list[str], args: Sequence[str], stdin: bytes | None) -> Answer:
        try:
            child = subprocess.Popen(
                argv,
                cwd=self.folder,
                env={**self.environment, **_OURS, **self.extra},
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A session of its own: no terminal to prompt on, and Ctrl-C spares it.
                start_new_session=True,
            )
        except FileNotFoundError as error:
            if not self.folder.is_dir():
                raise GitFailed(f"git {args[0]} cannot run: {self.folder} is gone") from error
            raise RepositoryRefused(
                "Git is not installed, or not on PATH.",
                hint=f"Install git {_version_text(OLDEST_GIT)} or later.",
            ) from error
        except (OSError, ValueError) as error:
            raise GitFailed(f"git {args[0]} cannot run in {self.folder}: {error}") from error
        with child:
            try:
                out, err = child.communicate(stdin, timeout=self.timeout_seconds)
            except BaseException as error:
                _end(child)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise GitFailed(
                    f"git {args[0]} did not end within {self.timeout_seconds:g} s in "
                    f"{self.folder} and was ended.",
                    hint="A filter, a credential helper or the disk may hang.",
                    details={"argv": ["git", *args], "exit_code": None, "stderr": ""},
                ) from error
        return Answer(child.returncode, out, err)


def require_git(git: GitCommand) -> None:
    """Refuse a git that is missing or cannot merge without a checkout."""
    said = git.run("version").line
    version = _version(said)
    if version < OLDEST_GIT:
        raise RepositoryRefused(
            f"{said or 'This git'} is too old: merging without a checkout needs "
            f"{_version_text(OLDEST_GIT)}.",
            hint=f"Install git {_version_text(OLDEST_GIT)} or later.",
        )


def _version(said: str) -> tuple[int, int]:
    words = said.split()
    numbers = words[2].split(".") if len(words) > 2 else []
    if len(numbers) < 2 or not (numbers[0].isdigit() and numbers[1].isdigit()):
        return (0, 0)
    return int(numbers[0]), int(numbers[1])


def _version_text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End git and its helpers; a git that is asked first removes its lock files."""
    for ask in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, ask)
            child.wait(_ENDING_SECONDS)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    child.wait()
