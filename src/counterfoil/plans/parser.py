"""Reads a plan from the bytes of a JSONL file and writes it back.

Every fault is found in one reading, each with its line and column; a plan with a fault is no
plan. Fields that nobody here knows stay in a task's ``raw`` and never fail.
"""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from counterfoil.core.errors import PlanInvalid, ValueRefused
from counterfoil.observability import normalize_task_observability
from counterfoil.plans.faults import FaultCode, Findings, Line, shown
from counterfoil.plans.fields import Fields, identifier
from counterfoil.plans.graph import cycle_text, cycles
from counterfoil.plans.lines import read_lines
from counterfoil.plans.model import Fault, Plan, Task
from counterfoil.plans.positions import Path
from counterfoil.plans.terms import Terms, read_terms

DEPENDS_ON = "depends_on"
ALIASES = ("deps", "needs", "dependencies", "dependsOn", "blockedBy")
"""Other names under which tasks say what they depend on."""

MAX_ID_CHARS = 512
MAX_CONCURRENCY = 256
MAX_GUESSES = 20
"""How many unknown ids are compared with all known ones: each costs a pass over the plan."""


def read_plan(data: bytes, name: str) -> tuple[Plan | None, tuple[Fault, ...]]:
    """The plan, or None and everything that is wrong with it, in the order of lines.

    ``name`` is what the plan is called when its header gives it no ``name``.
    """
    findings = Findings()
    lines, unreadable = read_lines(data, findings)
    plan = _read(lines, unreadable, name, findings)
    if not plan.tasks and not findings.faults:
        findings.at(
            1,
            1,
            FaultCode.EMPTY_PLAN,
            f"{name} holds no task",
            'write one task a line: {"id": "a", "prompt": "..."}',
        )
    faults = findings.in_order()
    return (None if faults else plan), faults


def parse_plan(data: bytes, *, name: str) -> Plan:
    """The plan. Raises ``PlanInvalid`` with all faults in ``details["faults"]``."""
    plan, faults = read_plan(data, name)
    if plan is not None:
        return plan
    raise refusal(name, faults)


def refusal(name: str, faults: Sequence[Fault]) -> PlanInvalid:
    """The error that tells a plan's faults: the first ones in words, all in ``details``."""
    first = "; ".join(f"line {f.line} column {f.column}: {f.message}" for f in faults[:3])
    more = f"; and {len(faults) - 3:,} more" if len(faults) > 3 else ""
    count = "1 fault" if len(faults) == 1 else f"{len(faults):,} faults"
    return PlanInvalid(
        f"{name} has {count}: {first}{more}",
        hint=next((fault.hint for fault in faults if fault.hint), ""),
        details={"faults": [asdict(fault) for fault in faults]},
    )


def write_plan(plan: Plan) -> bytes:
    """The plan as JSONL: its header, then each task's line as it was read, key by key."""
    rows: list[Mapping[str, Any]] = [{"plan": plan.header}] if plan.header else []
    for task in plan.tasks:
        if not task.raw:
            raise ValueRefused(f"task {task.id!r} was not read from a line and has none to write")
        rows.append(task.raw)
    return b"".join(_encoded(row) for row in rows)


