"""What a run finds around it: the developer's checkout, odd repositories, disks that fill up."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.app import plan_runs, run_views
from counterfoil.app.maintenance import verify_ledger
from counterfoil.core.errors import Conflict, PlanInvalid, RepositoryRefused, UsageError
from counterfoil.stores.sqlite import SqliteStore
from counterfoil.testing.faults import FaultyStore

OURS = ("objects", "worktrees", "counterfoil", "counterfoil.lock")


def fingerprint(repository: Path) -> dict[str, str]:
    """Every file of the checkout and of its .git folder with its bytes, mode and time.

    Objects are only ever added; worktrees, refs and the lock under our own names are ours.
    """
    found = {}
    for folder, folders, names in os.walk(repository):
        folders[:] = [name for name in folders if name not in OURS]
        for path in (Path(folder, name) for name in names if name not in OURS):
            status = path.lstat()
            content = b"" if path.is_symlink() else path.read_bytes()
            what = f"{status.st_mode:o} {status.st_mtime_ns} {hashlib.sha256(content).hexdigest()}"
            found[str(path.relative_to(repository))] = what
    return found


@pytest.fixture
def dirty(stage: Any) -> Any:
    """Changes of every kind, none of them committed."""
    repository = stage.repository
    (repository / ".gitignore").write_text("ignored\n")
    stage.git("add", ".gitignore")
    (repository / "a.txt").write_text("staged\n")
    stage.git("add", "a.txt")
    (repository / "a.txt").write_text("unstaged\n")
    (repository / "b.txt").unlink()
    (repository / "new.txt").write_text("new\n")
    (repository / "ignored").write_text("ignored\n")
    (repository / "tests" / "test_a.py").chmod(0o755)
    (repository / "link").symlink_to("a.txt")
    return stage


def test_a_dirty_checkout_is_left_byte_by_byte_and_the_run_starts_from_head(
    dirty: Any, kit: Any
) -> None:
    before = fingerprint(dirty.repository)
    both = f"touch {dirty.folder}/in-$N; until [ -e {dirty.folder}/in-1 -a -e {dirty.folder}/in-2 ]"
    work = f"{both}; do sleep 0.02; done; echo $N > a.txt"
    played = dirty.run(
        kit.sh("one", "echo 1 > one.txt; cat a.txt", gates=[kit.gate("clean", "test -f b.txt")]),
        kit.sh("left", work, env={"N": "1"}),
        kit.sh("right", work, env={"N": "2"}),
        kit.sh("bad", "exit 1", retries=0),
        concurrency=4,
    )
    assert sorted(played.statuses().values()) == ["conflict", "failed", "merged", "merged"]
    assert fingerprint(dirty.repository) == before
    assert played.output("one") == b"one\ntwo\nthree\n"
    assert "new.txt" not in dirty.files(played)
    assert any("not committed" in notice for notice in played.notices)
    assert played.of("run.checkout_changed") == []


def test_a_detached_head_is_run_from_and_lands_only_where_somebody_says(
    stage: Any, kit: Any
) -> None:
    stage.git("checkout", "--quiet", "--detach")
    before = fingerprint(stage.repository)
    played = stage.run(kit.sh("one", "echo 1 > one.txt"))
    assert played.status == ("succeeded", "finished")
    assert len([notice for notice in played.notices if "HEAD is detached" in notice]) == 1
    assert fingerprint(stage.repository) == before
    with stage.house() as house:
        with pytest.raises(UsageError, match="detached HEAD"):
            run_views.land(house, "last", None)
        branch, old, new = run_views.land(house, "last", "main")
        entries = run_views.entries(house, "last", 0, None, 1000)
    assert branch == "main"
    assert old != new == stage.git("rev-parse", "main")
    assert entries[-1].kind == "run.landed"


def test_what_succeeded_lands_on_the_branch_it_was_launched_from(stage: Any, kit: Any) -> None:
    stage.run(kit.sh("one", "echo 1 > one.txt"))
    with stage.house() as house:
        run_views.land(house, "last", None)
    assert (stage.repository / "one.txt").read_text() == "1\n"
    assert stage.git("status", "--porcelain") == ""


def named_like_ours(stage: Any) -> Path:
    stage.git("branch", "counterfoil")
    return Path(stage.repository)


def no_commit(stage: Any) -> Path:
    path = stage.folder / "unborn"
    stage.git("init", "--quiet", str(path))
    return Path(path)


def bare(stage: Any) -> Path:
    path = stage.folder / "bare.git"
    stage.git("clone", "--quiet", "--bare", str(stage.repository), str(path))
    return Path(path)


def unborn_branch(stage: Any) -> Path:
    stage.git("switch", "--quiet", "--orphan", "empty")
    return Path(stage.repository)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (no_commit, "no commit"),
        (unborn_branch, "no commit"),
        (bare, "bare repository"),
        (named_like_ours, "a branch named counterfoil"),
        (lambda stage: stage.folder, "not in a git repository"),
        (lambda stage: stage.folder / "nowhere", "is not a folder"),
        (lambda stage: stage.repository / ".git", "inside a .git folder"),
    ],
)
def test_what_no_plan_can_run_on_is_refused_by_name_before_anything_is_recorded(
    stage: Any, kit: Any, make: Callable[[Any], Path], said: str
) -> None:
    plan = stage.plan(kit.sh("one", "echo 1 > one.txt"))
    request = plan_runs.LaunchRequest(plan, make(stage))
    with pytest.raises(RepositoryRefused, match=said) as refused:
        stage.drive(lambda house, control: plan_runs.drive_new(house, request, control))
    assert refused.value.hint
    with stage.house() as house:
        assert run_views.list_runs(house, 10) == []


def test_a_faulty_plan_and_an_unknown_base_are_refused_before_anything_is_recorded(
    stage: Any, kit: Any
) -> None:
    with pytest.raises(PlanInvalid, match="depends on itself"):
        stage.run(kit.sh("one", "true", depends_on=["one"]))
    with pytest.raises(UsageError, match="names no commit"):
        stage.run(kit.sh("one", "true"), base="nowhere")
    with stage.house() as house:
        assert run_views.list_runs(house, 10) == []


def test_a_base_that_is_named_is_where_the_run_starts(stage: Any, kit: Any) -> None:
    first = stage.git("rev-parse", "HEAD")
    (stage.repository / "later.txt").write_text("later\n")
    stage.git("add", "--all")
    stage.git("commit", "--quiet", "--message=later")
    played = stage.run(kit.sh("one", "echo 1 > one.txt"), base="HEAD~1")
    assert stage.files(played) == ["a.txt", "b.txt", "one.txt", "tests/test_a.py"]
    assert played.tries("one")[0].base == first


def test_a_missing_git_identity_is_ours(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.git("config", "--unset", "user.name")
    stage.git("config", "--unset", "user.email")
    monkeypatch.setenv("EMAIL", "")
    commit = "echo 1 > one.txt; git add -A; git commit -q -m mine"
    played = stage.run(kit.sh("one", commit), kit.sh("two", "echo 2 > two.txt"))
    assert played.statuses() == {"one": "merged", "two": "merged"}
    who = stage.git("log", "--format=%an <%ae>", f"HEAD..{played.view.branch}").splitlines()
    assert set(who) == {"Counterfoil <counterfoil@localhost>"}


def test_the_developers_identity_signs_for_commits(stage: Any, kit: Any) -> None:
    stage.git("config", "commit.gpgsign", "true")
    stage.git("config", "gpg.program", "false")
    commit = "echo 1 > one.txt; git add -A; git commit -q -m mine"
    played = stage.run(kit.sh("one", commit))
    assert played.statuses() == {"one": "merged"}
    who = stage.git("log", "--format=%an", f"HEAD..{played.view.branch}").splitlines()
    assert set(who) == {"Dev"}


def test_hooks_of_the_repository_do_not_run_for_what_the_runner_does(stage: Any, kit: Any) -> None:
    hooks = stage.repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "pre-commit", "post-merge"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {stage.folder}/hooked\nexit 1\n")
        (hooks / name).chmod(0o755)
    played = stage.run(kit.sh("one", "echo 1 > one.txt", gates=[kit.gate("g", "test -f one.txt")]))
    assert played.statuses() == {"one": "merged"}
    assert stage.marks("hooked") == []


def test_paths_with_spaces_quotes_and_other_scripts_work(
    stage: Any, kit: Any, tmp_path: Path
) -> None:
    odd = tmp_path / "sp ace 'q\" é 日本 $x;"
    odd.mkdir()
    shutil.move(stage.repository, odd / "re po")
    stage.repository, stage.home = odd / "re po", odd / "ho me"
    work = "mkdir -p 'd é'; echo 1 > 'd é/o ne.txt'"
    played = stage.run(
        kit.sh("o né", work, gates=[kit.gate("g ä", "test -f 'd é/o ne.txt'")]),
        kit.sh("fails", "exit 1", retries=0),
    )
    assert played.statuses() == {"o né": "merged", "fails": "failed"}
    assert "d é/o ne.txt" in stage.files(played)


def test_a_linked_worktree_and_a_folder_inside_can_be_run_from(stage: Any, kit: Any) -> None:
    linked = stage.folder / "linked"
    stage.git("worktree", "add", "--quiet", "-b", "feature", str(linked))
    (linked / "tests" / "wip.py").write_text("wip\n")
    plan = stage.plan(kit.sh("one", "ls; echo 1 > one.txt"))
    request = plan_runs.LaunchRequest(plan, linked / "tests")
    played = stage.drive(lambda house, control: plan_runs.drive_new(house, request, control))
    assert played.status == ("succeeded", "finished")
    assert played.output("one") == b"a.txt\nb.txt\ntests\n"
    with stage.house() as house:
        assert run_views.land(house, "last", None)[0] == "feature"
    assert (linked / "one.txt").exists()
    assert not (stage.repository / "one.txt").exists()
    assert (linked / "tests" / "wip.py").read_text() == "wip\n"


def test_a_state_folder_inside_the_checkout_is_not_taken_for_the_developers(
    stage: Any, kit: Any
) -> None:
    stage.home = stage.repository / ".state"
    stray = f"echo > {stage.repository}/stray.txt"
    played = stage.run(kit.sh("one", "echo 1 > one.txt"), kit.sh("two", stray))
    assert played.statuses() == {"one": "merged", "two": "no_change"}
    assert [told["changed"] for told in played.payloads("run.checkout_changed")] == [
        ["file:stray.txt"]
    ]
    assert "one.txt" in stage.files(played)


def test_a_shallow_clone_can_be_run_from(stage: Any, kit: Any) -> None:
    for name in ("x", "y"):
        (stage.repository / name).write_text(name)
        stage.git("add", "--all")
        stage.git("commit", "--quiet", "-m", name)
    clone = stage.folder / "shallow"
    stage.git("clone", "--quiet", "--depth=1", f"file://{stage.repository}", str(clone))
    stage.repository = clone
    played = stage.run(kit.sh("one", "echo 1 > one.txt"), kit.sh("two", "echo 2 > two.txt"))
    assert played.statuses() == {"one": "merged", "two": "merged"}


def test_a_developer_may_work_on_while_a_run_goes_on(stage: Any, kit: Any) -> None:
    async def act(live: Any) -> None:
        await live.seen("dispatch.start", "one")
        (stage.repository / "mine.txt").write_text("mine\n")
        stage.git("add", "--all")
        stage.git("commit", "--quiet", "-m", "mine")
        stage.git("switch", "--quiet", "-c", "other")
        (stage.folder / "go").touch()

    wait = f"until [ -e {stage.folder}/go ]; do sleep 0.02; done; echo 1 > one.txt"
    played = stage.run(
        kit.sh("one", wait), kit.sh("two", "echo 2 > two.txt", depends_on=["one"]), act=act
    )
    assert played.statuses() == {"one": "merged", "two": "merged"}
    assert "mine.txt" not in stage.files(played)
    assert stage.git("branch", "--show-current") == "other"
    assert (stage.repository / "mine.txt").read_text() == "mine\n"
    [told] = played.payloads("run.checkout_changed")
    assert {"HEAD", "branches"} <= set(told["changed"])


def test_a_redacted_plan_is_resumed_from_its_file_and_only_from_that(stage: Any, kit: Any) -> None:
    async def act(live: Any) -> None:
        live.control.stop(plan_runs.Stop.SHUTDOWN)

    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    task = kit.sh("one", f'test "$TOKEN" = {secret} && echo 1 > one.txt', env={"TOKEN": secret})
    assert stage.run(task, act=act).status == ("paused", "shutdown")
    text = (stage.folder / "plan.jsonl").read_text()
    (stage.folder / "plan.jsonl").write_text(text + "\n")
    with pytest.raises(Conflict, match="is not the plan that was launched"):
        stage.resume()
    (stage.folder / "plan.jsonl").write_text(text)
    resumed = stage.resume()
    assert resumed.statuses() == {"one": "merged"}


def two_waves(kit: Any, stage: Any) -> list[dict[str, Any]]:
    """Two tasks side by side and one behind both, each with a gate."""
    gates = [kit.gate("there", "ls *.txt > /dev/null")]
    tell = f"echo $COUNTERFOIL_ATTEMPT >> {stage.folder}/log"
    return [
        {"plan": {"gates": gates, "retries": 0}},
        kit.sh("one", f"{tell}; echo 1 > one.txt"),
        kit.sh("two", f"{tell}; echo 2 > two.txt"),
        kit.sh("three", f"{tell}; cat one.txt two.txt > three.txt", depends_on=["one", "two"]),
    ]


def test_a_full_ledger_stops_dispatch_says_so_once_and_goes_on_when_space_is_freed(
    stage: Any, kit: Any
) -> None:
    store = FaultyStore(SqliteStore(stage.settings().ledger_file))

    async def act(live: Any) -> None:
        await live.until(lambda: stage.marks())
        store.fill_disk()
        (stage.folder / "go").touch()
        await live.until(lambda: notices(live))
        held = len(stage.marks())
        for _ in range(3):
            assert len(stage.marks()) == held
            await live.pause(0.2)
        store.free_disk()

    def notices(live: Any) -> list[str]:
        return [one for one in live.notices if "stalled" in one]

    wait = f"echo in >> {stage.folder}/log; until [ -e {stage.folder}/go ]; do sleep 0.02; done"
    with stage.house(store) as house:
        played = stage.run(
            kit.sh("one", f"{wait}; echo 1 > one.txt"),
            kit.sh("two", f"{wait}; echo 2 > two.txt"),
            *(kit.sh(f"t{n}", f"{wait}; echo > t{n}.txt", depends_on=["one"]) for n in range(3)),
            act=act,
            house=house,
        )
    assert played.status == ("succeeded", "finished")
    assert len([one for one in played.notices if "stalled" in one]) == 1
    assert len([one for one in played.notices if "going on" in one]) == 1
    [stalled] = played.payloads("run.stalled")
    assert stalled["cause"] == "disk"
    assert len(played.payloads("run.unstalled")) == 1
    assert len(stage.marks()) == 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 12 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode != 0:
        pytest.skip("only who may mount can make a small disk")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Leave no byte on a disk."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as out:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):  # full
                while out.write(b"x" * size):
                    pass
    return ballast


NEEDS_ROOM_IN_THE_REPOSITORY = ("leased", "started", "exited", "harvested", "intent")
"""After ``gated`` the gate's checkout goes, and leaves the room that a ref takes."""

