"""What is added up from the journal."""

from counterfoil.cli.tally import Tally, Usage


def test_unknown_usage_is_never_zero() -> None:
    usage = Usage()
    usage.add({"inputTokens": None, "outputTokens": None})
    assert not usage.known
    assert str(usage) == "-"


def test_deltas_of_one_attempt_are_added_and_caches_count_as_input() -> None:
    tally = Tally()
    for _ in range(2):
        tally.add(
            "task.usage",
            {
                "task": "a",
                "attemptId": "at_1",
                "inputTokens": 100,
                "outputTokens": 20,
                "cacheReadTokens": 1000,
                "cacheWriteTokens": None,
            },
        )
    assert tally.task("a") == Usage(2200, 40)
    assert tally.attempt("at_1") == tally.all
    assert str(tally.all) == "2.2k in, 40 out"
    assert not tally.task("b").known


def test_half_known_usage_says_which_half() -> None:
    assert str(Usage(None, 5)) == "? in, 5 out"


def test_the_words_of_a_failed_gate_are_kept_by_attempt_gate_and_tree() -> None:
    tally = Tally()
    tally.add("gate0.fail", {"attemptId": "at_1", "gate": "g", "tree": "t", "message": "no"})
    assert tally.gate_words == {("at_1", "g", "t"): "no"}


def test_other_entries_are_passed_over() -> None:
    tally = Tally()
    tally.add("run.created", {})
    assert not tally.all.known
