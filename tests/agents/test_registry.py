import pytest

from counterfoil.agents.registry import KNOWN, agent_named
from counterfoil.core.errors import AgentUnavailable


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_known_agent_goes_by_its_own_name(name):
    agent = agent_named(name)
    assert agent.name == name
    assert set(agent.secrets) <= set(agent.environment)
    assert not any("*" in variable for variable in agent.environment)


def test_an_unknown_agent_is_answered_with_the_known_ones():
    with pytest.raises(AgentUnavailable, match="no agent named 'clyde'") as refused:
        agent_named("clyde")
    assert refused.value.hint == "Known agents: claude, command."


def test_two_attempts_do_not_share_a_reader():
    agent = agent_named("claude")
    assert agent.reader() is not agent.reader()
