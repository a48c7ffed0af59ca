"""A plan on a real repository, from its first task to the merged run branch."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.app import plan_runs
from counterfoil.ports.executor import LaunchSpec

BARE = Path(__file__).parent.parent / "fixtures" / "plans" / "bare.jsonl"


def meet(stage: Any, name: str, others: int) -> str:
    """Shell: wait until so many tasks have come to this place."""
    place = f"{stage.folder}/meet-{name}"
    return (
        f'mkdir -p "{place}"; : > "{place}/$COUNTERFOIL_ATTEMPT"; '
        f'until [ "$(ls "{place}" | wc -l)" -ge {others} ]; do sleep 0.02; done'
    )


def mark(stage: Any, words: str, name: str = "log") -> str:
    """Shell: tell a file beside the repository, in one atomic line."""
    return f'echo "{words}" >> "{stage.folder}/{name}"'


def test_each_task_is_one_commit_of_the_run_branch_and_its_work_is_pinned(
    stage: Any, kit: Any
) -> None:
    head = stage.git("rev-parse", "HEAD")
    played = stage.run(
        kit.sh("one", "echo 1 > one.txt", title="The first"),
        kit.sh("two", "cat one.txt > two.txt", title="The second", depends_on=["one"]),
    )
    assert played.status == ("succeeded", "finished")
    assert played.statuses() == {"one": "merged", "two": "merged"}
    assert stage.files(played) == ["a.txt", "b.txt", "one.txt", "tests/test_a.py", "two.txt"]
    line = stage.git("log", "--first-parent", "--reverse", "--format=%s", played.view.branch)
    assert line.splitlines() == ["first", "The first", "The second"]
    for task_id in ("one", "two"):
        [attempt] = played.tries(task_id)
        assert stage.git("rev-parse", stage.pin(attempt)) == attempt.candidate
        assert stage.git("rev-parse", f"{played.task(task_id).merged_commit}^2") == (
            attempt.candidate
        )
    assert played.view.worktrees == {}
    assert len(stage.git("worktree", "list").splitlines()) == 1
    assert stage.git("rev-parse", "HEAD") == head


def test_the_plan_without_any_optional_field_runs(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = stage.folder / "claude"
    program.write_text(
        "#!/bin/sh\nname=$(head -c 30 | tr -c A-Za-z -)\necho text > $name.md\n"
        f'exec "{sys.executable}" -I -m counterfoil.testing.scripted_agent claude-ok\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("COUNTERFOIL_CLAUDE", str(program))
    request = plan_runs.LaunchRequest(BARE, stage.repository, agent="claude")
    played = stage.drive(lambda house, control: plan_runs.drive_new(house, request, control))
    assert played.status == ("succeeded", "finished")
    assert played.statuses() == {"schema": "merged", "listing": "merged", "readme": "merged"}
    assert {"LISTING", "Write-the-schema-of-the-notes-.md"} <= set(stage.files(played))


def test_a_failed_gate_gets_one_retry_in_the_same_worktree_with_its_output(
    stage: Any, kit: Any
) -> None:
    work = (
        f"{mark(stage, '$PWD')}; ls -A built && {mark(stage, 'built is kept')}; "
        "mkdir -p built; echo '*' > built/.gitignore; touch built/cache; echo 1 > one.txt; "
        'if [ -n "$COUNTERFOIL_GATE_OUTPUT" ]; then cp "$COUNTERFOIL_GATE_OUTPUT" said.txt; fi'
    )
    said = "test -f said.txt || { echo 'said.txt is wanted'; echo 'and an error' >&2; exit 3; }"
    played = stage.run(kit.sh("one", work, gates=[kit.gate("said", said)]))
    assert played.status == ("succeeded", "finished")
    first, second = played.tries("one")
    assert (first.ordinal, second.ordinal) == (1, 2)
    assert first.id != second.id
    place = str(played.view.repository.parent / "home" / "runs" / first.run_id)
    assert stage.marks() == [f"{place}/worktrees/one", f"{place}/worktrees/one", "built is kept"]
    assert stage.read(played, "said.txt").splitlines() == ["said.txt is wanted", "and an error"]
    assert stage.read(played, "one.txt") == "1"
    assert [row.result for row in played.gates("one")] == ["fail", "pass"]
    assert [row.exit_code for row in played.gates("one")] == [3, 0]


def test_a_gate_that_keeps_failing_fails_the_task_and_its_work_is_kept(
    stage: Any, kit: Any
) -> None:
    played = stage.run(
        kit.sh("bad", 'date +%N > "$COUNTERFOIL_ATTEMPT.txt"', gates=[kit.gate("never", "exit 1")]),
        kit.sh("after", "echo 1 > after.txt", depends_on=["bad"]),
        kit.sh("later", "echo 1 > later.txt", depends_on=["after"]),
        kit.sh("good", "echo 1 > good.txt"),
    )
    assert played.status == ("failed", "finished")
    assert played.statuses() == {
        "bad": "failed",
        "after": "blocked",
        "later": "blocked",
        "good": "merged",
    }
    assert played.task("bad").reason == "tried 2 times: gate never failed (other)"
    assert played.task("after").reason == "is blocked by bad (failed)"
    assert played.task("later").reason == "is blocked by after (blocked)"
    assert stage.files(played) == ["a.txt", "b.txt", "good.txt", "tests/test_a.py"]
    first, second = played.tries("bad")
    kept = stage.git("ls-tree", "--name-only", stage.pin(second)).split()
    assert {f"{first.id}.txt", f"{second.id}.txt"} <= set(kept)
    assert list(played.view.worktrees) == ["bad"]
    assert (played.view.worktrees["bad"] / f"{second.id}.txt").is_file()
    assert played.task("bad").candidate == second.candidate


def test_a_command_that_changes_nothing_is_through_and_its_dependents_go_on(
    stage: Any, kit: Any
) -> None:
    played = stage.run(
        kit.sh("check", "test -f a.txt"),
        kit.sh("next", "echo 1 > next.txt", depends_on=["check"]),
    )
    assert played.status == ("succeeded", "finished")
    assert played.statuses() == {"check": "no_change", "next": "merged"}
    assert played.task("check").accepted
    assert played.view.worktrees == {}


@pytest.mark.parametrize(
    ("said", "status", "accepted", "ends"),
    [
        ("ask", "no_change", False, "failed"),
        ("accept", "no_change", True, "succeeded"),
        ("fail", "failed", False, "failed"),
    ],
)
def test_a_prompt_that_changes_nothing_is_judged_as_the_plan_says(
    stage: Any, kit: Any, said: str, status: str, accepted: bool, ends: str
) -> None:
    header = {"plan": {"agent": {"name": "command", "argv": ["cat"]}, "on_no_change": said}}
    played = stage.run(
        header,
        {"id": "idle", "prompt": "Do nothing."},
        kit.sh("next", "echo 1 > next.txt", depends_on=["idle"]),
    )
    assert played.status == (ends, "finished")
    assert played.statuses() == {"idle": status, "next": "merged" if accepted else "blocked"}
    assert bool(played.task("idle").accepted) is accepted
    assert played.output("idle") == b"Do nothing."


def test_a_conflict_stops_its_task_with_the_paths_and_keeps_its_work(stage: Any, kit: Any) -> None:
    both = meet(stage, "both", 2)
    played = stage.run(
        kit.sh("left", f"{both}; echo left > a.txt; echo l > left.txt"),
        kit.sh("right", f"{both}; echo right > a.txt; echo r > right.txt"),
    )
    assert played.status == ("failed", "finished")
    assert sorted(played.statuses().values()) == ["conflict", "merged"]
    lost = next(one for one, status in played.statuses().items() if status == "conflict")
    won = "left" if lost == "right" else "right"
    assert stage.read(played, "a.txt") == won
    assert f"{lost}.txt" not in stage.files(played)
    [told] = played.payloads("merge.conflict", lost)
    assert told["paths"] == ["a.txt"]
    assert "a.txt" in played.task(lost).reason
    [attempt] = played.tries(lost)
    assert stage.git("show", f"{stage.pin(attempt)}:a.txt") == lost
    assert played.task(lost).candidate == attempt.candidate
    assert (played.view.worktrees[lost] / "a.txt").read_text() == f"{lost}\n"


def in_flight(marks: list[str]) -> list[frozenset[str]]:
    """Which tasks were at work, after each line that says ``in TASK`` or ``out TASK``."""
    at_work: set[str] = set()
    seen = []
    for line in marks:
        word, task = line.split()
        (at_work.add if word == "in" else at_work.remove)(task)
        seen.append(frozenset(at_work))
    return seen


def test_tasks_whose_claims_overlap_never_run_side_by_side(stage: Any, kit: Any) -> None:
    def task(task_id: str, files: list[str], between: str = "sleep 0.2") -> dict[str, Any]:
        work = f"{mark(stage, f'in {task_id}')}; {between}; echo 1 > {task_id}.txt; " + mark(
            stage, f"out {task_id}"
        )
        return kit.sh(task_id, work, files=files)

    apart = meet(stage, "apart", 2)
    played = stage.run(
        task("all", ["src/**", "all.txt"], apart),
        task("one", ["src/one.py"]),
        task("two", ["src/*.py"]),
        task("docs", ["docs/**"], apart),
        concurrency=4,
    )
    assert played.status == ("succeeded", "finished")
    seen = in_flight(stage.marks())
    assert all(len(at_work & {"all", "one", "two"}) <= 1 for at_work in seen)
    assert frozenset({"all", "docs"}) in seen
    assert [told["outsideClaims"] for told in played.payloads("task.diff", "docs")] == [
        ["docs.txt"]
    ]


def test_no_more_tasks_are_at_work_than_the_concurrency_says(stage: Any, kit: Any) -> None:
    names = [f"t{number}" for number in range(6)]
    work = "{}; sleep 0.1; {}"
    played = stage.run(
        *(
            kit.sh(name, work.format(mark(stage, f"in {name}"), mark(stage, f"out {name}")))
            for name in names
        ),
        concurrency=2,
    )
    assert played.status == ("succeeded", "finished")
    assert max(len(at_work) for at_work in in_flight(stage.marks())) == 2


def test_what_is_more_urgent_starts_first(stage: Any, kit: Any) -> None:
    played = stage.run(
        kit.sh("low", mark(stage, "low"), priority=-1),
        kit.sh("plain", mark(stage, "plain")),
        kit.sh("high", mark(stage, "high"), priority=5),
        concurrency=1,
    )
    assert played.status == ("succeeded", "finished")
    assert stage.marks() == ["high", "plain", "low"]


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_task_is_tried_as_often_as_its_retries_say(stage: Any, kit: Any, retries: int) -> None:
    words = 'n=$(wc -l < "$LOG"); set -- alpha beta gamma delta; shift $n; echo "$1" >&2; exit 4'
    played = stage.run(
        kit.sh(
            "one",
            f'{mark(stage, "ran")}; echo 1 > "$COUNTERFOIL_ATTEMPT.txt"; {words}',
            env={"LOG": f"{stage.folder}/log"},
            retries=retries,
        )
    )
    assert played.status == ("failed", "finished")
    assert len(stage.marks()) == len(played.tries("one")) == retries + 1
    assert {one.error_class for one in played.tries("one")} == {"exit"}


def test_what_fails_the_same_way_twice_is_not_tried_a_third_time(stage: Any, kit: Any) -> None:
    played = stage.run(
        kit.sh(
            "one",
            'echo 1 > "$COUNTERFOIL_ATTEMPT.txt"',
            retries=5,
            gates=[kit.gate("never", "echo took $$ s; exit 1")],
        )
    )
    assert played.statuses() == {"one": "failed"}
    assert len(played.tries("one")) == 2
    assert played.task("one").reason.startswith("failed the same way twice")


def test_work_that_a_failed_attempt_left_is_not_lost_when_the_retry_adds_nothing(
    stage: Any, kit: Any
) -> None:
    work = f"echo 1 > one.txt; {mark(stage, 'ran')}; test $(wc -l < {stage.folder}/log) -ge 2"
    played = stage.run(
        kit.sh("one", work, gates=[kit.gate("there", "test -f one.txt")]),
        kit.sh("two", "cp one.txt two.txt", depends_on=["one"]),
    )
    assert played.status == ("succeeded", "finished")
    assert played.statuses() == {"one": "merged", "two": "merged"}
    assert [one.outcome for one in played.tries("one")] == ["failed", "no_change"]
    assert {"one.txt", "two.txt"} <= set(stage.files(played))


def test_work_survives_an_attempt_in_between_that_added_nothing_and_failed(
    stage: Any, kit: Any
) -> None:
    work = (
        f"{mark(stage, 'ran')}; n=$(wc -l < {stage.folder}/log); "
        "[ $n = 1 ] && { echo 1 > one.txt; exit 1; }; [ $n = 2 ] && exit 2; echo 1 > three.txt"
    )
    played = stage.run(kit.sh("one", work, retries=2))
    assert played.statuses() == {"one": "merged"}
    assert {"one.txt", "three.txt"} <= set(stage.files(played))


def test_a_tree_that_has_passed_is_not_gated_again(stage: Any, kit: Any) -> None:
    both = meet(stage, "both", 3)
    gates = [kit.gate("there", f"{mark(stage, 'gated')}; test -f same.txt")]
    other = [kit.gate("there", f"{mark(stage, 'gated')}; test -f same.txt", env={"OTHER": "1"})]
    played = stage.run(
        kit.sh("one", f"{both}; echo 1 > same.txt", gates=gates, priority=1),
        kit.sh("two", f"{both}; echo 1 > same.txt", gates=gates),
        kit.sh("three", f"{both}; echo 1 > same.txt", gates=other),
        concurrency=3,
    )
    assert played.statuses() == {"one": "merged", "two": "merged", "three": "merged"}
    trees = {row.tree for row in played.view.gates}
    assert len(trees) == 1
    told = [told for told in played.payloads("gate0.pass") if not told.get("reused")]
    assert len(told) == len(played.view.gates) == len(stage.marks())
    assert {row.environment for row in played.gates("three")}.isdisjoint(
        row.environment for row in (*played.gates("one"), *played.gates("two"))
    )


def test_a_merged_tree_that_is_new_is_gated(stage: Any, kit: Any) -> None:
    async def act(live: Any) -> None:
        await live.until(lambda: "gating" in stage.marks())
        await live.seen("merge.done", count=2)
        (stage.folder / "go").touch()

    slow = (
        f"{mark(stage, 'gating')}; until [ -e {stage.folder}/go ]; do sleep 0.02; done; "
        f"ls *.txt | tr '\\n' ' ' >> {stage.folder}/seen; echo >> {stage.folder}/seen"
    )
    begun = f"until [ -e {stage.folder}/log ]; do sleep 0.02; done"
    played = stage.run(
        kit.sh("third", "echo 3 > third.txt", gates=[kit.gate("slow", slow)]),
        kit.sh("one", f"{begun}; echo 1 > one.txt"),
        kit.sh("two", f"{begun}; echo 2 > two.txt"),
        concurrency=3,
        act=act,
    )
    assert played.status == ("succeeded", "finished")
    before, after = played.gates("third")
    assert (before.result, after.result) == ("pass", "pass")
    assert before.tree != after.tree
    assert stage.marks("seen") == [
        "a.txt b.txt third.txt ",
        "a.txt b.txt one.txt third.txt two.txt ",
    ]
    [done] = played.of("merge.done", "third")
    assert stage.git("rev-parse", f"{done.payload['new']}^{{tree}}") == after.tree
    assert {"one.txt", "two.txt", "third.txt"} <= set(stage.files(played))


def test_a_candidate_that_fails_only_on_the_merged_tree_is_tried_again_on_it(
    stage: Any, kit: Any
) -> None:
    async def act(live: Any) -> None:
        await live.seen("merge.done", "one")
        (stage.folder / "go").touch()

    quiet = (
        f"{mark(stage, 'gating')}; until [ -e {stage.folder}/go ]; do sleep 0.02; done; "
        "! test -f one.txt || test -f both.txt"
    )
    begun = f"until [ -e {stage.folder}/log ]; do sleep 0.02; done"
    played = stage.run(
        kit.sh(
            "two",
            "echo 2 > two.txt; if test -f one.txt; then echo > both.txt; fi",
            gates=[kit.gate("both", quiet)],
        ),
        kit.sh("one", f"{begun}; echo 1 > one.txt"),
        act=act,
    )
    assert played.status == ("succeeded", "finished")
    assert [row.result for row in played.gates("two")] == ["pass", "fail", "pass"]
    assert [one.outcome for one in played.tries("two")] == ["succeeded", "succeeded"]


def test_a_gate_that_takes_too_long_fails_as_a_timeout_and_is_ended(stage: Any, kit: Any) -> None:
    slow = kit.gate("slow", "trap '' TERM; (setsid sleep 300 &); sleep 300", timeout=0.5)
    played = stage.run(kit.sh("one", "echo 1 > one.txt", gates=[slow], retries=0))
    assert played.statuses() == {"one": "failed"}
    [row] = played.gates("one")
    assert (row.result, row.fail_class) == ("fail", "timeout")
    [told] = played.payloads("gate0.fail")
    assert told["failClass"] == "timeout"


def test_a_gate_whose_folder_is_a_link_out_of_the_checkout_fails_and_is_not_started(
    stage: Any, kit: Any
) -> None:
    away = stage.folder / "away"
    away.mkdir()
    gate = kit.gate("away", "touch came", cwd="sub")
    with subprocess.Popen(["sleep", "60"], cwd=away) as stranger:
        try:
            played = stage.run(kit.sh("one", f"ln -s {away} sub", gates=[gate], retries=0))
            assert stranger.poll() is None
        finally:
            stranger.kill()
    assert played.statuses() == {"one": "failed"}
    [row] = played.gates("one")
    assert (row.result, row.fail_class) == ("fail", "other")
    [told] = played.payloads("gate0.fail")
    assert "'sub' leads out of the checkout" in told["message"]
    assert list(away.iterdir()) == []


def test_a_gate_may_run_in_a_folder_that_is_a_link_inside_the_checkout(
    stage: Any, kit: Any
) -> None:
    gate = kit.gate("inside", "test -e in.txt", cwd="sub")
    script = "mkdir real; echo 1 > real/in.txt; ln -s real sub"
    played = stage.run(kit.sh("one", script, gates=[gate]))
    assert played.statuses() == {"one": "merged"}


def test_what_is_made_below_a_state_folder_that_was_there_is_for_its_owner_alone(
    stage: Any, kit: Any
) -> None:
    stage.home.mkdir(mode=0o755)
    seen = stage.folder / "modes"
    look = f"stat -c '%a %n' $(find {stage.home}/runs -maxdepth 3 -type d) >> {seen}"
    script = f"{look}; stat -c '%a %n' {stage.home}/runs/*/attempts/*/feedback.txt >> {seen}"
    played = stage.run(
        kit.sh(
            "one",
            f"{script} || :; test -e {seen}.2 || {{ : > {seen}.2; exit 1; }}; : > new",
            retries=1,
            gates=[kit.gate("look", look)],
        )
    )
    assert played.statuses() == {"one": "merged"}
    lines = [line.split() for line in seen.read_text().splitlines()]
    modes = {Path(name).name: mode for mode, name in lines if Path(name).parent.name != "worktrees"}
    modes = {name: mode for name, mode in modes.items() if "-" not in name}
    assert modes.keys() >= {"runs", "attempts", "worktrees", "checkouts", "feedback.txt"}
    assert modes.pop("feedback.txt") == "600"
    assert set(modes.values()) == {"700"}


def test_what_a_gate_leaves_running_is_ended_before_the_next_gate(stage: Any, kit: Any) -> None:
    leave = kit.gate("leave", f"(setsid sleep 300 & echo $! > {stage.folder}/pid) & wait")
    look = kit.gate("look", f"! kill -0 $(cat {stage.folder}/pid)")
    played = stage.run(kit.sh("one", "echo 1 > one.txt", gates=[leave, look]))
    assert played.statuses() == {"one": "merged"}
    assert [row.result for row in played.gates("one")] == ["pass", "pass"]


def test_a_gate_that_writes_without_end_fails_instead_of_running_for_ever(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def limited(**given: Any) -> LaunchSpec:
        return LaunchSpec(**given, output_limit_bytes=1_000_000)

    monkeypatch.setattr("counterfoil.plans.gate_runs.LaunchSpec", limited)
    chatty = kit.gate("chatty", "while :; do echo and so on and so on; done")
    played = stage.run(kit.sh("one", "echo 1 > one.txt", gates=[chatty], retries=0))
    assert played.statuses() == {"one": "failed"}
    [row] = played.gates("one")
    assert row.result == "fail"
    assert "wrote more than" in played.payloads("gate0.fail")[0]["message"]


def test_a_gate_whose_keeper_is_killed_runs_again(stage: Any, kit: Any) -> None:
    fall = f"{mark(stage, 'gated')}; test $(wc -l < {stage.folder}/log) -ge 2 || kill -9 $PPID"
    played = stage.run(kit.sh("one", "echo 1 > one.txt", gates=[kit.gate("fall", fall)], retries=0))
    assert played.statuses() == {"one": "merged"}
    assert stage.marks() == ["gated", "gated"]


def test_gates_are_the_plans_unless_a_task_has_its_own(stage: Any, kit: Any) -> None:
    played = stage.run(
        {"plan": {"gates": [kit.gate("plan", mark(stage, "plan"))]}},
        kit.sh("inherits", "echo 1 > one.txt"),
        kit.sh(
            "own",
            "mkdir sub; echo 2 > sub/two.txt",
            depends_on=["inherits"],
            gates=[
                kit.gate("first", mark(stage, "first $(ls)"), cwd="sub"),
                kit.gate("second", mark(stage, "second $WORD"), env={"WORD": "said"}),
            ],
        ),
        kit.sh("none", "echo 3 > three.txt", depends_on=["own"], gates=[]),
    )
    assert played.status == ("succeeded", "finished")
    assert stage.marks() == ["plan", "first two.txt", "second said"]
    assert [row.gate for row in played.view.gates] == ["plan", "first", "second"]


def test_gates_judge_a_fresh_checkout_and_cannot_change_the_candidate(stage: Any, kit: Any) -> None:
    spoil = kit.gate("spoil", "test ! -e junk; echo spoiled > one.txt; touch junk; rm a.txt")
    after = kit.gate("after", "grep -q 1 a.txt one.txt || true")
    played = stage.run(
        kit.sh("one", "echo junk > .gitignore; touch junk; echo 1 > one.txt", gates=[spoil, after])
    )
    assert played.statuses() == {"one": "merged"}
    assert stage.read(played, "one.txt") == "1"
    assert "a.txt" in stage.files(played)


def test_a_run_branch_that_somebody_has_checked_out_pauses_the_run(stage: Any, kit: Any) -> None:
    place = stage.folder / "elsewhere"

    async def act(live: Any) -> None:
        await live.seen("dispatch.start")
        stage.git("worktree", "add", "--quiet", str(place), f"counterfoil/{live.run_id}")
        (stage.folder / "go").touch()

    gates = [kit.gate("there", f"{mark(stage, 'gated')}; test -f one.txt")]
    wait = f"until [ -e {stage.folder}/go ]; do sleep 0.02; done; {mark(stage, 'worked')}"
    plan = kit.sh("one", f"{wait}; echo 1 > one.txt", gates=gates)
    paused = stage.run(plan, act=act)
    assert paused.status == ("paused", "branch_checked_out")
    assert str(place) in paused.view.run.error_message
    assert paused.statuses() == {"one": "ready"}
    assert (place / "a.txt").is_file()
    assert not (place / "one.txt").exists()

    stage.git("worktree", "remove", str(place))
    resumed = stage.resume()
    assert resumed.status == ("succeeded", "finished")
    assert resumed.statuses() == {"one": "merged"}
    assert stage.marks() == ["worked", "gated"]
    assert len(resumed.tries("one")) == 1


def test_a_run_branch_that_somebody_moves_gets_the_candidate_merged_anew(
    stage: Any, kit: Any
) -> None:
    moved: list[str] = []

    def move(name: str) -> None:
        if name != "intent" or moved:
            return
        [branch] = stage.refs("refs/heads/counterfoil")
        blob = stage.git("hash-object", "-w", "b.txt")
        tree = f"100644 blob {blob}\ttheirs.txt\n{stage.git('ls-tree', branch)}\n"
        made = stage.git("mktree", stdin=tree)
        moved.append(stage.git("commit-tree", "-p", branch, "-m", "theirs", made))
        stage.git("update-ref", branch, moved[0])

    gates = [kit.gate("there", f"{mark(stage, '$(ls *.txt | wc -l)')}; test -f one.txt")]
    played = stage.run(kit.sh("one", "echo 1 > one.txt", gates=gates), boundary=move)
    assert played.status == ("succeeded", "finished")
    first, second = played.tries("one", "merge")
    assert (first.outcome, first.end_cause) == ("failed", "ref_moved")
    assert (second.outcome, second.base) == ("succeeded", moved[0])
    assert {"one.txt", "theirs.txt"} <= set(stage.files(played))
    assert stage.marks() == ["3", "4"]
    assert len(played.tries("one")) == 1


def test_a_run_branch_that_is_gone_pauses_the_run_and_says_how_to_restore_it(
    stage: Any, kit: Any
) -> None:
    async def act(live: Any) -> None:
        await live.seen("dispatch.start")
        stage.git("update-ref", "-d", f"refs/heads/counterfoil/{live.run_id}")
        (stage.folder / "go").touch()

    wait = f"until [ -e {stage.folder}/go ]; do sleep 0.02; done"
    paused = stage.run(kit.sh("one", f"{wait}; echo 1 > one.txt"), act=act)
    assert paused.view.run.status == "paused"
    assert "the run branch" in paused.view.run.error_message
    assert "KeyError" not in paused.view.run.error_message
    stage.git("update-ref", f"refs/heads/{paused.view.branch}", "HEAD")
    resumed = stage.resume()
    assert resumed.statuses() == {"one": "merged"}


@pytest.fixture
def fake_claude(stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A program in claude's place that does these steps, until it is told others."""

    def play(*steps: str) -> None:
        program = stage.folder / "claude"
        words = " ".join(f"'{word}'" for word in (*kit.agent_argv, *steps))
        program.write_text(f"#!/bin/sh\nexec {words}\n")
        program.chmod(0o755)
        monkeypatch.setenv("COUNTERFOIL_CLAUDE", str(program))

    return play


