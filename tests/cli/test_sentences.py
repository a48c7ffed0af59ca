"""Journal entries as sentences and as objects."""

import json
from dataclasses import replace
from typing import Any

import pytest

from counterfoil.cli import sentences
from counterfoil.ledger.events import KINDS, EventKind

ANY = {str: "word", int: 1500, list: ["x", "y"], bool: True, dict: {}}


def some_payload(kind: EventKind, *, optional: bool) -> dict[str, Any]:
    return {
        name: ANY[field.types[0]]
        for name, field in kind.fields.items()
        if field.required or optional
    }


def test_every_kind_has_a_teller_and_no_teller_is_left_over() -> None:
    assert set(sentences.TELLERS) == set(KINDS)


@pytest.mark.parametrize("optional", [True, False])
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_kind_is_told_as_a_sentence(kind: EventKind, optional: bool, rows: Any) -> None:
    payload = some_payload(kind, optional=optional)
    kind.check(payload)
    said = sentences.sentence(rows.entry(1, kind.name, **payload))
    assert said
    assert "{" not in said, "it fell back to the raw payload"


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_what_is_unknown_is_told_too(kind: EventKind, rows: Any) -> None:
    payload = some_payload(kind, optional=True)
    nulls = {name: None for name, field in kind.fields.items() if type(None) in field.types}
    said = sentences.sentence(rows.entry(1, kind.name, **(payload | nulls)))
    assert "None" not in said
    assert "{" not in said


def test_a_sentence_names_its_task(rows: Any) -> None:
    entry = rows.entry(1, "task.status", "parse", **{"task": "parse", "from": "ready"}, to="merged")
    assert sentences.sentence(entry) == "parse: merged"


def test_a_withheld_entry_says_so(rows: Any) -> None:
    entry = replace(rows.entry(1, "task.diff", "a"), payload=None)
    assert sentences.sentence(entry) == "a: task.diff (its content was withheld)"
    assert sentences.as_object(entry)["payload"] is None
    assert sentences.noteworthy(entry) is False


def test_a_kind_of_a_later_version_is_shown_as_it_is(rows: Any) -> None:
    entry = rows.entry(1, "task.sang", "a", song="la")
    assert sentences.sentence(entry) == 'a: task.sang {"song": "la"}'
    assert sentences.noteworthy(entry)


def test_an_entry_without_a_field_is_shown_as_it_is(rows: Any) -> None:
    assert sentences.sentence(rows.entry(1, "task.diff")) == "task.diff {}"


def test_hostile_text_stays_on_its_line(rows: Any, kit: Any) -> None:
    entry = rows.entry(1, "task.added", "a", task="a", title=kit.hostile, dependsOn=[])
    said = sentences.line(entry)
    assert "[red]boo[/red] \\x1b[31m\\x07\\u202e :smile: ✓" in said
    assert "\x1b" not in said
    assert "\n" not in said


def test_a_failed_gate_is_told_with_its_last_words(rows: Any) -> None:
    entry = rows.entry(
        1, "gate0.fail", "a", task="a", gate="suite", failClass="test", message="...\nFAILED 1\n\n"
    )
    assert sentences.sentence(entry) == "a: gate suite failed (test): FAILED 1"


def test_an_object_carries_what_there_is(rows: Any) -> None:
    entry = rows.entry(3, "run.status", **{"from": "queued"}, to="running")
    assert sentences.as_object(entry) == {
        "seq": 3,
        "kind": "run.status",
        "at": entry.at,
        "payload": {"from": "queued", "to": "running"},
    }
    of_task = replace(entry, task_id="a", attempt_id="at_1")
    assert sentences.as_object(of_task)["taskId"] == "a"
    assert sentences.as_object(of_task)["attemptId"] == "at_1"


def test_moves_that_nobody_waits_for_are_not_noteworthy(rows: Any) -> None:
    def moved(to: str) -> bool:
        return sentences.noteworthy(rows.entry(1, "task.status", "a", task="a", to=to))

    assert [moved(to) for to in ("ready", "running", "merged", "blocked")] == [
        False,
        False,
        True,
        True,
    ]


def test_payloads_come_back_as_values(rows: Any) -> None:
    entry = replace(rows.entry(1, "x"), payload=json.dumps({"a": {"~text": "nul%0000"}}))
    assert sentences.payload_of(entry) == {"a": "nul\x00"}
