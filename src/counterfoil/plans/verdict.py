"""The verdict on one attempt: a pure function of three recorded facts.

How the process ended, what its adapter read, and what changed in the repository. Neither an
exit code nor what a model says decides alone.
"""

from dataclasses import dataclass

from counterfoil.ledger.states import AttemptOutcome
from counterfoil.ports.agent import ErrorClass, Report
from counterfoil.ports.executor import ExitCause, ExitRecord

FINISHED = "finished"
"""``requested_by`` of an end that was asked for because the terminal event had been seen."""

KEEPER = "keeper"
"""``requested_by`` of an end that the keeper chose itself: too much output."""

MESSAGE_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an attempt that is over.

    ``exit`` is None when the keeper died and left no record. ``terminal_expected``: the
    adapter's own, without a terminal event nothing has succeeded. ``empty``: the repository
    is as it was; None when that could not be measured.
    """

    exit: ExitRecord | None
    report: Report
    terminal_expected: bool
    empty: bool | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an attempt came to, and why.

    ``error_class`` is None when nothing failed, when somebody ended it, or when nobody knows.
    ``resets_at``: seconds since 1970, when the surroundings said it.
    """

    outcome: AttemptOutcome
    error_class: ErrorClass | None
    message: str
    resets_at: int | None = None

    @property
    def of_surroundings(self) -> bool:
        """True: the run is parked and the task keeps its retries."""
        return self.error_class is not None and self.error_class.of_surroundings


def judge_attempt(facts: Facts) -> Verdict:
    """Judge an attempt. The first row that fits decides.

    ======================================================  ==========  ====================
    fact                                                    outcome     class
    ======================================================  ==========  ====================
    ended on request, other than ``finished``               failed      none
    ended by the keeper for too much output                 failed      limit
    the agent reported an error                             failed      the agent's, or exit
                                                                        / no_result
    no keeper's record, or the keeper was orphaned          unknown     none
    it could not be started                                 failed      the surroundings' if
                                                                        reported, else
                                                                        agent_missing; exit
                                                                        for a plain command
    over its time, or silent too long, before it was done   failed      the surroundings' if
                                                                        reported, else
                                                                        timeout / hang
    done by its own word, then exit code ≠ 0 or a signal    unknown     none
    exit code ≠ 0                                           failed      reported, or exit
    a signal                                                failed      reported, or crash
    no terminal event where one is expected                 failed      reported, or no_result
    no terminal event, and an error was read                failed      reported
    a permission was denied                                 failed      permission_denied
    the change could not be measured                        unknown     workspace
    nothing changed                                         no_change   none
    something changed                                       succeeded   none
    ======================================================  ==========  ====================

    A process that lingers after a terminal event that is ok counts as exited well, whether it
    was asked to leave (``finished``) or ran into a limit. An exit code after such an event
    contradicts it: both are recorded, the work is harvested and the attempt made again. An
    error read on the way (a retried 429) counts only where no terminal event says ok.
    """
    return (
        _ended_on_request(facts)
        or _reported_failure(facts)
        or _lost(facts)
        or _stopped_by_a_limit(facts)
        or _ended_badly(facts)
        or _unfinished(facts)
        or _by_the_change(facts)
    )


def _said_ok(facts: Facts) -> bool:
    return facts.report.terminal is not None and facts.report.terminal.ok


def _failed(facts: Facts, error_class: ErrorClass | None, message: str) -> Verdict:
    said = facts.report.terminal.message if facts.report.terminal else ""
    said = said or facts.report.message
    words = " ".join(f"{message}: {said}".split()) if said else message
    resets_at = facts.report.resets_at if error_class and error_class.of_surroundings else None
    return Verdict(AttemptOutcome.FAILED, error_class, words[:MESSAGE_CHARACTERS], resets_at)


def _unknown(message: str, error_class: ErrorClass | None = None) -> Verdict:
    return Verdict(AttemptOutcome.UNKNOWN, error_class, message)