def _encoded(row: Mapping[str, Any]) -> bytes:
    try:
        return (json.dumps(row, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return (json.dumps(row) + "\n").encode()


def _tasks_say(count: int) -> str:
    return "1 task says" if count == 1 else f"{count:,} tasks say"


@dataclass(frozen=True, slots=True)
class _Edge:
    target: str
    path: Path


@dataclass(slots=True)
class _Entry:
    """A task as far as it could be read, and where it says what it depends on."""

    task: Task
    line: Line
    edges: tuple[_Edge, ...]


@dataclass(slots=True)
class _Aliases:
    """Which other names for dependencies were met, and how often."""

    seen: dict[str, int] = field(default_factory=dict)
    numbers: int = 0

    def notes(self) -> list[str]:
        notes = [
            f"{_tasks_say(count)} `{alias}`, read as `{DEPENDS_ON}`"
            for alias, count in self.seen.items()
        ]
        if self.numbers:
            count = "1 id is a number" if self.numbers == 1 else f"{self.numbers:,} ids are numbers"
            notes.append(f"{count}, read as text")
        return notes


def _read(lines: Sequence[Line], unreadable: Sequence[str], name: str, findings: Findings) -> Plan:
    header: Mapping[str, Any] = {}
    terms = Terms()
    entries: list[_Entry] = []
    aliases = _Aliases()
    for line in lines:
        if not _is_header(line):
            entry = _entry(line, terms, aliases, findings)
            if entry is not None:
                entries.append(entry)
        elif line is not lines[0]:
            findings.fault(
                line,
                (),
                FaultCode.HEADER_NOT_FIRST,
                "the plan's header is not on the first line",
                "move it to the top: its defaults hold for every task",
            )
        else:
            header, terms = _header(line, findings)
    _check_graph(entries, unreadable, findings)
    title = header.get("name")
    return Plan(
        name=title if isinstance(title, str) else name,
        tasks=tuple(entry.task for entry in entries),
        header=header,
        notes=(*findings.notes, *aliases.notes()),
    )


def _is_header(line: Line) -> bool:
    return "plan" in line.value and not line.value.keys() & {"id", "prompt", "run"}


def _header(line: Line, findings: Findings) -> tuple[Mapping[str, Any], Terms]:
    value = line.value["plan"]
    if not isinstance(value, dict):
        findings.fault(
            line,
            ("plan",),
            FaultCode.BAD_HEADER,
            f"`plan` is {shown(value)}, not an object of task defaults",
        )
        return {}, Terms()
    for other in line.value.keys() - {"plan"}:
        findings.fault(
            line,
            (other,),
            FaultCode.BAD_HEADER,
            f"the header line holds {other!r} beside `plan`",
            "move it into the `plan` object",
        )
    fields = Fields(findings, line, value, "the header", ("plan",))
    fields.text("name", FaultCode.BAD_HEADER)
    fields.refuse_halves("name")
    fields.whole("concurrency", FaultCode.BAD_CONCURRENCY, least=1, most=MAX_CONCURRENCY)
    return value, read_terms(fields, Terms())


def _entry(line: Line, defaults: Terms, aliases: _Aliases, findings: Findings) -> _Entry | None:
    task_id = _task_id(line, aliases, findings)
    what = f"task {task_id!r}" if task_id else f"the task on line {line.number}"
    fields = Fields(findings, line, line.value, what, task_id=task_id)
    edges = _edges(fields, aliases)
    terms = read_terms(fields, defaults)
    fields.refuse_halves("title", "prompt", "run", "files", "acceptance")
    title = fields.text("title", FaultCode.BAD_TITLE)
    prompt = fields.text("prompt", FaultCode.BAD_PROMPT)
    run = fields.argv("run", FaultCode.BAD_RUN)
    _check_work(fields)
    _check_acceptance(fields)
    files = fields.strings("files", FaultCode.BAD_FILES)
    for place, glob in enumerate(files):
        fields.inside(("files", place), "files", glob)
    if task_id is None:
        return None
    task = Task(
        id=task_id,
        title=title or task_id,
        prompt=prompt,
        run=run,
        depends_on=tuple(dict.fromkeys(edge.target for edge in edges)),
        files=files,
        gates=terms.gates,
        prepare=terms.prepare,
        env=terms.env,
        agent=terms.agent,
        agent_options=terms.agent_options,
        timeout_seconds=terms.timeout_seconds,
        retries=terms.retries,
        priority=terms.priority,
        on_no_change=terms.on_no_change,
        line=line.number,
        raw=line.value,
    )
    return _Entry(task, line, edges)


def _task_id(line: Line, aliases: _Aliases, findings: Findings) -> str | None:
    value = line.value.get("id")
    where = f"the task on line {line.number}"
    if value is None:
        guess = difflib.get_close_matches("id", line.value, 1, 0.6)
        hint = f"did you mean `id` for `{guess[0]}`?" if guess else 'add "id": "..."'
        findings.fault(line, (), FaultCode.MISSING_ID, f"{where} has no id", hint)
        return None
    task_id = identifier(value)
    if task_id is None:
        findings.fault(
            line,
            ("id",),
            FaultCode.BAD_ID,
            f"{where} has the id {shown(value)}, which is not a text",
            f'quote it: "{value}"' if isinstance(value, float) else "",
        )
    elif not task_id.strip():
        findings.fault(line, ("id",), FaultCode.EMPTY_ID, f"{where} has an empty id")
    elif len(task_id) > MAX_ID_CHARS or any(_is_control(char) for char in task_id):
        findings.fault(
            line,
            ("id",),
            FaultCode.BAD_ID,
            f"{where} has the id {shown(task_id)}, which is longer than {MAX_ID_CHARS} "
            "characters or holds control characters",
        )
    else:
        aliases.numbers += not isinstance(value, str)
        return task_id
    return None


def _is_control(char: str) -> bool:
    return char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff"


def _edges(fields: Fields, aliases: _Aliases) -> tuple[_Edge, ...]:
    edges: list[_Edge] = []
    for name in (DEPENDS_ON, *ALIASES):
        value = fields.values.get(name)
        if value is None:
            continue
        if name in ALIASES:
            aliases.seen[name] = aliases.seen.get(name, 0) + 1
        entries = value if isinstance(value, list) else [value]
        for place, entry in enumerate(entries):
            target = identifier(entry)
            path: Path = (name, place) if isinstance(value, list) else (name,)
            if target is None or not isinstance(value, list):
                fields.fault(
                    path,
                    FaultCode.BAD_DEPENDS_ON,
                    f"`{name}` holds {shown(entry)}, not a list of task ids"
                    if target is None
                    else f"`{name}` is {shown(entry)}, not a list of task ids",
                    f"write [{shown(target)}]" if target is not None else "",
                )
                continue
            edges.append(_Edge(target, path))
    return tuple(edges)


def _check_work(fields: Fields) -> None:
    has = [name for name in ("prompt", "run") if fields.values.get(name) is not None]
    if len(has) == 2:
        fields.fault(
            ("run",),
            FaultCode.TWO_WORKS,
            "it has both a `prompt` and a `run`",
            "keep one, or make two tasks that depend on one another",
        )
    elif not has:
        known = [name for name in ("prompt", "run") if name in fields.values]
        guess = [
            name
            for name in fields.values
            if name not in known and difflib.get_close_matches(name, ("prompt", "run"), 1, 0.75)
        ]
        if not guess and "description" in fields.values:
            guess = ["description"]
        fields.fault(
            (),
            FaultCode.NO_WORK,
            "it has neither a `prompt` nor a `run`",
            f"did you mean `prompt` or `run` by `{guess[0]}`?"
            if guess
            else "add a prompt for an agent or the argv of a command",
        )


def _check_acceptance(fields: Fields) -> None:
    for wrong in normalize_task_observability(fields.values).malformed:
        fields.fault(wrong.path, FaultCode.BAD_ACCEPTANCE, wrong.message, wrong.hint)


def _check_graph(entries: Sequence[_Entry], unreadable: Sequence[str], findings: Findings) -> None:
    known: dict[str, _Entry] = {}
    for entry in entries:
        first = known.setdefault(entry.task.id, entry)
        if first is not entry:
            findings.fault(
                entry.line,
                ("id",),
                FaultCode.DUPLICATE_ID,
                f"task {entry.task.id!r} is there twice: on line {first.line.number} "
                f"and on line {entry.line.number}",
                "rename one of them",
                entry.task.id,
            )
    guesses = MAX_GUESSES
    for entry in entries:
        for edge in entry.edges:
            if edge.target in known and edge.target != entry.task.id:
                continue
            if edge.target == entry.task.id:
                _fault_at(findings, entry, edge, FaultCode.SELF_DEPENDENCY, "it depends on itself")
            elif not any(json.dumps(edge.target) in text for text in unreadable):
                guesses -= 1
                _fault_at(
                    findings,
                    entry,
                    edge,
                    FaultCode.UNKNOWN_DEPENDENCY,
                    f"it depends on {edge.target!r}, which is no task of this plan",
                    _did_you_mean(edge.target, known) if guesses >= 0 else "",
                )
    _check_cycles(known, findings)


def _fault_at(
    findings: Findings, entry: _Entry, edge: _Edge, code: FaultCode, message: str, hint: str = ""
) -> None:
    task_id = entry.task.id
    findings.fault(entry.line, edge.path, code, f"task {task_id!r}: {message}", hint, task_id)


def _did_you_mean(target: str, known: Mapping[str, _Entry]) -> str:
    folded = target.casefold()
    near = [task_id for task_id in known if task_id.casefold() == folded]
    near = near or difflib.get_close_matches(target, known, 1, 0.6)
    return f"did you mean {near[0]!r}?" if near else "add that task or drop the dependency"


def _check_cycles(known: Mapping[str, _Entry], findings: Findings) -> None:
    edges = {
        task_id: [edge.target for edge in entry.edges if edge.target != task_id]
        for task_id, entry in known.items()
    }
    for cycle in cycles(edges):
        entry = known[cycle[0]]
        closing = next(edge for edge in entry.edges if edge.target == cycle[1])
        _fault_at(
            findings,
            entry,
            closing,
            FaultCode.CYCLE,
            f"it waits for itself: {cycle_text(cycle)}",
            "drop one of these dependencies",
        )
