"""One repository as found on disk: where it is, who commits in it, and its objects."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterfoil.adapters.git_command import (
    Answer,
    GitCommand,
    child_environment,
    decode,
    encode,
    require_git,
)
from counterfoil.core.clock import Clock
from counterfoil.core.errors import GitFailed, RepositoryRefused

OUR_NAME = "Counterfoil"
OUR_EMAIL = "counterfoil@localhost"
DURABLE = ("core.fsync=all",)

_FULL_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_IDENTITY_KEYS = r"^(user|author|committer)\.(name|email)$"


@dataclass(frozen=True, slots=True)
class Repository:
    """``git_dir`` belongs to the checkout at ``root``, ``common_dir`` to all its worktrees.

    ``identity`` holds what the repository's settings do not say of author and committer.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    git: GitCommand
    identity: Mapping[str, str]
    clock: Clock

    def sha(self, revision: str) -> str | None:
        """The commit that a revision names, or None."""
        if not revision or "\0" in revision:
            return None
        answer = self.git.run(
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            revision + "^{commit}",
            accepts=(),
        )
        return answer.line if answer.code == 0 else None

    def commit_sha(self, revision: str) -> str:
        """As ``sha``; raises ``GitFailed`` when there is no such commit."""
        found = self.sha(revision)
        if found is None:
            raise GitFailed(f"There is no commit {revision!r} in {self.root}.")
        return found

    def descends(self, commit: str, ancestor: str) -> bool:
        """True when ``ancestor`` is the commit itself or in its history."""
        if commit == ancestor:
            return True
        answer = self.git.run("merge-base", "--is-ancestor", ancestor, commit, accepts=(0, 1))
        return answer.code == 0

    def write_commit(
        self, tree: str, parents: Sequence[str], message: str, settings: Sequence[str] = DURABLE
    ) -> str:
        """A commit object, durable, reached by no ref."""
        flags = [flag for parent in parents for flag in ("-p", parent)]
        date = f"@{self.clock.now_us() // 1_000_000} +0000"
        dated = self.git.knowing(GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
        return dated.run("commit-tree", *flags, tree, stdin=encode(message), settings=settings).line

    def point(self, refs: Mapping[str, str]) -> None:
        """Make refs name these commits, all or none, whatever they named before."""
        lines = "".join(f"update {ref}\0{commit}\0\0" for ref, commit in refs.items())
        self.git.run("update-ref", "--stdin", "-z", stdin=encode(lines), settings=DURABLE)


def is_full_sha(text: str) -> bool:
    """True for a complete object name, sha1 or sha256."""
    return _FULL_SHA.match(text) is not None


def find_repository(
    path: Path, environment: Mapping[str, str], clock: Clock, timeout_seconds: float
) -> Repository:
    """The repository around a path. Refuses, by name, what no plan can run on."""
    if not path.is_dir():
        raise RepositoryRefused(
            f"{path} is not a folder.", hint="Name a folder inside a git repository."
        )
    git = GitCommand(path, child_environment(environment), timeout_seconds)
    require_git(git)
    answer = git.run(
        "rev-parse",
        "--path-format=absolute",
        "--is-bare-repository",
        "--absolute-git-dir",
        "--git-common-dir",
        "--show-toplevel",
        "HEAD^{commit}",
        accepts=(),
    )
    lines = decode(answer.out).splitlines()
    if answer.code != 0 or len(lines) != 5:
        raise _refusal(path, lines, answer)
    git_dir, common_dir, root = (Path(line) for line in lines[1:4])
    git = git.at(root)
    identity = _missing_identity(git, environment)
    return Repository(root, git_dir, common_dir, git.knowing(**identity), identity, clock)


def _refusal(path: Path, lines: list[str], answer: Answer) -> RepositoryRefused:
    said = answer.err.decode("utf-8", "replace").strip()
    first = said.partition("\n")[0]
    details = {"stderr": said}
    if not lines:
        if "not a git repository" in said:
            return RepositoryRefused(
                f"{path} is not in a git repository.",
                hint="Make one there: git init, git add -A, git commit.",
                details=details,
            )
        return RepositoryRefused(
            f"Git refuses the repository at {path}: {first}",
            hint="Run git status there; it says what to mend.",
            details=details,
        )
    if lines[0] == "true":
        return RepositoryRefused(
            f"{path} is a bare repository: it has no checkout that a plan could start from.",
            hint="Clone it, or add a worktree to it, and name that folder.",
            details=details,
        )
    if len(lines) == 3:
        return RepositoryRefused(
            f"{path} lies inside a .git folder.",
            hint="Name the repository's own folder.",
            details=details,
        )
    if answer.code != 0:
        return RepositoryRefused(
            f"{path} has no commit that a plan could start from (its branch is unborn).",
            hint="Commit something first: git add -A, git commit.",
            details=details,
        )
    return RepositoryRefused(
        f"The path of {path} holds a line break, which git cannot tell apart.",
        hint="Rename the folder.",
    )


def _missing_identity(git: GitCommand, environment: Mapping[str, str]) -> dict[str, str]:
    answer = git.run("config", "--null", "--get-regexp", _IDENTITY_KEYS, accepts=(0, 1))
    pairs = (entry.partition("\n") for entry in answer.fields)
    known = {key for key, _, value in pairs if value.strip()}
    missing = {}
    for role in ("author", "committer"):
        for part, ours in (("name", OUR_NAME), ("email", OUR_EMAIL)):
            variable = f"GIT_{role}_{part}".upper()
            said = environment.get(variable) or (part == "email" and environment.get("EMAIL"))
            if not said and not known & {f"{role}.{part}", f"user.{part}"}:
                missing[variable] = ours
    return missing