@pytest.mark.parametrize("trouble", ["rate-limit", "billing", "auth"])
def test_trouble_of_the_surroundings_pauses_the_run_and_costs_no_retry(
    stage: Any, kit: Any, fake_claude: Callable[..., None], trouble: str
) -> None:
    fake_claude("write:half.txt=half", f"claude-{trouble}")
    wait = f"touch {stage.folder}/at-work; sleep 0.2; echo 1 > other.txt"
    paused = stage.run(
        {"id": "asks", "prompt": "Write it.", "agent": "claude", "retries": 0},
        kit.sh("other", wait),
        kit.sh("after", "echo 1 > after.txt", depends_on=["other"]),
    )
    cause = trouble.replace("-", "_")
    assert paused.status == ("paused", cause)
    assert paused.statuses()["asks"] == "ready"
    done = paused.done("asks")
    assert (done["outcome"], done["errorClass"], done["endCause"]) == (
        "failed",
        cause,
        f"failed:{cause}",
    )
    told = paused.payloads("run.status")[-1]
    assert (told.get("resetsAt") is not None) == (trouble == "rate-limit")
    assert any("parked" in notice for notice in paused.notices)
    assert stage.pin(paused.tries("asks")[0]) in stage.refs("refs/counterfoil")

    fake_claude("write:whole.txt=whole", "claude-ok")
    resumed = stage.resume()
    assert resumed.status == ("succeeded", "finished")
    assert resumed.statuses() == {"asks": "merged", "other": "merged", "after": "merged"}
    assert "whole.txt" in stage.files(resumed)
    assert "half.txt" not in stage.files(resumed)


