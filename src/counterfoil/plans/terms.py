"""What the header may set for every task and each task for itself: gates, agent, limits, env."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from counterfoil.ledger.states import FailClass
from counterfoil.plans.faults import FaultCode, shown
from counterfoil.plans.fields import Fields
from counterfoil.plans.model import Gate, OnNoChange


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which a task runs, after the header's defaults."""

    gates: tuple[Gate, ...] = ()
    prepare: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    agent: str | None = None
    agent_options: Mapping[str, Any] = field(default_factory=dict)
    timeout_seconds: float | None = None
    retries: int = 1
    priority: int = 0
    on_no_change: OnNoChange = OnNoChange.ASK


def read_terms(fields: Fields, defaults: Terms) -> Terms:
    """One object's terms over the defaults.

    ``env`` adds to the defaults' names; ``agent_options`` do as long as the agent is the same;
    an empty ``gates`` or ``prepare`` list switches the defaults' off.
    """
    named, options = _agent(fields)
    agent = named or defaults.agent
    if agent == defaults.agent:
        options = {**defaults.agent_options, **options}
    fields.refuse_halves("prepare", "env", "agent", "agent_options")
    prepare = fields.argv("prepare", FaultCode.BAD_PREPARE, may_be_empty=True)
    timeout = fields.seconds("timeout", FaultCode.BAD_TIMEOUT)
    retries = fields.whole("retries", FaultCode.BAD_RETRIES, least=0)
    priority = fields.whole("priority", FaultCode.BAD_PRIORITY)
    return Terms(
        gates=_gates(fields, defaults.gates),
        prepare=defaults.prepare if prepare is None else prepare or None,
        env={**defaults.env, **fields.env(FaultCode.BAD_ENV)},
        agent=agent,
        agent_options=options,
        timeout_seconds=defaults.timeout_seconds if timeout is None else timeout,
        retries=defaults.retries if retries is None else retries,
        priority=defaults.priority if priority is None else priority,
        on_no_change=_on_no_change(fields, defaults.on_no_change),
    )


def _agent(fields: Fields) -> tuple[str | None, Mapping[str, Any]]:
    """An agent's name and options: ``"codex"``, or ``{"name": "codex", "model": "..."}``."""
    options = fields.mapping("agent_options", FaultCode.BAD_AGENT_OPTIONS)
    value = fields.values.get("agent")
    if not isinstance(value, dict):
        return fields.text("agent", FaultCode.BAD_AGENT), options
    inner = fields.within(("agent",), value, f"{fields.what}, agent")
    if value.get("name") is None:
        inner.fault((), FaultCode.BAD_AGENT, "`name` is missing", 'write {"name": "claude", ...}')
    beside = {key: option for key, option in value.items() if key != "name"}
    return inner.text("name", FaultCode.BAD_AGENT), {**beside, **options}


def _on_no_change(fields: Fields, default: OnNoChange) -> OnNoChange:
    value = fields.values.get("on_no_change")
    if value is None:
        return default
    if isinstance(value, str) and value in tuple(OnNoChange):
        return OnNoChange(value)
    fields.fault(
        ("on_no_change",),
        FaultCode.BAD_ON_NO_CHANGE,
        f"`on_no_change` is {shown(value)}",
        f"it is one of {', '.join(OnNoChange)}",
    )
    return default


def _gates(fields: Fields, defaults: tuple[Gate, ...]) -> tuple[Gate, ...]:
    value = fields.values.get("gates")
    if value is None:
        return defaults
    if not isinstance(value, list):
        fields.fault(
            ("gates",),
            FaultCode.BAD_GATE,
            f"`gates` is {shown(value)}, not a list of gates",
            'write [{"name": "test", "run": ["make", "test"]}]',
        )
        return defaults
    gates: list[Gate] = []
    places: dict[str, int] = {}
    for place, entry in enumerate(value):
        gate = _gate(fields, place, entry)
        if gate is None:
            continue
        first = places.setdefault(gate.name, place)
        if first != place:
            fields.fault(
                ("gates", place, "name"),
                FaultCode.DUPLICATE_GATE,
                f"gates number {first + 1} and {place + 1} are both named {gate.name!r}",
                "give each gate a name of its own",
            )
        gates.append(gate)
    return tuple(gates)


def _gate(fields: Fields, place: int, entry: object) -> Gate | None:
    bad = FaultCode.BAD_GATE
    if not isinstance(entry, dict):
        fields.fault(
            ("gates", place),
            bad,
            f"gate number {place + 1} is {shown(entry)}, not an object",
            'write {"name": "test", "run": ["make", "test"]}',
        )
        return None
    named = entry.get("name")
    label = f"gate {named!r}" if isinstance(named, str) and named else f"gate number {place + 1}"
    inner = fields.within(("gates", place), entry, f"{fields.what}, {label}")
    for required in ("name", "run"):
        if entry.get(required) is None:
            inner.fault((), bad, f"`{required}` is missing", "a gate needs a name and a run")
    inner.refuse_halves("name", "run", "cwd", "env", "accepts")
    name = inner.text("name", bad)
    run = inner.argv("run", bad)
    cwd = inner.text("cwd", bad) or "."
    inner.inside(("cwd",), "cwd", cwd)
    gate = Gate(
        name=name or "",
        run=run or (),
        fail_class=_fail_class(inner),
        cwd=cwd,
        env=inner.env(FaultCode.BAD_ENV),
        timeout_seconds=inner.seconds("timeout", bad),
        accepts=inner.strings("accepts", bad),
    )
    return gate if name else None


def _fail_class(gate: Fields) -> FailClass | None:
    value = gate.values.get("class")
    if value is None:
        return None
    if isinstance(value, str) and value in tuple(FailClass):
        return FailClass(value)
    gate.fault(
        ("class",),
        FaultCode.BAD_GATE,
        f"`class` is {shown(value)}",
        f"it is one of {', '.join(FailClass)}",
    )
    return None
