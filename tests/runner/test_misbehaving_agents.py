"""One scripted agent misbehaves in every way that is known of real ones; each gets its answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from counterfoil.app import plan_runs
from counterfoil.plans.context import Limits

MEMORY_BYTES = 48 * 1024 * 1024
CLAUDE = {"agent": "claude"}


@dataclass(frozen=True)
class Case:
    """What the agent does, and what its attempt and its task must come to.

    ``files``: added to the run branch. ``note``: a word of a note on the work that was found.
    ``left``: pid files of processes that it leaves behind.
    """

    name: str
    steps: Sequence[str]
    outcome: str = "succeeded"
    error: str = ""
    status: str = "merged"
    files: Sequence[str] = ("x.txt",)
    note: str = ""
    left: Sequence[str] = ()
    task: dict[str, Any] = field(default_factory=dict)


def failed(name: str, steps: Sequence[str], error: str, **more: Any) -> Case:
    return Case(name, steps, "failed", error, "failed", (), **more)


WORK = "write:x.txt=1"

GIT = [
    Case("it commits", [WORK, "commit"]),
    Case("it does not commit", [WORK]),
    Case(
        "it commits and goes on without",
        [WORK, "commit", "write:y.txt=2"],
        files=("x.txt", "y.txt"),
    ),
    Case("it detaches HEAD", ["checkout:HEAD", WORK, "commit"]),
    Case("it switches the branch", ["branch:mine", WORK, "commit"]),
    Case("it leaves index.lock", [WORK, "index-lock"], note="index.lock"),
    Case(
        "it deletes its own worktree",
        ["delete-worktree"],
        "unknown",
        "workspace",
        "failed",
        (),
        note="gone",
    ),
    Case("it links out of the tree", ["symlink:x.txt=/etc/passwd"]),
    Case("it makes a large binary file", ["binary:x.txt=20000000"]),
]

PROCESSES = [
    Case(f"it leaves a {kind}", [WORK, f"{kind}:900=@pid"], left=("pid",))
    for kind in ("grandchild", "daemon", "stubborn", "unmarked", "escapee")
] + [
    Case("it leaves a storm of forks", [WORK, "storm:200"]),
    failed(
        "it ignores SIGTERM and never ends",
        [WORK, "ignore-term", "hang"],
        "timeout",
        task={"timeout": 4},
    ),
    failed("it stops itself", [WORK, "stop"], "timeout", task={"timeout": 4}),
    failed("it is killed", [WORK, "kill:9"], "crash"),
    failed("it crashes", [WORK, "kill:11"], "crash"),
    *(failed(f"it exits with {code}", [WORK, f"exit:{code}"], "exit") for code in (1, 144, 145)),
    Case("it reads an open stdin to its end", ["stdin-closed", WORK]),
    failed("it asks for approval on stdin", [WORK, "ask"], "exit"),
]

OUTPUT = [
    Case("it prints a line of 300 kB", ["line:300000", WORK]),
    Case("it ends in the middle of a line", [WORK, "torn:and so"]),
    Case("it prints what is no text", ["garbage", "bytes:ff00fe0d1b5b41", WORK, "garbage"]),
    Case("it prints other sessions' words", ["session:foreign", "claude-ok", WORK]),
]

STREAMS = [
    Case("it tells its end", [WORK, "claude-ok"]),
    Case("it never exits after its result", [WORK, "claude-ok", "hang"]),
    Case(
        "it leaves a daemon after its result", [WORK, "claude-ok", "daemon:900=@pid"], left=("pid",)
    ),
    Case("it tells another session", ["session:foreign", "claude-says", "claude-ok", WORK]),
    Case(
        "it prints garbage between",
        ["claude-init", "garbage", WORK, "claude-says", "claude-result"],
    ),
    failed("it says nothing of its end", [WORK, "claude-no-result"], "no_result"),
    failed("its stream is torn", [WORK, "claude-cut"], "no_result"),
    failed("it falls silent", [WORK, "claude-init", "hang"], "hang"),
    failed("it was denied a permission", ["claude-denied"], "permission_denied"),
    failed("it runs out of turns", [WORK, "claude-max-turns"], "limit"),
    failed("it asks on stdin", [WORK, "claude-init", "ask"], "exit"),
    Case("it contradicts its end", [WORK, "claude-ok", "exit:1"], "unknown", "", "failed", ()),
    Case("it says that it is done and is not", ["claude-ok"], "no_change", "", "no_change", ()),
]


def names(cases: Sequence[Case]) -> list[str]:
    return [case.name for case in cases]


@pytest.fixture
def impatient(stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted agent stands for claude, and nobody waits long for it."""
    program = stage.folder / "claude"
    program.write_text(f"#!/bin/sh\nexec {' '.join(kit.agent_argv)} -\n")
    program.chmod(0o755)
    monkeypatch.setenv("COUNTERFOIL_CLAUDE", str(program))
    monkeypatch.setattr(plan_runs, "Limits", partial(Limits, linger=0.3))


