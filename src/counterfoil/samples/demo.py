"""Plays the packaged plan on the packaged project, and checks everything that it claims.

It knows the command line and the record only from outside, as a user does: the installed
``counterfoil`` runs as a process, its ``--json`` answers are read, and git is asked for the rest.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterfoil.core.errors import CounterfoilError
from counterfoil.ledger.states import Phase, TaskStatus
from counterfoil.samples import PLAN, git, unpack

EXPECTED_EXIT = 1
"""One task fails for good on purpose, and the exit code of the run must say so."""

EXPECTED_TASKS: Mapping[str, TaskStatus] = {
    "parse": TaskStatus.MERGED,
    "units": TaskStatus.MERGED,
    "intervals": TaskStatus.MERGED,
    "windows": TaskStatus.MERGED,
    "report": TaskStatus.MERGED,
    "stats": TaskStatus.MERGED,
    "notice": TaskStatus.FAILED,
}
CHAIN = ("intervals", "windows", "report")
STARTED, DONE = "dispatch.start", "dispatch.done"
MARK = ".counterfoil-demo"


class ClaimFailed(Exception):
    """Something that the demo says is not so."""


@dataclass(frozen=True, slots=True)
class Claim:
    sentence: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demo plays: the repository, the state of Counterfoil, and the environment."""

    folder: Path
    env: Mapping[str, str]

    @property
    def repository(self) -> Path:
        return self.folder / "tidepool"

    @property
    def home(self) -> Path:
        return self.folder / "state"

    def counterfoil(self, *arguments: str) -> int:
        """Run the installed command on this terminal; returns its exit code."""
        print(f"$ counterfoil {shlex.join(arguments)}", flush=True)
        return subprocess.run(self._command(arguments), env=self.env, check=False).returncode

    def ask(self, *arguments: str) -> Any:
        """The answer of a command that was given ``--json``. Raises ``ClaimFailed``."""
        done = subprocess.run(
            self._command((*arguments, "--json")),
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError as error:
            said = (done.stderr or done.stdout).strip()[-500:]
            raise ClaimFailed(f"`counterfoil {shlex.join(arguments)}` said: {said}") from error

    def _command(self, arguments: Iterable[str]) -> list[str]:
        return [str(Path(sys.executable).with_name("counterfoil")), *arguments]


def main(argv: list[str] | None = None) -> int:
    """Play the demo in a folder."""
    parser = argparse.ArgumentParser(prog="counterfoil.samples.demo", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to play; emptied first if a demo's own")
    stage = prepare(parser.parse_args(argv).folder.resolve())
    try:
        return play(stage)
    except ClaimFailed as error:
        print(f"The demo cannot go on: {error}", file=sys.stderr)
        return 1


def play(stage: Stage) -> int:
    """Run the plan and judge every claim; 0 only if all of them hold."""
    repository = stage.repository
    before = fingerprint(repository)
    failing = suite(stage, "HEAD", "suite-before")
    print(f"\nA library is unpacked in {shown(repository)}, with work in progress in its checkout.")
    print(f"Its test suite: {failing or 'passes'}.\n", flush=True)
    code = stage.counterfoil("run", str(repository / PLAN), "--repo", str(repository))
    run_id = only_run(stage)
    print(flush=True)
    stage.counterfoil("runs", "show", run_id)

    claims = [
        judge("the sample's test suite failed at first", lambda: must(bool(failing), failing)),
        judge(
            f"the run ended with exit code {EXPECTED_EXIT}, since one task failed for good",
            lambda: must(code == EXPECTED_EXIT, f"exit code {code}"),
        ),
        judge("six tasks are merged, one failed for good", lambda: tasks_ended(stage, run_id)),
        judge("two tasks ran side by side", lambda: side_by_side(events(stage, run_id))),
        judge("a chain of three ran in its order", lambda: in_order(events(stage, run_id))),
        judge("a gate failed, and passed on the retry", lambda: retried(events(stage, run_id))),
        judge("the test suite passes on the run branch", lambda: passes_on_run_branch(stage)),
        judge(
            "the checkout is byte for byte as it was",
            lambda: unchanged(before, fingerprint(repository)),
        ),
        judge("the ledger verifies", lambda: verifies(stage)),
    ]
    close(stage, claims)
    return 0 if all(claim.holds for claim in claims) else 1


def prepare(folder: Path) -> Stage:
    """Empty the folder if an earlier demo made it, and unpack the sample into it."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise SystemExit(f"{folder} holds something that no demo made; name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).touch()
    beside = str(Path(sys.executable).parent)
    env = {
        **os.environ,
        "COUNTERFOIL_HOME": str(folder / "state"),
        "PATH": beside + os.pathsep + os.environ.get("PATH", os.defpath),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    stage = Stage(folder, env)
    unpack(stage.repository, dirty=True)
    return stage


def judge(sentence: str, check: Callable[[], str]) -> Claim:
    """A claim with what was seen, or with the reason why it does not hold."""
    try:
        return Claim(sentence, True, check())
    except (ClaimFailed, CounterfoilError, LookupError, TypeError) as error:
        return Claim(sentence, False, str(error))


def must(holds: bool, seen: str) -> str:
    if not holds:
        raise ClaimFailed(seen)
    return seen


# What the record says


def only_run(stage: Stage) -> str:
    return str(stage.ask("runs", "list")["runs"][0]["id"])


def events(stage: Stage, run_id: str) -> list[Mapping[str, Any]]:
    """The run's journal in its order: ``kind`` and ``payload`` of each entry."""
    return list(stage.ask("runs", "events", run_id)["events"])


def tasks_ended(stage: Stage, run_id: str) -> str:
    rows = stage.ask("runs", "show", run_id)["tasks"]
    seen = {row["task_id"]: row["status"] for row in rows}
    return must(seen == dict(EXPECTED_TASKS), ", ".join(f"{k} {v}" for k, v in seen.items()))


def agents_of(journal: list[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Kind and task of each start and end of an agent, gates and merges left out."""
    return [
        (event["kind"], event["payload"]["task"])
        for event in journal
        if event["kind"] in (STARTED, DONE) and event["payload"]["phase"] == Phase.IMPLEMENT
    ]


def side_by_side(journal: list[Mapping[str, Any]]) -> str:
    """By the order of the journal alone: a second agent started before the first was done."""
    alive: list[str] = []
    most: list[str] = []
    for kind, task in agents_of(journal):
        if kind == STARTED:
            alive.append(task)
            most = max(most, list(alive), key=len)
        elif task in alive:
            alive.remove(task)
    return must(len(most) >= 2, " + ".join(most) or "no agent ran")


def in_order(journal: list[Mapping[str, Any]]) -> str:
    """Each agent of the chain started when the one before it was done."""
    seen = [act for act in agents_of(journal) if act[1] in CHAIN]
    wanted = [(kind, task) for task in CHAIN for kind in (STARTED, DONE)]
    return must(seen == wanted, " -> ".join(CHAIN) if seen == wanted else f"saw {seen}")


def retried(journal: list[Mapping[str, Any]]) -> str:
    verdicts = [
        event["kind"].removeprefix("gate0.")
        for event in journal
        if event["kind"].startswith("gate0.") and event["payload"]["task"] == "stats"
    ]
    first_failed = verdicts[:1] == ["fail"] and verdicts[-1] == "pass"
    return must(first_failed, "stats: " + ", then ".join(verdicts))


def verifies(stage: Stage) -> str:
    code = stage.counterfoil("verify")
    return must(code == 0, f"exit code {code}")


# What git and the disk say


def passes_on_run_branch(stage: Stage) -> str:
    branches = run_branches(stage)
    if len(branches) != 1:
        raise ClaimFailed(f"{len(branches)} run branches")
    failing = suite(stage, branches[0], "suite-after")
    return must(not failing, failing or branches[0])


def run_branches(stage: Stage) -> list[str]:
    pattern = "refs/heads/counterfoil/"
    return git(stage.repository, "for-each-ref", "--format=%(refname:short)", pattern).split()


def suite(stage: Stage, revision: str, name: str) -> str:
    """Run the sample's tests on a clone of one revision; empty when they pass."""
    clone = stage.folder / name
    git(stage.folder, "clone", "--quiet", "--no-checkout", str(stage.repository), str(clone))
    git(clone, "checkout", "--quiet", "--detach", git(stage.repository, "rev-parse", revision))
    done = subprocess.run(
        ["python3", "-m", "unittest"],
        cwd=clone,
        env=stage.env,
        capture_output=True,
        text=True,
        check=False,
    )
    ran = re.search(r"Ran (\d+) tests", done.stderr)
    if done.returncode == 0 and ran and int(ran[1]) > 0:
        return ""
    return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "nothing ran"


def fingerprint(repository: Path) -> dict[str, str]:
    """Mode and sha256 of each file of the checkout, of HEAD, of the index and of its branch.

    The files are read as bytes: asking git could refresh the index that is to be proven.
    """
    inside = [path for path in repository.rglob("*") if ".git" not in path.parts]
    of_git = [repository / ".git" / name for name in ("HEAD", "index", "refs/heads/main")]
    return {
        str(path.relative_to(repository)): f"{path.lstat().st_mode:o} {_sha256(path)}"
        for path in sorted([*inside, *of_git])
    }


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def unchanged(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    changed = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
    return must(not changed, ", ".join(changed) or f"{len(after)} files, HEAD and index included")


# The closing screen


def close(stage: Stage, claims: list[Claim]) -> None:
    print()
    for claim in claims:
        print(f"  {'yes' if claim.holds else 'NO '}  {claim.sentence}  ({claim.detail})")
    branch = next(iter(run_branches(stage)), "counterfoil/...")
    print("\nLook around:")
    print(f"  export COUNTERFOIL_HOME={shlex.quote(shown(stage.home, absolute=True))}")
    print(f"  export PATH={shlex.quote(shown(Path(sys.executable).parent, absolute=True))}:$PATH")
    print("  counterfoil runs show last")
    print("  counterfoil runs events last")
    print(f"  git -C {shown(stage.repository)} log --stat {branch}")
    if not all(claim.holds for claim in claims):
        print("\nNot everything that this demo claims is so: see NO above.")


def shown(path: Path, *, absolute: bool = False) -> str:
    """A path as short as it can be from here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if not absolute and path.is_relative_to(here) else str(path)


if __name__ == "__main__":
    sys.exit(main())
