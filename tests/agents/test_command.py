import pytest

from counterfoil.agents.command import GATE_OUTPUT, CommandAgent
from counterfoil.core.errors import ValueRefused

agent = CommandAgent()


def test_a_run_task_is_started_exactly_as_written(a_brief):
    launch = agent.launch(a_brief(prompt=None, run=("sh", "-c", "echo 'a b' $X")))
    assert launch.argv == ("sh", "-c", "echo 'a b' $X")
    assert launch.stdin == b""
    assert dict(launch.env) == {}
    assert launch.quiet_seconds is None


def test_a_prompt_goes_to_stdin_of_the_program_that_the_options_name(a_brief):
    launch = agent.launch(a_brief(prompt="Grüße", options={"argv": ["my-agent", "--stdin"]}))
    assert launch.argv == ("my-agent", "--stdin")
    assert launch.stdin == "Grüße".encode()


@pytest.mark.parametrize("argv", [None, [], "my-agent --stdin", ["my-agent", 1]])
def test_a_prompt_without_a_usable_program_is_refused_with_an_example(a_brief, argv):
    with pytest.raises(ValueRefused, match=r"Task t1 .* no program") as refused:
        agent.launch(a_brief(options={} if argv is None else {"argv": argv}))
    assert "argv" in refused.value.hint


def test_a_task_with_neither_run_nor_prompt_is_refused(a_brief):
    with pytest.raises(ValueRefused, match="no prompt"):
        agent.launch(a_brief(prompt=None, options={"argv": ["x"]}))


def test_a_retry_finds_the_failed_gates_output(a_brief, tmp_path):
    output = tmp_path / "gate.log"
    output.write_bytes(b"2 failed\n")
    run = agent.launch(a_brief(run=("make",), prompt=None, feedback=output))
    assert run.env == {GATE_OUTPUT: str(output)}
    assert run.stdin == b""
    prompted = agent.launch(a_brief(options={"argv": ["x"]}, feedback=output))
    assert prompted.env == {GATE_OUTPUT: str(output)}
    assert b"2 failed" in prompted.stdin


def test_success_is_never_read_from_a_commands_output():
    reader = agent.reader()
    reader.feed(b'{"type":"result","subtype":"success","is_error":false,"result":"ok"}')
    assert not reader.finished
    assert reader.report().terminal is None
    assert agent.terminal_expected is False


def test_the_report_keeps_only_the_end_of_the_output():
    reader = agent.reader()
    for number in range(10_000):
        reader.feed(b"line %d" % number)
    reader.feed(b"x" * 1_000_000 + b" the end \xff\x00")
    message = reader.report().message
    assert message.endswith("the end \ufffd\x00")
    assert len(message) <= 2_000
    assert sum(len(kept) for kept in vars(reader).values()) < 10_000


def test_the_message_is_stderrs_end_when_it_says_anything():
    reader = agent.reader()
    reader.feed(b"on stdout")
    assert reader.report(b"make: *** Error 2\n").message == "make: *** Error 2"
    assert reader.report(b" \n").message == "on stdout"
    assert reader.report().unread_lines == 0