def play(stage: Any, kit: Any, case: Case, line: Callable[[list[str]], dict[str, Any]]) -> Any:
    """Run the case beside a task that is well, and hold it against what it must come to."""
    steps = [step.replace("@", f"{stage.folder}/") for step in case.steps]
    task = {"id": "bad", "retries": 0, **line(steps), **case.task}
    played = stage.run(task, kit.sh("good", "echo 1 > good.txt"))
    done = played.done("bad")
    assert (done["outcome"], done.get("errorClass", "")) == (case.outcome, case.error), done
    assert played.statuses() == {"bad": case.status, "good": "merged"}
    added = set(stage.files(played)) - {"a.txt", "b.txt", "tests/test_a.py", "good.txt"}
    assert added == set(case.files)
    assert any(case.note in note for note in done.get("notes", [""]))
    for pid_file in case.left:
        assert not kit.alive(stage.folder / pid_file)
        pid = (stage.folder / pid_file).read_text()
        assert any(said.startswith(f"{pid} ") for said in done["endedProcesses"])
    assert "survivors" not in done
    if case.status == "failed" and WORK in case.steps and case.outcome == "failed":
        assert stage.git("show", f"{stage.pin(played.tries('bad')[0])}:x.txt") == "1"
    return played


@pytest.mark.parametrize(
    "case", [*GIT, *PROCESSES, *OUTPUT], ids=names([*GIT, *PROCESSES, *OUTPUT])
)
def test_a_command_that(stage: Any, kit: Any, case: Case) -> None:
    play(stage, kit, case, lambda steps: kit.agent("bad", *steps))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("case", STREAMS, ids=names(STREAMS))