def _ended_on_request(facts: Facts) -> Verdict | None:
    if facts.exit is None or facts.exit.cause is not ExitCause.ENDED:
        return None
    if facts.exit.requested_by == FINISHED:
        return None
    if facts.exit.requested_by == KEEPER:
        return _failed(facts, ErrorClass.LIMIT, facts.exit.message or "it wrote too much output")
    by = facts.exit.requested_by or "somebody"
    message = f"the attempt was ended on request of {by}"
    return Verdict(AttemptOutcome.FAILED, None, message)


def _reported_failure(facts: Facts) -> Verdict | None:
    terminal = facts.report.terminal
    if terminal is None or terminal.ok:
        return None
    by_itself = facts.exit is not None and facts.exit.cause is ExitCause.EXITED
    fallback = ErrorClass.EXIT if by_itself and _how(facts.exit) else ErrorClass.NO_RESULT
    error_class = terminal.error_class or facts.report.error_class or fallback
    return _failed(facts, error_class, "the agent reported an error")


def _lost(facts: Facts) -> Verdict | None:
    if facts.exit is None:
        return _unknown("the keeper died and left no record of how the process ended")
    if facts.exit.cause is ExitCause.ORPHANED:
        return _unknown("the keeper heard from no runner for too long and ended the process")
    return None


def _stopped_by_a_limit(facts: Facts) -> Verdict | None:
    record = facts.exit
    if record is None or _said_ok(facts):
        return None
    seconds = f"{record.duration_ms / 1000:,.0f} seconds"
    match record.cause:
        case ExitCause.SPAWN_FAILED:
            missing = ErrorClass.AGENT_MISSING if facts.terminal_expected else ErrorClass.EXIT
            told = f" ({record.message})" if record.message else ""
            message = f"the process could not be started{told}"
            return _failed(facts, _outside(facts) or missing, message)
        case ExitCause.TIMEOUT:
            own = ErrorClass.TIMEOUT
            return _failed(facts, _outside(facts) or own, f"its time was over after {seconds}")
        case ExitCause.QUIET:
            own = ErrorClass.HANG
            message = f"it was silent for too long and was ended after {seconds}"
            return _failed(facts, _outside(facts) or own, message)
        case _:
            return None


def _outside(facts: Facts) -> ErrorClass | None:
    """The trouble of the surroundings that was read, if any: an agent retries it in silence."""
    found = facts.report.error_class
    return found if found is not None and found.of_surroundings else None


def _how(record: ExitRecord | None) -> str:
    """How a process ended badly by itself; empty when it ended well."""
    if record is None or record.cause is not ExitCause.EXITED:
        return ""
    if record.exit_code is None:
        return f"ended by signal {record.signal}"
    return f"exited with code {record.exit_code}" if record.exit_code else ""


def _ended_badly(facts: Facts) -> Verdict | None:
    how = _how(facts.exit)
    if not how:
        return None
    if _said_ok(facts):
        return _unknown(f"the agent said that it was done, but its process {how}")
    by_signal = facts.exit is not None and facts.exit.exit_code is None
    own = ErrorClass.CRASH if by_signal else ErrorClass.EXIT
    return _failed(facts, facts.report.error_class or own, f"the process {how}")


def _unfinished(facts: Facts) -> Verdict | None:
    report = facts.report
    if report.terminal is None and facts.terminal_expected:
        message = "the process ended without saying that it was done"
        return _failed(facts, report.error_class or ErrorClass.NO_RESULT, message)
    if report.terminal is None and report.error_class is not None:
        return _failed(facts, report.error_class, "an error was read from the output")
    if report.denials:
        count = "1 permission was" if report.denials == 1 else f"{report.denials} permissions were"
        message = f"{count} denied to the agent"
        return Verdict(AttemptOutcome.FAILED, ErrorClass.PERMISSION_DENIED, message)
    return None


def _by_the_change(facts: Facts) -> Verdict:
    if facts.empty is None:
        return _unknown("what it changed could not be measured", ErrorClass.WORKSPACE)
    if facts.empty:
        return Verdict(AttemptOutcome.NO_CHANGE, None, "it ended well and changed nothing")
    return Verdict(AttemptOutcome.SUCCEEDED, None, "it ended well and changed the repository")
