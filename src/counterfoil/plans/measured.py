"""What an attempt's end tells of its work: usage and change, as payloads of journal entries."""

from typing import Any

from counterfoil.ledger import events
from counterfoil.ledger.events import EventKind
from counterfoil.plans.claims import outside_claims
from counterfoil.plans.model import Task
from counterfoil.ports.agent import Report, Usage
from counterfoil.ports.workspace import Harvest

MOST_PATHS = 1000

Payloads = list[tuple[EventKind, dict[str, Any]]]


def usages(report: Report) -> Payloads:
    """What the agent used, a payload for each delta."""
    return [(events.TASK_USAGE, _usage(usage)) for usage in report.usage]


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "model": usage.model,
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadTokens": usage.cache_read_tokens,
        "cacheWriteTokens": usage.cache_write_tokens,
        "cost": usage.cost,
        "currency": usage.currency,
        "costSource": usage.cost_source,
    }


def diff(task: Task, harvest: Harvest | None) -> Payloads:
    """The measured change; nothing at all when it could not be measured."""
    if harvest is None:
        return []
    paths = [change.path for change in harvest.files]
    payload: dict[str, Any] = {
        "filesTouched": paths[:MOST_PATHS],
        "insertions": harvest.insertions,
        "deletions": harvest.deletions,
    }
    optional = {
        "binary": [one.path for one in harvest.files if one.insertions is None][:MOST_PATHS],
        "outsideClaims": list(outside_claims(paths, task.files))[:MOST_PATHS],
        "truncated": len(paths) > MOST_PATHS,
    }
    return [
        (events.TASK_DIFF, payload | {name: value for name, value in optional.items() if value})
    ]
