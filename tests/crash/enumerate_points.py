"""Kills the runner of a two-task plan at every durable write and boundary, then recovers it.

``python enumerate_points.py FOLDER [--workers N]`` prints points × outcomes and exits 1 when a
point broke a promise. Every run is a forked child that is really ended with SIGKILL.
"""

import argparse
import asyncio
import collections
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from counterfoil.app import plan_runs, run_views, wiring
from counterfoil.app.house import House, open_house
from counterfoil.app.maintenance import verify_ledger
from counterfoil.app.settings import Settings
from counterfoil.executors.local import LocalExecutor
from counterfoil.testing.faults import FaultyStore

AGENT = Path(__file__).with_name("counted_agent.py")
KEEPER = Path(__file__).with_name("keeper_once.py")
KEEPER_POINTS = (
    "before_lock",
    "after_lock",
    "before_spawn",
    "after_spawn",
    "before_record",
    "after_record",
)
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Point:
    """Where to strike: ``kind`` is commit, boundary, runner (with a keeper held) or keeper."""

    kind: str
    name: str
    number: int = 1

    def __str__(self) -> str:
        return f"{self.kind} {self.name} #{self.number}"


@dataclass(slots=True)
class Outcome:
    """What was seen at one point."""

    point: Point
    struck: bool
    word: str
    faults: list[str] = field(default_factory=list)


def plan_lines() -> str:
    gate = {"name": "there", "run": ["sh", "-c", "test -f base.txt && ls *.txt >/dev/null"]}
    head = {"plan": {"gates": [gate]}}
    tasks = [
        {"id": "first", "run": [sys.executable, "-S", "-E", str(AGENT), "first"]},
        {
            "id": "second",
            "run": [sys.executable, "-S", "-E", str(AGENT), "second"],
            "depends_on": ["first"],
        },
    ]
    return "".join(json.dumps(line) + "\n" for line in (head, *tasks))


def prepare(folder: Path) -> None:
    """A repository with one commit, a plan, an empty state folder."""
    repository = folder / "repo"
    repository.mkdir(parents=True)
    (repository / "base.txt").write_text("base\n")
    identity = ("-c", "user.name=Crash", "-c", "user.email=crash@localhost")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        (*identity, "commit", "-q", "-m", "base"),
    ):
        subprocess.run(["git", *arguments], cwd=repository, check=True)
    (folder / "plan.jsonl").write_text(plan_lines())
    (folder / "log").mkdir()
    os.environ["CRASH_LOG"] = str(folder / "log")


def house_of(folder: Path, on_commit: Callable[[int, str], None] | None = None) -> House:
    settings = Settings(home=folder / "home", grace=1.0)
    if on_commit is None:
        return open_house(settings=settings)
    from counterfoil.stores.sqlite import SqliteStore

    store = FaultyStore(SqliteStore(settings.ledger_file), on_commit=on_commit)
    return House(settings, wiring.open_ledger(settings, store=store))


def strike() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash_run(folder: Path, point: Point | None, counts: dict[str, int] | None = None) -> None:
    """Launch the plan in this process and die at the point."""
    seen: collections.Counter[str] = collections.Counter()

    def at(kind: str, name: str) -> None:
        key = f"{kind} {name}"
        seen[key] += 1
        if counts is not None:
            counts[key] = seen[key]
        if point is not None and (kind, name, seen[key]) == (point.kind, point.name, point.number):
            strike()

    house = house_of(folder, lambda _number, when: at("commit", when))
    control = plan_runs.Control(boundary=lambda name: at("boundary", name))
    if point is not None and point.kind in ("runner", "keeper"):
        action = "stop" if point.kind == "runner" else "kill"
        command = (
            sys.executable,
            str(KEEPER),
            f"{action}:{point.name}",
            str(point.number),
            str(folder),
        )
        wiring.executor = lambda clock: LocalExecutor(clock, command, sweep_grace_seconds=1.0)
    request = plan_runs.LaunchRequest(folder / "plan.jsonl", folder / "repo", concurrency=2)
    with house:
        asyncio.run(plan_runs.drive_new(house, request, control))


def recover_run(folder: Path) -> None:
    """Bring the plan to its end, as an operator would."""
    with house_of(folder) as house:
        runs = run_views.list_runs(house, 10)
        control = plan_runs.Control()
        if not runs:
            request = plan_runs.LaunchRequest(folder / "plan.jsonl", folder / "repo", concurrency=2)
            asyncio.run(plan_runs.drive_new(house, request, control))
        elif runs[0].status not in ("succeeded", "failed"):
            asyncio.run(plan_runs.drive_recovered(house, "last", control))


def forked(work: Callable[[], None], log: Path) -> int:
    """Run work in a forked child; returns its pid. Exit 0: done, 70: it raised."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait_for(pid: int) -> int:
    """The child's exit code, or minus the signal that ended it."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -999


def strike_with_keeper_held(folder: Path, pid: int) -> bool:
    """Kill the runner while its keeper is held at the point, then let the keeper go on."""
    held = folder / "held"
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not held.exists() and time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    held.unlink()
    return True


