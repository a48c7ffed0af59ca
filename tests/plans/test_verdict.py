from dataclasses import replace

import pytest

from counterfoil.ledger.states import AttemptOutcome
from counterfoil.plans.verdict import MESSAGE_CHARACTERS, Facts, judge_attempt
from counterfoil.ports.agent import ErrorClass, Report, Terminal
from counterfoil.ports.executor import ExitCause, ExitRecord

O, E, C = AttemptOutcome, ErrorClass, ExitCause  # noqa: E741


def ended(
    code: int | None = 0,
    cause: C = C.EXITED,
    signal: int | None = None,
    by: str = "",
    why: str = "",
) -> ExitRecord:
    return ExitRecord(1, cause, code, signal, 0, 1, 65_000, why, by)


def said(error_class: E | None = None, message: str = "") -> Report:
    """A report with a terminal event that is an error."""
    return Report(terminal=Terminal(False, error_class, message))


OK = Report(terminal=Terminal(True))
NOTHING = Report()

# What was measured of the agents' programs: scenario, exit record, report, whether a terminal
# event is expected, whether nothing changed, and the verdict that has to follow.
MEASURED = [
    ("ok, files changed", ended(), OK, True, False, O.SUCCEEDED, None),
    ("aider ok, files changed", ended(), NOTHING, False, False, O.SUCCEEDED, None),
    ("a tool's command exits 3", ended(), OK, True, False, O.SUCCEEDED, None),
    ("the model did nothing", ended(), OK, True, True, O.NO_CHANGE, None),
    ("aider's model did nothing", ended(), NOTHING, False, True, O.NO_CHANGE, None),
    ("claude: permission denied, rc 0", ended(), replace(OK, denials=2), True, True,
     O.FAILED, E.PERMISSION_DENIED),
    ("claude: permission denied, something changed", ended(), replace(OK, denials=1), True, False,
     O.FAILED, E.PERMISSION_DENIED),
    ("codex, gemini: denied without evidence", ended(), OK, True, True, O.NO_CHANGE, None),
    ("claude: 400 credit, rc 1, subtype success", ended(1), said(E.BILLING), True, True,
     O.FAILED, E.BILLING),
    ("codex: 400, turn.failed", ended(1), said(E.BILLING), True, True, O.FAILED, E.BILLING),
    ("gemini: 400, rc 144", ended(144), said(E.BILLING), True, True, O.FAILED, E.BILLING),
    ("aider: 400, rc 0", ended(), Report(error_class=E.BILLING), False, True, O.FAILED, E.BILLING),
    ("claude: 401", ended(1), said(E.AUTH), True, True, O.FAILED, E.AUTH),
    ("gemini: 401, rc 145", ended(145), said(E.AUTH), True, True, O.FAILED, E.AUTH),
    ("aider: 401, rc 0", ended(), Report(error_class=E.AUTH), False, True, O.FAILED, E.AUTH),
    ("claude: 429 after retries", ended(1), said(E.RATE_LIMIT), True, True, O.FAILED, E.RATE_LIMIT),
    ("gemini: 429, silent, told on stderr", ended(None, C.QUIET, 9),
     Report(error_class=E.RATE_LIMIT), True, True, O.FAILED, E.RATE_LIMIT),
    ("opencode: 429, no byte anywhere", ended(None, C.QUIET, 9), NOTHING, True, True,
     O.FAILED, E.HANG),
    ("gemini: 429, later rc 173", ended(173), Report(error_class=E.RATE_LIMIT), True, True,
     O.FAILED, E.RATE_LIMIT),
    ("claude: 500 after retries", ended(1), said(E.PROVIDER), True, True, O.FAILED, E.PROVIDER),
    ("gemini: 500, retried into the time limit", ended(None, C.TIMEOUT, 9),
     Report(error_class=E.PROVIDER), True, True, O.FAILED, E.PROVIDER),
    ("claude: stream cut, rc 1", ended(1), said(E.NETWORK), True, True, O.FAILED, E.NETWORK),
    ("gemini: stream cut, rc 0, status error", ended(), said(E.PROVIDER), True, True,
     O.FAILED, E.PROVIDER),
    ("opencode: stream cut, rc 0, reason unknown", ended(), said(E.PROVIDER), True, False,
     O.FAILED, E.PROVIDER),
    ("claude: --max-turns", ended(1), said(E.LIMIT), True, False, O.FAILED, E.LIMIT),
    ("gemini: turns used up, rc 53", ended(53), Report(error_class=E.LIMIT), True, False,
     O.FAILED, E.LIMIT),
    ("opencode: unknown model, rc 1", ended(1), NOTHING, True, True, O.FAILED, E.EXIT),
    ("gemini: no auth, rc 41, no event", ended(41), Report(error_class=E.AUTH), True, True,
     O.FAILED, E.AUTH),
    ("codex: no auth, retries until its time is over", ended(None, C.TIMEOUT, 9),
     Report(error_class=E.NETWORK), True, True, O.FAILED, E.NETWORK),
    ("bad flag, rc 2", ended(2), NOTHING, True, True, O.FAILED, E.EXIT),
    ("claude: SIGTERM from outside, rc 143, no result", ended(143), NOTHING, True, True,
     O.FAILED, E.EXIT),
    ("codex: SIGTERM from outside, dies of it", ended(None, signal=15), NOTHING, True, True,
     O.FAILED, E.CRASH),
    ("out of memory, SIGKILL", ended(None, signal=9), NOTHING, True, False, O.FAILED, E.CRASH),
    ("rc 0 without a result", ended(), NOTHING, True, False, O.FAILED, E.NO_RESULT),
    ("rc 0, empty stdout, but the reason was read", ended(), Report(error_class=E.AUTH), True,
     True, O.FAILED, E.AUTH),
    ("an error without a class, rc 0", ended(), said(), True, False, O.FAILED, E.NO_RESULT),
    ("an error without a class, rc 1", ended(1), said(), True, False, O.FAILED, E.EXIT),
    ("rc 1 although the answer succeeded", ended(1), OK, True, False, O.UNKNOWN, None),
    ("a signal after the answer", ended(None, signal=11), OK, True, False, O.UNKNOWN, None),
    ("lingers after its result, asked to leave", ended(None, C.ENDED, 15, "finished"), OK, True,
     False, O.SUCCEEDED, None),
    ("lingers, asked to leave, leaves with 143", ended(143, C.ENDED, None, "finished"), OK, True,
     True, O.NO_CHANGE, None),
    ("lingers after an error, asked to leave", ended(None, C.ENDED, 15, "finished"),
     said(E.AUTH), True, True, O.FAILED, E.AUTH),
    ("lingers into the time limit", ended(None, C.TIMEOUT, 9), OK, True, False,
     O.SUCCEEDED, None),
    ("lingers in silence", ended(None, C.QUIET, 9), OK, True, False, O.SUCCEEDED, None),
    ("a 429 that a retry overcame", ended(), replace(OK, error_class=E.RATE_LIMIT), True, False,
     O.SUCCEEDED, None),
    ("over its time", ended(None, C.TIMEOUT, 9), NOTHING, True, False, O.FAILED, E.TIMEOUT),
    ("over its time with an error of its own", ended(None, C.TIMEOUT, 9),
     Report(error_class=E.REFUSED), True, False, O.FAILED, E.TIMEOUT),
    ("silent too long", ended(None, C.QUIET, 15), NOTHING, True, False, O.FAILED, E.HANG),
    ("killed by an operator", ended(None, C.ENDED, 15, "operator"), NOTHING, True, False,
     O.FAILED, None),
    ("killed by an operator after its result", ended(None, C.ENDED, 15, "operator"), OK, True,
     False, O.FAILED, None),
    ("too much output", ended(None, C.ENDED, 15, "keeper", "more than 1 GiB of output"), NOTHING,
     True, False, O.FAILED, E.LIMIT),
    ("the keeper died", None, NOTHING, True, False, O.UNKNOWN, None),
    ("the keeper died after the result", None, OK, True, False, O.UNKNOWN, None),
    ("the keeper died after an error", None, said(E.BILLING), True, True, O.FAILED, E.BILLING),
    ("no runner for too long", ended(None, C.ORPHANED, 15), NOTHING, True, False, O.UNKNOWN, None),
    ("the agent could not be started", ended(None, C.SPAWN_FAILED), NOTHING, True, True,
     O.FAILED, E.AGENT_MISSING),
    ("a command could not be started", ended(None, C.SPAWN_FAILED), NOTHING, False, True,
     O.FAILED, E.EXIT),
    ("a command exits 1", ended(1), NOTHING, False, False, O.FAILED, E.EXIT),
    ("the change could not be measured", ended(), OK, True, None, O.UNKNOWN, E.WORKSPACE),
    ("failed, and the change could not be measured", ended(1), NOTHING, True, None,
     O.FAILED, E.EXIT),
]  # fmt: skip


