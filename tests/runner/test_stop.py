"""How driving stops and goes on: ended, left to its keepers, killed, frozen, taken over."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from counterfoil.app import plan_runs, run_views
from counterfoil.app.plan_runs import Stop
from counterfoil.core.errors import Conflict


def stopping(stage: Any, how: Stop, when: Callable[[], Any]) -> Callable[[Any], Any]:
    """An act: stop the run as soon as something is true."""

    async def act(live: Any) -> None:
        await live.until(when)
        live.control.stop(how)

    return act


def patient(stage: Any, kit: Any, task_id: str, *steps: str, **more: Any) -> Any:
    """A task that works and then waits for ever, until a file lets its next attempt go."""
    ready = f"{stage.folder}/ready-{task_id}"
    go = f"{stage.folder}/go"
    script = f'test -e {go} && {{ echo 2 > {task_id}.txt; exit 0; }}; exec "$@"'
    argv = (*kit.agent_argv, f"write:{task_id}.txt=1", *steps, f"write:{ready}=.", "hang")
    return {"id": task_id, "run": ["sh", "-c", script, "sh", *argv], **more}


def ready(stage: Any, *task_ids: str) -> Callable[[], bool]:
    return lambda: all((stage.folder / f"ready-{one}").exists() for one in task_ids)


def test_a_shutdown_ends_all_that_runs_and_keeps_its_work(stage: Any, kit: Any) -> None:
    pids = [f"{stage.folder}/pid-{number}" for number in range(3)]
    steps = (f"grandchild:900={pids[0]}", f"stubborn:900={pids[1]}", f"daemon:900={pids[2]}")
    plan = (
        patient(stage, kit, "one", *steps, "ignore-term", retries=0),
        patient(stage, kit, "two", retries=0),
        kit.sh("after", "cat one.txt two.txt > after.txt", depends_on=["one", "two"]),
    )
    paused = stage.run(*plan, act=stopping(stage, Stop.SHUTDOWN, ready(stage, "one", "two")))
    assert paused.status == ("paused", "shutdown")
    assert paused.statuses() == {"one": "ready", "two": "ready", "after": "waiting"}
    for path in pids:
        pid = int(Path(path).read_text())
        assert not kit.alive(path)
        assert any(said.startswith(f"{pid} ") for said in paused.done("one")["endedProcesses"])
    for task_id in ("one", "two"):
        [attempt] = paused.tries(task_id)
        done = paused.done(task_id)
        assert (done["outcome"], done["endCause"]) == ("failed", "shutdown")
        assert stage.git("show", f"{stage.pin(attempt)}:{task_id}.txt") == "1"
        assert (paused.view.worktrees[task_id] / f"{task_id}.txt").is_file()

    (stage.folder / "go").touch()
    resumed = stage.resume()
    assert resumed.status == ("succeeded", "finished")
    assert stage.read(resumed, "after.txt") == "2\n2"
    assert [one.outcome for one in resumed.tries("one")] == ["failed", "succeeded"]
    assert resumed.tries("one")[0].id != resumed.tries("one")[1].id


def test_a_shutdown_while_a_gate_runs_does_not_run_the_agent_again(stage: Any, kit: Any) -> None:
    gating = f"{stage.folder}/gating"
    slow = f"test -e {stage.folder}/go || {{ touch {gating}; (setsid sleep 900 &); sleep 900; }}"
    plan = kit.sh("one", f"echo ran >> {stage.folder}/log; echo 1 > one.txt", retries=0)
    plan["gates"] = [kit.gate("slow", slow)]
    paused = stage.run(plan, act=stopping(stage, Stop.SHUTDOWN, Path(gating).exists))
    assert paused.status == ("paused", "shutdown")
    assert paused.statuses() == {"one": "ready"}
    assert paused.gates("one") == []
    (stage.folder / "go").touch()
    resumed = stage.resume()
    assert resumed.statuses() == {"one": "merged"}
    assert stage.marks() == ["ran"]


def test_a_shutdown_before_anything_has_begun_leaves_the_run_to_resume(
    stage: Any, kit: Any
) -> None:
    async def act(live: Any) -> None:
        live.control.stop(Stop.SHUTDOWN)

    paused = stage.run(kit.sh("one", "echo 1 > one.txt"), act=act)
    assert paused.status == ("paused", "shutdown")
    assert stage.resume().statuses() == {"one": "merged"}


def test_a_paused_run_can_be_resumed_by_the_process_that_paused_it(stage: Any, kit: Any) -> None:
    with stage.house() as house:
        paused = stage.run(
            patient(stage, kit, "one"),
            act=stopping(stage, Stop.SHUTDOWN, ready(stage, "one")),
            house=house,
        )
        assert paused.status == ("paused", "shutdown")
        (stage.folder / "go").touch()
        resumed = stage.drive(
            lambda opened, control: plan_runs.drive_resumed(opened, "last", control),
            house=house,
            run_id=paused.view.run.id,
        )
    assert resumed.status == ("succeeded", "finished")


def test_what_is_left_to_its_keepers_is_adopted_under_the_same_id(stage: Any, kit: Any) -> None:
    go = f"{stage.folder}/go"
    work = f"echo ran >> {stage.folder}/log; until [ -e {go} ]; do sleep 0.02; done; echo 1 > 1.txt"
    began = Path(stage.folder, "log").exists
    left = stage.run(kit.sh("one", work, retries=0), act=stopping(stage, Stop.LEAVE, began))
    assert left.view.run.status == "running"
    [attempt] = left.tries("one")
    assert attempt.status in ("leased", "running")
    assert kit.living([attempt.id])

    async def act(live: Any) -> None:
        await live.seen("dispatch.adopted")
        Path(go).touch()

    recovered = stage.recover(act=act)
    assert recovered.status == ("succeeded", "finished")
    [same] = recovered.tries("one")
    assert (same.id, same.outcome) == (attempt.id, "succeeded")
    assert stage.marks() == ["ran"]
    assert "1.txt" in stage.files(recovered)


def test_what_ended_while_nobody_drove_is_read_off_its_record(
    stage: Any, kit: Any, until: Any
) -> None:
    go = f"{stage.folder}/go"
    work = f"echo ran >> {stage.folder}/log; until [ -e {go} ]; do sleep 0.02; done; echo 1 > 1.txt"
    began = Path(stage.folder, "log").exists
    left = stage.run(kit.sh("one", work, retries=0), act=stopping(stage, Stop.LEAVE, began))
    Path(go).touch()
    until(Path(left.tries("one")[0].folder, "exit.json").exists)
    recovered = stage.recover()
    assert recovered.statuses() == {"one": "merged"}
    assert recovered.of("dispatch.adopted") == []
    assert stage.marks() == ["ran"]
    assert len(recovered.tries("one")) == 1


def test_a_gate_that_is_left_is_ended_and_runs_again(stage: Any, kit: Any) -> None:
    gating = f"{stage.folder}/gating"
    slow = f"test -e {stage.folder}/go || {{ touch {gating}; (setsid sleep 900 &); sleep 900; }}"
    plan = kit.sh("one", f"echo ran >> {stage.folder}/log; echo 1 > one.txt", retries=0)
    plan["gates"] = [kit.gate("slow", slow)]
    left = stage.run(plan, act=stopping(stage, Stop.LEAVE, Path(gating).exists))
    assert kit.living([left.tries("one")[0].id])
    (stage.folder / "go").touch()
    recovered = stage.recover()
    assert recovered.statuses() == {"one": "merged"}
    assert stage.marks() == ["ran"]
    raw = {"stdout", "stderr"}
    assert [path for path in (stage.home / "runs").rglob("*") if path.name in raw] == []


def test_a_timeout_ends_all_that_the_attempt_started(stage: Any, kit: Any) -> None:
    pids = [f"{stage.folder}/pid-{number}" for number in range(3)]
    steps = (f"grandchild:900={pids[0]}", f"stubborn:900={pids[1]}", f"unmarked:900={pids[2]}")
    task = kit.agent("one", "write:one.txt=1", *steps, "ignore-term", "hang", retries=0)
    played = stage.run(task | {"timeout": 4})
    assert played.statuses() == {"one": "failed"}
    done = played.done("one")
    assert (done["errorClass"], done["endCause"]) == ("timeout", "failed:timeout")
    for path in pids:
        assert not kit.alive(path)
    assert stage.git("show", f"{stage.pin(played.tries('one')[0])}:one.txt") == "1"


def test_a_keeper_that_is_asked_to_end_from_outside_costs_its_task_no_try(
    stage: Any, kit: Any
) -> None:
    async def act(live: Any) -> None:
        await live.until(ready(stage, "one"))
        [execution] = live.control.live.values()
        (stage.folder / "go").touch()
        os.kill(execution.keeper_pid, signal.SIGTERM)

    played = stage.run(patient(stage, kit, "one", retries=0), act=act)
    assert played.statuses() == {"one": "merged"}
    first, second = played.tries("one")
    assert (first.outcome, first.end_cause) == ("failed", "killed")
    assert second.outcome == "succeeded"


def test_a_keeper_that_is_killed_leaves_nothing_and_its_task_is_tried_again(
    stage: Any, kit: Any
) -> None:
    async def act(live: Any) -> None:
        await live.until(ready(stage, "one"))
        [execution] = live.control.live.values()
        (stage.folder / "go").touch()
        os.kill(execution.keeper_pid, signal.SIGKILL)

    steps = (f"grandchild:900={stage.folder}/pid", "ignore-term")
    played = stage.run(patient(stage, kit, "one", *steps), act=act)
    assert played.statuses() == {"one": "merged"}
    first, second = played.tries("one")
    assert (first.outcome, first.end_cause, first.duration_ms) == ("unknown", "keeper_lost", None)
    assert second.outcome == "succeeded"
    [reason] = [told["reason"] for told in played.payloads("task.duration") if "reason" in told]
    assert reason == "the keeper left no record"
    assert not kit.alive(stage.folder / "pid")


def test_a_run_has_one_driver_and_a_killed_one_is_recovered(
    stage: Any, kit: Any, driver: Any, until: Any
) -> None:
    go = f"{stage.folder}/go"
    work = f"echo ran >> {stage.folder}/log; until [ -e {go} ]; do sleep 0.02; done; echo 1 > 1.txt"
    first = driver(kit.sh("one", work, retries=0))
    until(Path(stage.folder, "log").exists)
    with pytest.raises(Conflict, match=rf"is driven by process {first.pid} on "):
        stage.recover()
    with pytest.raises(Conflict, match="is running, not paused"):
        stage.resume()

    first.kill()
    first.wait()

    async def act(live: Any) -> None:
        await live.seen("dispatch.adopted")
        Path(go).touch()

    recovered = stage.recover(act=act)
    assert recovered.status == ("succeeded", "finished")
    assert stage.marks() == ["ran"]
    [taken] = recovered.payloads("run.driver")
    assert taken["fence"] == 2
    with pytest.raises(Conflict, match="has ended succeeded"):
        stage.recover()


@pytest.mark.parametrize(
    "change", ["host = 'elsewhere', lease_expires_at = 1", "boot_id = 'another boot'"]
)
def test_a_frozen_driver_keeps_its_run_and_one_that_was_taken_over_leaves(
    stage: Any, kit: Any, driver: Any, until: Any, change: str
) -> None:
    go = f"{stage.folder}/go"
    work = f"echo ran >> {stage.folder}/log; until [ -e {go} ]; do sleep 0.02; done; echo 1 > 1.txt"
    first = driver(kit.sh("one", work, retries=0))
    until(Path(stage.folder, "log").exists)
    with stage.house() as house:
        until(lambda: run_views.view(house, "last").attempts[0].status == "running")
    os.kill(first.pid, signal.SIGSTOP)
    with pytest.raises(Conflict, match=f"process {first.pid}"):
        stage.recover()

    ledger = apsw.Connection(str(stage.home / "ledger.db"))
    ledger.set_busy_timeout(60_000)
    ledger.execute(f"UPDATE holders SET {change} WHERE pid = ?", (first.pid,))
    ledger.close()

    async def act(live: Any) -> None:
        await live.seen("dispatch.adopted")
        Path(go).touch()

    recovered = stage.recover(act=act)
    assert recovered.status == ("succeeded", "finished")
    os.kill(first.pid, signal.SIGCONT)
    out, _ = first.communicate(timeout=kit.patience)
    name, message = json.loads(out)
    assert name == "StaleFence"
    assert recovered.view.run.id in message
    with stage.house() as house:
        again = run_views.view(house, "last")
    assert (again.run.status, again.run.fence) == ("succeeded", 2)
    assert len(again.attempts) == len(recovered.view.attempts)
    assert stage.marks() == ["ran"]


def test_two_that_recover_at_once_are_one_driver_and_one_refusal(
    stage: Any, kit: Any, driver: Any, until: Any
) -> None:
    first = driver(patient(stage, kit, "one"))
    until(ready(stage, "one"))
    first.kill()
    first.wait()
    (stage.folder / "go").touch()
    refused: list[str] = []

    async def act(live: Any) -> None:
        await live.seen("dispatch.adopted")
        try:
            with stage.house() as other:
                await plan_runs.drive_recovered(other, "last", plan_runs.Control())
        except Conflict as error:
            refused.append(error.message)
        live.control.stop(Stop.SHUTDOWN)

    paused = stage.recover(act=act)
    assert paused.status == ("paused", "shutdown")
    assert refused
    assert str(os.getpid()) in refused[0]
    assert stage.resume().statuses() == {"one": "merged"}


@pytest.mark.parametrize("how", [Stop.SHUTDOWN, Stop.LEAVE])
def test_a_prepare_that_is_stopped_is_ended_and_done_again(stage: Any, kit: Any, how: Stop) -> None:
    begun = f"{stage.folder}/begun"
    script = f"test -e {stage.folder}/go || {{ touch {begun}; (setsid sleep 900 &); sleep 900; }}"
    tell = f"echo ran >> {stage.folder}/log; echo 1 > one.txt"
    plan = kit.sh("one", tell, prepare=["sh", "-c", script], retries=0)
    stopped = stage.run(plan, act=stopping(stage, how, Path(begun).exists))
    assert stopped.view.run.status == ("paused" if how is Stop.SHUTDOWN else "running")
    (stage.folder / "go").touch()
    again = stage.resume() if how is Stop.SHUTDOWN else stage.recover()
    assert again.statuses() == {"one": "merged"}
    assert stage.marks() == ["ran"]
    cause = "shutdown" if how is Stop.SHUTDOWN else "never_started"
    assert [one.end_cause for one in again.tries("one")] == [cause, "finished"]


def test_a_gate_of_a_second_round_that_is_left_is_ended(stage: Any, kit: Any) -> None:
    """The newest attempt is then a merge that came too late."""
    gating = Path(stage.folder, "gating")
    slow = (
        f"n=$(cat {stage.folder}/rounds | wc -l); echo >> {stage.folder}/rounds; "
        f"[ $n = 1 ] && {{ echo $$ > {gating}; (setsid sleep 900 &); sleep 900; }}; "
        f"! {{ [ $n = 2 ] && kill -0 $(cat {gating}); }}"
    )
    moved: list[str] = []

    def move(name: str) -> None:
        if name == "intent" and not moved:
            [branch] = stage.refs("refs/heads/counterfoil")
            blob = stage.git("hash-object", "-w", "b.txt")
            tree = f"100644 blob {blob}\ttheirs.txt\n{stage.git('ls-tree', branch)}\n"
            made = stage.git("mktree", stdin=tree)
            moved.append(stage.git("commit-tree", "-p", branch, "-m", "theirs", made))
            stage.git("update-ref", branch, moved[0])

    (stage.folder / "rounds").touch()
    left = stage.run(
        kit.sh("one", "echo 1 > one.txt", gates=[kit.gate("slow", slow)]),
        act=stopping(stage, Stop.LEAVE, gating.exists),
        boundary=move,
    )
    assert [one.end_cause for one in left.tries("one", "merge")] == ["ref_moved"]
    assert kit.living([left.tries("one")[0].id])
    recovered = stage.recover()
    assert recovered.statuses() == {"one": "merged"}
    assert len(stage.marks("rounds")) == 3