def test_an_agent_that_is_not_installed_pauses_the_run(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_CLAUDE", str(stage.folder / "nowhere"))
    paused = stage.run({"id": "asks", "prompt": "Write it.", "agent": "claude"})
    assert paused.status == ("paused", "agent_missing")
    assert paused.statuses() == {"asks": "ready"}


def test_a_program_that_does_not_exist_fails_its_task_and_nothing_else(
    stage: Any, kit: Any
) -> None:
    played = stage.run(
        {"id": "none", "run": ["no-such-program-anywhere"], "retries": 0},
        kit.sh("good", "echo 1 > good.txt"),
    )
    assert played.status == ("failed", "finished")
    assert played.statuses() == {"none": "failed", "good": "merged"}
    assert "no such program" in played.task("none").reason


def test_a_task_gets_its_environment_and_nothing_of_gits(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    show = 'echo "$WORD ${GIT_DIR-none} ${GIT_INDEX_FILE-none} $GIT_TERMINAL_PROMPT" > env.txt'
    judge = 'test -z "$GIT_DIR" && git log -1 && git status && test "$WORD" = said'
    gates = [kit.gate("git", judge)]
    played = stage.run(kit.sh("one", show, env={"WORD": "said"}, gates=gates))
    assert played.statuses() == {"one": "merged"}
    monkeypatch.undo()
    assert stage.read(played, "env.txt") == "said none none 0"


def test_ids_of_any_shape_run_and_find_their_worktrees(stage: Any, kit: Any) -> None:
    ids = ["../up", "a/b", "with space", "é", "-rf", "x" * 300, "CON", "con", ".lock", "a.lock"]
    played = stage.run(
        *(kit.sh(task_id, f"echo 1 > n{number}.txt") for number, task_id in enumerate(ids)),
        concurrency=3,
    )
    assert set(played.statuses().values()) == {"merged"}
    assert len([name for name in stage.files(played) if name.startswith("n")]) == len(ids)


def test_a_worktree_that_is_in_the_way_is_replaced(stage: Any, kit: Any) -> None:
    def spoil(name: str) -> None:
        if name == "leased":
            [branch] = stage.refs("refs/heads/counterfoil")
            place = stage.home / "runs" / branch.rpartition("/")[2] / "worktrees" / "one"
            stage.git("worktree", "add", "--quiet", "--detach", str(place))
            (place / "left.txt").write_text("left")

    played = stage.run(kit.sh("one", "echo 1 > one.txt"), boundary=spoil)
    assert played.statuses() == {"one": "merged"}, played.notices
    assert "left.txt" not in stage.files(played)


def test_raw_output_and_launch_files_are_gone_when_a_run_is_over(stage: Any, kit: Any) -> None:
    played = stage.run(
        kit.sh("one", "echo said; echo erred >&2; echo 1 > one.txt", gates=[kit.gate("g", "ls")]),
    )
    assert played.output("one") == b"said\nerred\na.txt\nb.txt\none.txt\ntests\n"
    raw = {"stdout", "stderr", "stdin", "feedback.txt"}
    left = [
        Path(folder, name)
        for folder, _, names in os.walk(stage.home / "runs")
        for name in names
        if name in raw
    ]
    assert left == []


def test_a_fresh_worktree_is_prepared_before_the_agent_and_a_retry_goes_on_in_it(
    stage: Any, kit: Any
) -> None:
    prepare = (
        f"{mark(stage, 'prepare')}; mkdir built; echo '*' > built/.gitignore; echo $W > built/w"
    )
    work = f"{mark(stage, 'work')}; cp built/w one.txt; env | grep -c COUNTERFOIL_GATE >> one.txt"
    played = stage.run(
        kit.sh(
            "one",
            work,
            prepare=["sh", "-c", prepare],
            env={"W": "word"},
            gates=[kit.gate("again", "grep -q 1 one.txt")],
        )
    )
    assert played.statuses() == {"one": "merged"}
    assert stage.marks() == ["prepare", "work", "work"]
    assert stage.read(played, "one.txt") == "word\n1"


def test_a_prepare_that_fails_fails_the_attempt_before_its_agent(stage: Any, kit: Any) -> None:
    prepare = f"{mark(stage, 'prepare')}; (setsid sleep 900 &); echo no wheels >&2; exit 5"
    played = stage.run(
        kit.sh("one", mark(stage, "work"), prepare=["sh", "-c", prepare]),
        kit.sh("slow", "true", prepare=["sleep", "900"], timeout=0.5, retries=0),
    )
    assert played.statuses() == {"one": "failed", "slow": "failed"}
    assert stage.marks() == ["prepare", "prepare"]
    done = played.done("one")
    assert (done["errorClass"], done["exitCode"]) == ("exit", 5)
    assert done["message"].startswith("its prepare failed: the process exited with code 5")
    assert "no wheels" in done["message"]
    assert any("sleep 900" in said for said in done["endedProcesses"])
    assert played.output("one") == b"no wheels\n"
    assert played.done("slow")["errorClass"] == "timeout"
