"""Journal entries as sentences for people, one teller a kind, and as objects for programs."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from counterfoil.cli.tally import Usage
from counterfoil.cli.words import clock_time, commit, count, duration, harmless, state
from counterfoil.core import codec
from counterfoil.ledger import events
from counterfoil.ledger.states import AttemptOutcome, ExecutionStatus, Phase, TaskStatus
from counterfoil.ledger.values import EntryRow

Payload = Mapping[str, Any]

QUIET = frozenset(
    kind.name
    for kind in (
        events.RUN_DRIVER,
        events.STEP_RECORDED,
        events.ARTIFACT_RECORDED,
        events.TASK_ADDED,
        events.DISPATCH_START,
        events.TASK_USAGE,
        events.TASK_DURATION,
        events.MERGE_INTENT,
        events.MERGE_DONE,
    )
)
"""Kinds that only ``runs events`` prints."""

_UNREMARKABLE = frozenset(
    {TaskStatus.WAITING, TaskStatus.READY, TaskStatus.RUNNING, ExecutionStatus.PREPARING}
)


def noteworthy(entry: EntryRow) -> bool:
    """Whether somebody who watches a run wants to read it."""
    payload = payload_of(entry)
    match entry.kind:
        case events.TASK_STATUS.name | events.RUN_STATUS.name:
            return payload.get("to") not in _UNREMARKABLE
        case events.TASK_DISPATCH.name:
            return payload.get("phase") != Phase.MERGE
        case events.DISPATCH_DONE.name:
            well = payload.get("outcome") == AttemptOutcome.SUCCEEDED
            return not (well and payload.get("phase") == Phase.MERGE)
        case events.TASK_DIFF.name:
            return bool(payload.get("filesTouched"))
        case _:
            return entry.kind not in QUIET


def payload_of(entry: EntryRow) -> dict[str, Any]:
    """The payload as values; empty when it was withheld."""
    value = codec.decode(entry.payload) if entry.payload is not None else None
    return value if isinstance(value, dict) else {}


def as_object(entry: EntryRow) -> dict[str, Any]:
    """An entry as it goes on the wire; a withheld payload is null."""
    found: dict[str, Any] = {"seq": entry.seq, "kind": entry.kind, "at": entry.at}
    if entry.task_id is not None:
        found["taskId"] = entry.task_id
    if entry.attempt_id is not None:
        found["attemptId"] = entry.attempt_id
    found["payload"] = json.loads(entry.payload) if entry.payload is not None else None
    return found


def line(entry: EntryRow) -> str:
    """The time of day and what happened, on one line."""
    return f"{clock_time(entry.at)}  {sentence(entry)}"


def sentence(entry: EntryRow) -> str:
    """What happened. A kind or a shape that this version does not know is shown as it is."""
    tell = TELLERS.get(entry.kind)
    if entry.payload is None:
        said = f"{entry.kind} (its content was withheld)"
    elif tell is None:
        said = f"{entry.kind} {entry.payload}"
    elif entry.kind == events.RUN_CREATED.name:
        said = f"{entry.stream} {tell(payload_of(entry))}"
    else:
        try:
            said = tell(payload_of(entry))
        except (KeyError, TypeError):
            said = f"{entry.kind} {entry.payload}"
    return harmless(said if entry.task_id is None else f"{entry.task_id}: {said}")


def _run_created(payload: Payload) -> str:
    return f"created for {payload['subjectKind']} {payload['subjectId']}"


def _run_driver(payload: Payload) -> str:
    taken = f", taken from {payload['takenFrom']}" if "takenFrom" in payload else ""
    return f"{payload['holder']} drives the run under fence {payload['fence']}{taken}"


def _run_status(payload: Payload) -> str:
    return _because(f"run {state(payload['to'])}", payload, "message", "cause")


def _checkout_changed(payload: Payload) -> str:
    return f"the checkout was changed by somebody: {_some(payload['changed'])}"


def _landed(payload: Payload) -> str:
    branch, old, new = payload["branch"], payload["old"], payload["new"]
    return f"landed on {branch}: {commit(old)} -> {commit(new)}"


def _task_added(payload: Payload) -> str:
    after = _some(payload["dependsOn"])
    return f"added: {payload['title']}" + (f", after {after}" if after else "")


def _dispatch(payload: Payload) -> str:
    attempt = f"{payload['phase']} {payload['ordinal']}"
    return f"{attempt} with {payload['agent']} from {commit(payload['base'])}"


def _dispatch_start(payload: Payload) -> str:
    return _because(f"{payload['phase']} started", {"command": _argv(payload)}, "command")


def _dispatch_done(payload: Payload) -> str:
    said = f"{payload['phase']} ended: {state(payload['outcome'])}"
    if payload["outcome"] != AttemptOutcome.SUCCEEDED:
        said = _because(said, payload, "message", "endCause")
    ended, survivors = payload.get("endedProcesses"), payload.get("survivors")
    if ended:
        said += f"; {count(len(ended), 'process left over was', 'processes left over were')} ended"
    if survivors:
        said += f"; could not be ended: {_some(survivors)}"
    return said


def _usage(payload: Payload) -> str:
    usage = Usage()
    usage.add(payload)
    model = f" on {payload['model']}" if payload.get("model") else ""
    cost = f", {payload['cost']} {payload['currency']}" if payload.get("cost") else ""
    return f"used {usage if usage.known else 'an unknown number of'} tokens{model}{cost}"


def _duration(payload: Payload) -> str:
    if payload["durationMs"] is None:
        return _because(f"{payload['phase']} took an unknown time", payload, "reason")
    return f"{payload['phase']} took {duration(payload['durationMs'])}"


def _diff(payload: Payload) -> str:
    files = payload["filesTouched"]
    if not files:
        return "changed nothing"
    said = (
        f"changed {count(len(files), 'file')} "
        f"(+{payload['insertions']} -{payload['deletions']}): {_some(files)}"
    )
    outside = payload.get("outsideClaims")
    return said + (f"; outside its claims: {_some(outside)}" if outside else "")


def _gate_pass(payload: Payload) -> str:
    how = "had passed on this tree before" if payload.get("reused") else "passed"
    return f"gate {payload['gate']} {how}"


def _gate_fail(payload: Payload) -> str:
    gate = payload.get("gate", "")
    kind = f" ({payload['failClass']})" if payload.get("failClass") else ""
    said = [line for line in str(payload["message"]).splitlines() if line.strip()]
    return f"gate {gate} failed{kind}" + (f": {said[-1]}" if said else "")


def _stalled(payload: Payload) -> str:
    return _because(f"nothing can be recorded ({payload['cause']})", payload, "message")


def _conflict(payload: Payload) -> str:
    return f"conflicts with the run branch in {_some(payload['paths'])}; its work is kept"


def _artifact(payload: Payload) -> str:
    return f"artifact {payload['artifact']}: {payload['type']}, {payload['sizeBytes']:,} bytes"


TELLERS: Mapping[str, Callable[[Payload], str]] = {
    events.RUN_CREATED.name: _run_created,
    events.RUN_DRIVER.name: _run_driver,
    events.RUN_STATUS.name: _run_status,
    events.RUN_STALLED.name: _stalled,
    events.RUN_UNSTALLED.name: lambda p: f"goes on after {duration(p['stalledMs'])}",
    events.RUN_CHECKOUT_CHANGED.name: _checkout_changed,
    events.RUN_LANDED.name: _landed,
    events.RUN_DIAGNOSTIC.name: lambda p: f"note by {p['where']}: {p['message']}",
    events.STEP_RECORDED.name: lambda p: _because(f"step {p['step']} recorded", p, "errorCode"),
    events.ARTIFACT_RECORDED.name: _artifact,
    events.TASK_ADDED.name: _task_added,
    events.TASK_STATUS.name: lambda p: _because(state(p["to"]), p, "reason"),
    events.TASK_DISPATCH.name: _dispatch,
    events.DISPATCH_START.name: _dispatch_start,
    events.DISPATCH_ADOPTED.name: lambda p: f"its attempt is alive and goes on with {p['holder']}",
    events.DISPATCH_DONE.name: _dispatch_done,
    events.TASK_USAGE.name: _usage,
    events.TASK_DURATION.name: _duration,
    events.TASK_DIFF.name: _diff,
    events.GATE_PASS.name: _gate_pass,
    events.GATE_FAIL.name: _gate_fail,
    events.MERGE_INTENT.name: lambda p: f"merge: {p['ref']} will move to {commit(p['new'])}",
    events.MERGE_DONE.name: lambda p: f"merge: {p['ref']} is at {commit(p['new'])}",
    events.MERGE_CONFLICT.name: _conflict,
}
"""A teller for every kind of entry; a test keeps it complete."""


def _because(said: str, payload: Payload, *names: str) -> str:
    """The sentence with the first of the named fields that says something."""
    why = next((str(payload[name]) for name in names if payload.get(name)), "")
    return f"{said}: {why}" if why else said


def _argv(payload: Payload) -> str:
    return " ".join(str(word) for word in payload.get("command") or ())


def _some(items: object, most: int = 4) -> str:
    words = [str(item) for item in items] if isinstance(items, list | tuple) else []
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more