def try_point(root: Path, number: int, point: Point) -> Outcome:
    folder = root / f"{number:03d}"
    prepare(folder)
    pid = forked(lambda: crash_run(folder, point), folder / "crash.log")
    if point.kind == "runner":
        struck = strike_with_keeper_held(folder, pid)
    else:
        code = wait_for(pid)
        struck = (folder / "held").exists() if point.kind == "keeper" else code == -signal.SIGKILL
    code = wait_for(forked(lambda: recover_run(folder), folder / "recover.log"))
    if code:
        said = (folder / "recover.log").read_text()[-1500:]
        return Outcome(point, struck, "not recovered", [f"recovery ended with {code}: {said}"])
    return judge(folder, point, struck)


def judge(folder: Path, point: Point, struck: bool) -> Outcome:
    """Hold what is there against the promises."""
    faults: list[str] = []
    starts = (folder / "log" / "starts").read_text().split()
    doubled = [one for one, count in collections.Counter(starts).items() if count > 1]
    faults += [f"the agent ran twice for {one}" for one in doubled]
    if (folder / "log" / "overlaps").exists():
        faults.append("two agents of one task lived at once")
    with house_of(folder) as house:
        view = run_views.view(house, "last")
        faults += [one for findings in verify_ledger(house, None, {}) for one in findings.faults]
        entries = run_views.entries(house, "last", 0, None, 10_000)
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        faults.append("the journal has a gap")
    if view.run.status != "succeeded" or any(task.status != "merged" for task in view.tasks):
        states = {task.task_id: (task.status, task.reason) for task in view.tasks}
        faults.append(f"the run is {view.run.status} ({view.run.error_message}): {states}")
    listed = subprocess.run(
        ["git", "ls-tree", "--name-only", view.branch],
        cwd=folder / "repo",
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if sorted(listed) != ["base.txt", "first.txt", "second.txt"]:
        faults.append(f"the run branch holds {listed}")
    durations = collections.Counter(
        entry.attempt_id for entry in entries if entry.kind == "task.duration"
    )
    if set(durations) != {attempt.id for attempt in view.attempts} or set(durations.values()) != {
        1
    }:
        faults.append("an attempt lacks its one duration")
    faults += survivors(folder)
    tries = sum(attempt.phase == "implement" for attempt in view.attempts)
    word = f"completed, {tries} attempts" if struck else "point not reached"
    return Outcome(point, struck, word, faults)


def survivors(folder: Path) -> list[str]:
    """Processes that carry this folder's log in their environment and still live."""
    wanted = f"CRASH_LOG={folder / 'log'}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                marked = any(one.startswith(b"COUNTERFOIL_ATTEMPT=") for one in variables)
                if wanted in variables and marked:
                    found.append(f"process {entry.name} of an attempt is alive")
            except OSError:
                continue
    return found


def points(root: Path) -> list[Point]:
    """Every point, from a run that nobody kills."""
    folder = root / "calm"
    prepare(folder)
    counts_file = folder / "counts.json"

    def calm() -> None:
        counts: dict[str, int] = {}
        crash_run(folder, None, counts)
        counts_file.write_text(json.dumps(counts))

    code = wait_for(forked(calm, folder / "calm.log"))
    if code:
        raise SystemExit(f"the calm run ended with {code}: {(folder / 'calm.log').read_text()}")
    found = []
    for key, count in json.loads(counts_file.read_text()).items():
        kind, name = key.split(" ", 1)
        found += [Point(kind, name, number) for number in range(1, count + 1)]
    found += [Point(kind, name, 1) for kind in ("runner", "keeper") for name in KEEPER_POINTS]
    found += [Point("runner", name, 2) for name in KEEPER_POINTS]
    return found


def tried(root: Path, found: list[Point], workers: int) -> Iterator[Outcome]:
    """Outcomes of all points, tried by this many processes side by side."""
    pipes = []
    for worker in range(workers):
        source, target = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(source)
            for number in range(worker, len(found), workers):
                point = found[number]
                try:
                    outcome = try_point(root, number, point)
                except BaseException:
                    outcome = Outcome(point, False, "broken", [traceback.format_exc()])
                line = [point.kind, point.name, point.number]
                line += [outcome.struck, outcome.word, outcome.faults]
                os.write(target, json.dumps(line).encode() + b"\n")
            os._exit(0)
        os.close(target)
        pipes.append((pid, source))
    for pid, source in pipes:
        with os.fdopen(source) as lines:
            for line in lines:
                kind, name, number, struck, word, faults = json.loads(line)
                yield Outcome(Point(kind, name, number), struck, word, faults)
        os.waitpid(pid, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    root = given.folder.absolute()
    began = time.monotonic()
    found = points(root)
    outcomes = list(tried(root, found, given.workers))
    table: dict[tuple[str, str], collections.Counter[str]] = {}
    for outcome in outcomes:
        row = table.setdefault((outcome.point.kind, outcome.point.name), collections.Counter())
        row["BROKEN" if outcome.faults else outcome.word] += 1
    for (kind, name), words in sorted(table.items()):
        told = ", ".join(f"{count} × {word}" for word, count in sorted(words.items()))
        print(f"{kind:9} {name:14} {sum(words.values()):4} points: {told}")
    broken = [outcome for outcome in outcomes if outcome.faults]
    for outcome in broken:
        print(f"BROKEN {outcome.point}: {'; '.join(outcome.faults)}")
    print(
        f"{len(outcomes)} points, {len(outcomes) - len(broken)} kept every promise, "
        f"{len(broken)} did not; {time.monotonic() - began:.0f} s"
    )
    return 1 if broken or len(outcomes) != len(found) else 0


if __name__ == "__main__":
    sys.exit(main())