@pytest.mark.parametrize(
    ("exit_record", "report", "expected", "empty", "outcome", "error_class"),
    [pytest.param(*row[1:], id=row[0]) for row in MEASURED],
)
def test_the_verdict_follows_from_three_recorded_facts(
    exit_record: ExitRecord | None,
    report: Report,
    expected: bool,
    empty: bool | None,
    outcome: AttemptOutcome,
    error_class: ErrorClass | None,
):
    verdict = judge_attempt(Facts(exit_record, report, expected, empty))
    assert (verdict.outcome, verdict.error_class) == (outcome, error_class)
    assert verdict.message
    assert verdict.of_surroundings == (error_class is not None and error_class.of_surroundings)


@pytest.mark.parametrize("terminal", [None, Terminal(False), Terminal(True)])
@pytest.mark.parametrize("cause", list(ExitCause))
@pytest.mark.parametrize("code", [0, 1, 144, None])
@pytest.mark.parametrize("empty", [True, False, None])
def test_nothing_succeeds_without_a_good_end_a_good_word_and_a_change(
    terminal: Terminal | None, cause: ExitCause, code: int | None, empty: bool | None
):
    record = ended(code, cause, None if code is not None else 9, "finished")
    facts = Facts(record, Report(terminal=terminal), True, empty)
    verdict = judge_attempt(facts)
    if verdict.outcome is O.SUCCEEDED:
        assert terminal is not None
        assert terminal.ok
        assert empty is False
        assert cause is not C.EXITED or code == 0
    if verdict.outcome is O.NO_CHANGE:
        assert empty is True
    assert (verdict.error_class is None) or verdict.outcome in (O.FAILED, O.UNKNOWN)


