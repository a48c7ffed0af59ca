"""The agents that a plan can name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from counterfoil.agents.claude import ClaudeAgent
from counterfoil.agents.command import CommandAgent
from counterfoil.core.errors import AgentUnavailable
from counterfoil.ports.agent import Agent

KNOWN: Mapping[str, Callable[[], Agent]] = MappingProxyType(
    {"claude": ClaudeAgent, "command": CommandAgent}
)


def agent_named(name: str) -> Agent:
    """The agent of that name. Raises ``AgentUnavailable`` that lists the known ones."""
    factory = KNOWN.get(name)
    if factory is None:
        raise AgentUnavailable(
            f"There is no agent named {name!r}.",
            hint=f"Known agents: {', '.join(sorted(KNOWN))}.",
        )
    return factory()
