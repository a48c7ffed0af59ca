"""Every kind of journal entry, declared once with the shape of its payload.

The registry only grows: a kind is never renamed or removed, a field never changes its meaning.
The reference page of events is generated from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterfoil.core.errors import ValueRefused


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a payload: its JSON types, whether it must be there, what it means."""

    types: tuple[type, ...]
    required: bool
    doc: str

    def allows(self, value: Any) -> bool:
        """True for a value of one of the types; a boolean is no integer."""
        return isinstance(value, self.types) and (not isinstance(value, bool) or bool in self.types)

    @property
    def type_names(self) -> str:
        return " or ".join(_JSON_NAMES[kind] for kind in self.types)


_JSON_NAMES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of entry: its name, what it tells, and its payload."""

    name: str
    doc: str
    fields: Mapping[str, Field]

    def check(self, payload: Mapping[str, Any]) -> None:
        """Raises ``ValueRefused`` naming the field that is missing, unknown or of another type."""
        for name, field in self.fields.items():
            if name not in payload:
                if field.required:
                    raise ValueRefused(f"{self.name}: the payload lacks {name}")
            elif type(payload[name]) not in field.types and not field.allows(payload[name]):
                raise ValueRefused(f"{self.name}: {name} must be {field.type_names}")
        unknown = payload.keys() - self.fields.keys()
        if unknown:
            raise ValueRefused(f"{self.name}: unknown field {sorted(unknown)[0]}")


KINDS: dict[str, EventKind] = {}
"""All kinds by name, in the order of their declaration."""


def _kind(name: str, doc: str, **fields: Field) -> EventKind:
    kind = EventKind(name, doc, fields)
    KINDS[name] = kind
    return kind


def _text(doc: str) -> Field:
    return Field((str,), True, doc)


def _number(doc: str) -> Field:
    return Field((int,), True, doc)


def _list(doc: str) -> Field:
    return Field((list,), True, doc)


def _maybe(field: Field) -> Field:
    return Field(field.types, False, field.doc)


def _or_null(field: Field) -> Field:
    return Field((*field.types, type(None)), field.required, field.doc)


_TASK = _text("The task's id.")
_ATTEMPT = _text("The attempt that it is about.")
_PHASE = _text("The attempt's phase: implement, review, fix or merge.")
_FROM = _text("The status before.")
_TO = _text("The status after.")
_GATE = _text("The gate's name.")
_TREE = _text("The git tree that was judged.")
_ARGV = _list("The command's actual argv.")
_MESSAGE = _text("One sentence for people.")

RUN_CREATED = _kind(
    "run.created",
    "A run exists; its exact input is recorded.",
    subjectKind=_text("What is run: plan, agent, workflow, …"),
    subjectId=_text("Which one."),
    inputSha256=_text("Hash of the recorded input."),
    runKey=_maybe(_text("The caller's key, when one was given.")),
    sourceRunId=_maybe(_text("The run that this one re-executes.")),
    parentRunId=_maybe(_text("The run that started this one.")),
)
RUN_DRIVER = _kind(
    "run.driver",
    "A process took the run; every later write of the driver before is refused.",
    holder=_text("The holder that drives it now."),
    fence=_number("The fence handed out with it."),
    takenFrom=_maybe(_text("The holder that it was taken from.")),
)
RUN_STATUS = _kind(
    "run.status",
    "The run moved.",
    **{"from": _FROM, "to": _TO},
    cause=_maybe(_text("Why, as a value: finished, shutdown, rate_limit, disk, …")),
    message=_maybe(_MESSAGE),
    resetsAt=_maybe(_number("When the provider's limit resets, seconds since 1970.")),
)
RUN_STALLED = _kind(
    "run.stalled",
    "Nothing could be recorded for a while, so nothing was dispatched. Written afterwards.",
    cause=_text("disk or store."),
    message=_MESSAGE,
    since=_number("When the store first refused, microseconds."),
)
RUN_UNSTALLED = _kind(
    "run.unstalled",
    "The store takes writes again and the run goes on.",
    stalledMs=_number("How long nothing could be recorded."),
)
RUN_CHECKOUT_CHANGED = _kind(
    "run.checkout_changed",
    "The developer's checkout is not what it was before; attempts that were alive are named.",
    changed=_list("What differs: HEAD, index, files."),
    attempts=_list("The attempts that were alive since the last look."),
)
RUN_LANDED = _kind(
    "run.landed",
    "The run branch was merged into a branch, as somebody asked.",
    branch=_text("The branch that received it."),
    old=_text("Its commit before."),
    new=_text("Its commit after."),
)
RUN_DIAGNOSTIC = _kind(
    "run.diagnostic",
    "Something that did not fail the run but that somebody should know.",
    message=_MESSAGE,
    where=_text("The part that noticed."),
    task=_maybe(_TASK),
)
STEP_RECORDED = _kind(
    "step.recorded",
    "A durable step ended and its result is recorded.",
    step=_text("The step's key in its run."),
    stepType=_text("What kind of operation it was."),
    resultSha256=_text("Hash of the recorded result."),
    errorCode=_maybe(_text("The error's type, when the step failed.")),
)
ARTIFACT_RECORDED = _kind(
    "artifact.recorded",
    "Bytes were stored under their hash and belong to the run.",
    artifact=_text("The artifact's id."),
    sha256=_text("Hash of the bytes."),
    sizeBytes=_number("How many."),
    type=_text("What they are: log, diff, blob, json."),
)
TASK_ADDED = _kind(
    "task.added",
    "The run has this task.",
    task=_TASK,
    title=_text("Its title."),
    dependsOn=_list("The tasks that it waits for."),
)
TASK_STATUS = _kind(
    "task.status",
    "The task moved.",
    task=_TASK,
    **{"from": _FROM, "to": _TO},
    reason=_maybe(_text("Why, in one sentence.")),
)
TASK_DISPATCH = _kind(
    "task.dispatch",
    "An attempt was leased. Once per attempt, and before anything of it exists.",
    task=_TASK,
    attemptId=_ATTEMPT,
    phase=_PHASE,
    ordinal=_number("The how-manieth attempt of this phase."),
    agent=_text("The agent that does it."),
    base=_text("The commit that it starts from."),
    fence=_number("The fence of the lease."),
)
DISPATCH_START = _kind(
    "dispatch.start",
    "The attempt's process runs under its keeper.",
    task=_TASK,
    attemptId=_ATTEMPT,
    phase=_PHASE,
    command=_maybe(_ARGV),
)
DISPATCH_ADOPTED = _kind(
    "dispatch.adopted",
    "Another driver took over the attempt while it lives; its id stays.",
    task=_TASK,
    attemptId=_ATTEMPT,
    holder=_text("The holder that has it now."),
)
DISPATCH_DONE = _kind(
    "dispatch.done",
    "The attempt is over.",
    task=_TASK,
    attemptId=_ATTEMPT,
    phase=_PHASE,
    outcome=_text("succeeded, failed, no_change or unknown."),
    endCause=_text("Why it ended, as a value."),
    message=_maybe(_MESSAGE),
    errorClass=_maybe(_text("What failed: trouble of the surroundings or of the task.")),
    exitCode=_maybe(_or_null(_number("How the process ended."))),
    signal=_maybe(_or_null(_number("The signal that ended it."))),
    session=_maybe(_text("The agent's own session id.")),
    endedProcesses=_maybe(_list("Left-over processes that had to be ended.")),
    survivors=_maybe(_list("Processes that could not be ended.")),
    notes=_maybe(_list("What was odd about the work that was found.")),
)
TASK_USAGE = _kind(
    "task.usage",
    "What the attempt's agent used: a delta of this process only. Unknown is null, never 0.",
    task=_TASK,
    attemptId=_ATTEMPT,
    model=_or_null(_text("The model.")),
    inputTokens=_or_null(_number("Uncached input tokens.")),
    outputTokens=_or_null(_number("Output tokens.")),
    cacheReadTokens=_or_null(_number("Input tokens read from a cache.")),
    cacheWriteTokens=_or_null(_number("Input tokens written to a cache.")),
    cost=_or_null(_text("Exact decimal.")),
    currency=_or_null(_text("The currency of cost.")),
    costSource=_text("reported, table or unknown."),
)
TASK_DURATION = _kind(
    "task.duration",
    "How long the attempt took, monotonic, measured by its keeper. Once per ended attempt.",
    task=_TASK,
    attemptId=_ATTEMPT,
    phase=_PHASE,
    durationMs=_or_null(_number("Milliseconds; null when nobody could measure it.")),
    reason=_maybe(_text("Why durationMs is null.")),
)
TASK_DIFF = _kind(
    "task.diff",
    "What the attempt changed against its own base. Absent when it could not be measured.",
    task=_TASK,
    attemptId=_ATTEMPT,
    filesTouched=_list("Paths."),
    insertions=_number("Lines added; binary files count as none."),
    deletions=_number("Lines removed."),
    binary=_maybe(_list("Paths without line counts.")),
    outsideClaims=_maybe(_list("Paths that the task's files do not cover.")),
    truncated=_maybe(Field((bool,), True, "True when filesTouched was cut.")),
)
GATE_PASS = _kind(
    "gate0.pass",
    "A gate passed on a tree.",
    task=_TASK,
    attemptId=_ATTEMPT,
    gate=_GATE,
    tree=_TREE,
    command=_ARGV,
    cwd=_text("Where it ran, relative to the checkout."),
    durationMs=_or_null(_number("Milliseconds.")),
    reused=_maybe(Field((bool,), True, "True when the tree had passed before.")),
)
GATE_FAIL = _kind(
    "gate0.fail",
    "A gate failed on a tree.",
    task=_TASK,
    message=_text("The end of its output."),
    attemptId=_maybe(_ATTEMPT),
    failClass=_maybe(_text("build, typecheck, lint, test, timeout or other.")),
    command=_maybe(_ARGV),
    cwd=_maybe(_text("Where it ran, relative to the checkout.")),
    gate=_maybe(_GATE),
    tree=_maybe(_TREE),
    exitCode=_maybe(_or_null(_number("How it ended."))),
    durationMs=_maybe(_or_null(_number("Milliseconds."))),
    artifact=_maybe(_text("The artifact with its whole output.")),
)
MERGE_INTENT = _kind(
    "merge.intent",
    "The run branch is about to move. Committed before the ref is touched.",
    task=_TASK,
    attemptId=_ATTEMPT,
    ref=_text("The run branch."),
    old=_text("Where it stands."),
    new=_text("Where it is going."),
    tree=_TREE,
)
MERGE_DONE = _kind(
    "merge.done",
    "The run branch moved.",
    task=_TASK,
    attemptId=_ATTEMPT,
    ref=_text("The run branch."),
    new=_text("Where it stands now."),
)
MERGE_CONFLICT = _kind(
    "merge.conflict",
    "The candidate and the run branch changed the same lines; the work is kept.",
    task=_TASK,
    attemptId=_ATTEMPT,
    paths=_list("The paths in conflict."),
    ours=_text("The run branch's commit."),
    theirs=_text("The candidate."),
)