def test_the_reset_time_is_handed_on_for_trouble_of_the_surroundings_only():
    limited = replace(said(E.RATE_LIMIT, "limit reached"), resets_at=1_800_000_000)
    verdict = judge_attempt(Facts(ended(1), limited, True, True))
    assert verdict.resets_at == 1_800_000_000
    assert verdict.message == "the agent reported an error: limit reached"
    refused = replace(limited, terminal=Terminal(False, E.REFUSED))
    assert judge_attempt(Facts(ended(1), refused, True, True)).resets_at is None


def test_what_the_agent_said_is_one_line_of_bounded_length():
    verdict = judge_attempt(Facts(ended(1), said(E.AUTH, "no\n  key " * 500), True, True))
    assert "\n" not in verdict.message
    assert len(verdict.message) == MESSAGE_CHARACTERS


def test_the_message_names_how_the_process_ended():
    assert "code 144" in judge_attempt(Facts(ended(144), NOTHING, True, True)).message
    assert "signal 9" in judge_attempt(Facts(ended(None, signal=9), NOTHING, True, True)).message
    slow = judge_attempt(Facts(ended(None, C.TIMEOUT, 9), NOTHING, True, True))
    assert "65 seconds" in slow.message
    by = judge_attempt(Facts(ended(None, C.ENDED, 15, "ann"), NOTHING, True, True))
    assert by.message == "the attempt was ended on request of ann"
