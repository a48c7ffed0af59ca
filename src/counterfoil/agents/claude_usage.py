"""Tokens and cost out of Claude Code's result events, as what this process alone used.

``modelUsage`` and ``total_cost_usd`` go on counting over a resumed session, and the usage of
assistant events is a snapshot repeated for each block: neither is ever summed.
"""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from counterfoil.agents.events import Event, money_in, number_in, object_in
from counterfoil.ports.agent import Usage


def usage_of_result(result: Event, model: str | None) -> tuple[Usage, ...]:
    """What was used since the previous result (or since the start), one value per model.

    Without the breakdown that newer versions write, the tokens are the result's own and the
    cost is known only when the session's totals show that nothing came before.
    """
    since = result.get("model_usage_since_last_result")
    if isinstance(since, dict):
        return tuple(_of_model(name, object_in(since, name)) for name in since)
    own = object_in(result, "usage")
    usage = Usage(
        model=model,
        input_tokens=number_in(own, "input_tokens"),
        output_tokens=number_in(own, "output_tokens"),
        cache_read_tokens=number_in(own, "cache_read_input_tokens"),
        cache_write_tokens=number_in(own, "cache_creation_input_tokens"),
    )
    if not usage.input_tokens and not usage.output_tokens:
        return ()
    totals = object_in(result, "modelUsage")
    whole = summed(replace(_of_model(name, object_in(totals, name)), model=None) for name in totals)
    if [_tokens(total) for total in whole] == [_tokens(usage)]:
        return (_priced(usage, money_in(result, "total_cost_usd")),)
    return (usage,)


def summed(usages: Iterable[Usage]) -> tuple[Usage, ...]:
    """One value per model, in order of appearance; what one part does not know stays unknown."""
    by_model: dict[str | None, Usage] = {}
    for usage in usages:
        known = by_model.get(usage.model)
        by_model[usage.model] = usage if known is None else _added(known, usage)
    return tuple(by_model.values())


def _of_model(name: str, counts: Event) -> Usage:
    usage = Usage(
        model=name,
        input_tokens=number_in(counts, "inputTokens"),
        output_tokens=number_in(counts, "outputTokens"),
        cache_read_tokens=number_in(counts, "cacheReadInputTokens"),
        cache_write_tokens=number_in(counts, "cacheCreationInputTokens"),
    )
    # "unknown" is a price that the program made up for a model it does not know.
    guessed = counts.get("costBasis") == "unknown"
    return _priced(usage, None if guessed else money_in(counts, "costUSD"))


def _tokens(usage: Usage) -> tuple[int | None, int | None]:
    return usage.input_tokens, usage.output_tokens


def _priced(usage: Usage, cost: Decimal | None) -> Usage:
    if cost is None:
        return usage
    return replace(usage, cost=f"{cost:f}", currency="USD", cost_source="reported")


def _added(one: Usage, other: Usage) -> Usage:
    costs = (one.cost, other.cost)
    cost = None if None in costs else sum((Decimal(c) for c in costs if c), Decimal(0))
    usage = Usage(
        one.model,
        _sum(one.input_tokens, other.input_tokens),
        _sum(one.output_tokens, other.output_tokens),
        _sum(one.cache_read_tokens, other.cache_read_tokens),
        _sum(one.cache_write_tokens, other.cache_write_tokens),
    )
    return _priced(usage, cost)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