def test_an_agent_with_a_stream_whose(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    if case.error == "hang":
        monkeypatch.setattr("counterfoil.agents.claude.QUIET_SECONDS", 4.0)

    def line(steps: list[str]) -> dict[str, Any]:
        return {"prompt": "".join(f"step {step}\n" for step in steps), **CLAUDE}

    play(stage, kit, case, line)


def test_a_branch_that_an_agent_made_is_told_and_its_work_still_taken(stage: Any, kit: Any) -> None:
    played = stage.run(kit.agent("bad", "branch:mine", WORK, "commit"))
    assert played.statuses() == {"bad": "merged"}
    [told] = played.payloads("run.checkout_changed")
    assert told == {"changed": ["branches"], "attempts": [played.tries("bad")[0].id]}
    assert stage.git("rev-parse", "HEAD") == stage.git("rev-parse", "main")


@pytest.mark.usefixtures("impatient")
def test_an_agent_that_writes_into_the_main_checkout_has_not_succeeded(
    stage: Any, kit: Any
) -> None:
    steps = [f"write:{stage.repository}/stray.txt=1", "claude-ok"]
    prompt = "".join(f"step {step}\n" for step in steps)
    played = stage.run({"id": "bad", "prompt": prompt, "retries": 0, **CLAUDE})
    assert played.status == ("failed", "finished")
    assert played.statuses() == {"bad": "no_change"}
    [told] = played.payloads("run.checkout_changed")
    assert told == {"changed": ["file:stray.txt"], "attempts": [played.tries("bad")[0].id]}
    assert any("stray.txt" in notice for notice in played.notices)


def test_an_agent_that_edits_what_it_did_not_claim_is_told(stage: Any, kit: Any) -> None:
    steps = ("write:a.txt=1", "write:tests/test_a.py=pass")
    played = stage.run(kit.agent("bad", *steps, files=["a.txt"]))
    [told] = played.payloads("task.diff")
    assert told["outsideClaims"] == ["tests/test_a.py"]


@pytest.mark.slow
def test_an_agent_that_makes_ten_thousand_files_has_them_all_merged(stage: Any, kit: Any) -> None:
    played = stage.run(kit.agent("bad", "files:10000"))
    assert played.statuses() == {"bad": "merged"}
    [told] = played.payloads("task.diff")
    assert (len(told["filesTouched"]), told["insertions"]) == (1000, 10_000)
    assert told["truncated"]
    assert len(stage.files(played)) == 10_003


def test_a_link_out_of_the_tree_is_kept_as_a_link_and_never_followed(stage: Any, kit: Any) -> None:
    secret = stage.folder / "secret"
    secret.mkdir()
    (secret / "key").write_text("hush")
    played = stage.run(kit.agent("bad", f"symlink:out={secret}", "symlink:loop=loop"))
    assert stage.git("ls-tree", played.view.branch, "out").startswith("120000 blob")
    assert stage.files(played).count("out") == 1
    assert (secret / "key").read_text() == "hush"


def test_file_names_that_are_no_text_are_taken_as_they_are(stage: Any, kit: Any) -> None:
    script = 'echo 1 > "$(printf "caf\\351")"; echo 2 > "$(printf "new\\nline")"; echo 3 > "-rf"'
    played = stage.run(kit.sh("bad", script, gates=[kit.gate("there", "ls | wc -l | grep -q 7")]))
    assert played.statuses() == {"bad": "merged"}
    assert {"caf\udce9", "new\nline", "-rf"} <= set(stage.files(played))
    [told] = played.payloads("task.diff")
    assert len(told["filesTouched"]) == 3


def test_output_that_is_no_text_is_kept_byte_by_byte(stage: Any, kit: Any) -> None:
    played = stage.run(kit.agent("bad", "garbage", "bytes:ff00fe0d1b5b41", "torn:end", WORK))
    said = played.output("bad")
    assert b"caf\xe9 \xff\xfe\r\nnul\0nul\n\x1b[31mred" in said
    assert said.endswith(b"\xff\x00\xfe\r\x1b[Aend")


def test_an_agent_that_cuts_its_own_output_is_read_as_far_as_it_is_there(
    stage: Any, kit: Any
) -> None:
    cut = "echo one; sleep 0.7; : > /proc/self/fd/1; sleep 0.7; echo two; echo 1 > x.txt"
    played = stage.run(kit.sh("bad", cut))
    assert played.statuses() == {"bad": "merged"}
    assert played.output("bad").endswith(b"two\n")


@pytest.mark.usefixtures("impatient")
def test_an_agent_whose_first_lines_are_cut_away_is_not_believed(stage: Any, kit: Any) -> None:
    program = Path(stage.folder, "claude")
    lines = " ".join((*kit.agent_argv, "claude-no-result"))
    program.write_text(f"#!/bin/sh\n{lines}\nsleep 0.7\n: > /proc/self/fd/1\necho 1 > x.txt\n")
    played = stage.run({"id": "bad", "prompt": "Do it.", "retries": 0, **CLAUDE})
    assert played.statuses() == {"bad": "failed"}
    assert played.done("bad")["errorClass"] == "no_result"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
@pytest.mark.usefixtures("impatient")
def test_lines_of_50_mb_and_large_files_do_not_grow_the_runners_memory(
    stage: Any, kit: Any
) -> None:
    stage.run(kit.agent("warm", WORK))

    def memory(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        [line] = [line for line in lines if line.startswith(f"{name}:")]
        return int(line.split()[1]) * 1024

    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    steps = ["claude-init", "line:50000000", "claude-says", "claude-result", "binary:y=20000000"]
    prompt = "".join(f"step {step}\n" for step in steps)
    played = stage.run(
        kit.agent("plain", "line:50000000", "binary:x=20000000"),
        {"id": "stream", "prompt": prompt, **CLAUDE},
    )
    grown = memory("VmHWM") - before
    assert played.statuses() == {"plain": "merged", "stream": "merged"}
    assert len(played.payloads("task.usage", "stream")) == 1
    assert grown < MEMORY_BYTES, f"{grown:,} bytes"