BOUNDARIES = ("leased", "started", "exited", "harvested", "gated", "intent", "ref_moved")


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize("where", ["home", "repository"])
@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_disk_that_is_full_in_the_middle_loses_nothing(
    stage: Any, kit: Any, small_disk: Path, boundary: str, where: str
) -> None:
    if where == "home":
        stage.home = small_disk / "home"
    else:
        shutil.move(stage.repository, small_disk / "repository")
        stage.repository = small_disk / "repository"
    is_needed = where == "home" or boundary in NEEDS_ROOM_IN_THE_REPOSITORY
    filled: list[Path] = []

    def at(name: str) -> None:
        if name == boundary and not filled:
            filled.append(fill(small_disk))

    async def act(live: Any) -> None:
        await live.until(lambda: filled)
        if is_needed:
            await live.until(lambda: [one for one in live.notices if "stalled" in one])
        await live.pause(0.3)
        filled[0].unlink()

    played = stage.run(*two_waves(kit, stage), boundary=at, act=act)
    if played.status == ("paused", "disk"):
        assert any(
            done["errorClass"] == "disk"
            for done in played.payloads("dispatch.done")
            if "errorClass" in done
        )
        first, played = played, stage.resume()
        played.notices[:0] = first.notices
    told = [*played.notices, *(task.reason for task in played.view.tasks)]
    assert played.status == ("succeeded", "finished"), told
    assert {"one.txt", "two.txt", "three.txt"} <= set(stage.files(played))
    assert len(played.payloads("run.stalled")) == len(played.payloads("run.unstalled"))
    stalls = [notice for notice in played.notices if "stalled" in notice]
    assert len(stalls) == len([notice for notice in played.notices if "going on" in notice])
    if is_needed:
        assert stalls
        assert played.payloads("run.stalled")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_disk_that_is_full_while_an_agent_works_is_told_and_starts_nothing(
    stage: Any, kit: Any, small_disk: Path
) -> None:
    stage.home = small_disk / "home"

    def notices(live: Any, word: str) -> list[str]:
        return [one for one in live.notices if word in one]

    async def act(live: Any) -> None:
        await live.until(lambda: sorted(stage.marks()) == ["one", "two"])
        ballast = fill(small_disk)
        await live.until(lambda: notices(live, "stalled"))
        (stage.folder / "go-two").touch()
        await live.pause(0.5)
        assert sorted(stage.marks()) == ["one", "two"]
        ballast.unlink()
        await live.until(lambda: notices(live, "going on"))
        await live.until(lambda: "three" in stage.marks())
        (stage.folder / "go-one").touch()

    def work(name: str) -> str:
        go = f"{stage.folder}/go-{name}"
        return f"echo {name} >> {stage.folder}/log; until [ -e {go} ]; do sleep 0.02; done"

    played = stage.run(
        kit.sh("one", f"{work('one')}; : > one.txt"),
        kit.sh("two", f"{work('two')}; : > two.txt", retries=2),
        kit.sh("three", f"echo three >> {stage.folder}/log; echo 3 > three.txt"),
        act=act,
    )
    assert sorted(stage.marks()[:2]) == ["one", "two"]
    assert played.statuses()["three"] == "merged"
    assert len(notices(played, "stalled")) == len(played.payloads("run.stalled")) == 1
    assert len(notices(played, "going on")) == len(played.payloads("run.unstalled")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_run_that_is_stopped_while_the_disk_is_full_leaves_and_can_be_recovered(
    stage: Any, kit: Any, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("counterfoil.plans.patience.LAST_WAIT_SECONDS", 0.5)
    stage.home = small_disk / "home"
    filled: list[Path] = []

    def at(name: str) -> None:
        if name == "leased" and not filled:
            filled.append(fill(small_disk))

    async def act(live: Any) -> None:
        await live.until(lambda: [one for one in live.notices if "stalled" in one])
        live.control.stop(plan_runs.Stop.SHUTDOWN)

    plan = two_waves(kit, stage)
    with pytest.raises(Exception, match=r"full|disk|space"):
        stage.run(*plan, boundary=at, act=act)
    filled[0].unlink()
    recovered = stage.recover()
    assert recovered.status == ("succeeded", "finished")


def test_two_runs_in_two_processes_on_one_ledger_both_make_progress(
    stage: Any, kit: Any, driver: Any, tmp_path: Path
) -> None:
    other = type(stage)(tmp_path / "other", tmp_path / "other" / "repository", stage.home)
    shutil.copytree(stage.repository, other.repository)

    def lines(mine: str, theirs: str) -> list[dict[str, Any]]:
        meet = "touch {0}/{1}-{2}; until [ -e {0}/{3}-{2} ]; do sleep 0.02; done; echo > {2}.txt"
        return [
            kit.sh(
                f"t{number}",
                meet.format(stage.folder, mine, number, theirs),
                depends_on=[f"t{number - 1}"] if number else [],
            )
            for number in range(3)
        ]

    children = [driver(*lines("a", "b")), driver(*lines("b", "a"), on=other)]
    told = [json.loads(child.communicate(timeout=kit.patience)[0]) for child in children]
    assert told == [["succeeded", "finished"]] * 2
    with stage.house() as house:
        runs = run_views.list_runs(house, 10)
        faults = [fault for one in verify_ledger(house, None, {}) for fault in one.faults]
    assert len(runs) == 2
    assert faults == []
