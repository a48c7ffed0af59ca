"""Values as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.cli import words
from counterfoil.ledger.states import TaskStatus


@given(st.text())
def test_harmless_text_is_one_line_that_no_terminal_obeys(text: str) -> None:
    said = words.harmless(text)
    assert said.isprintable() or all(char.isprintable() or ord(char) > 0x9F for char in said)
    assert not set(said) & set("\x1b\r\n\t\x9b\u202e\u2028")
    said.encode("utf-8")


def test_control_characters_are_spelled_out_and_not_dropped() -> None:
    assert words.harmless("a\x1b[31mb\x07") == "a\\x1b[31mb\\x07"
    assert words.harmless("left\u202eright \udc80") == "left\\u202eright \\udc80"


def test_harmless_lines_keep_their_ends_and_tabs() -> None:
    assert words.harmless_lines("a\tb\r\nc\x1b[2J\n") == "a\tb\nc\\x1b[2J\n"


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (None, "-"),
        (0, "0.0 s"),
        (420, "0.4 s"),
        (9_949, "9.9 s"),
        (9_999, "10 s"),
        (59_400, "59 s"),
        (59_999, "1 min 00 s"),
        (185_000, "3 min 05 s"),
        (7_449_000, "2 h 04 min"),
    ],
)
def test_durations_are_said_as_people_say_them(milliseconds: int | None, said: str) -> None:
    assert words.duration(milliseconds) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0"), (999, "999"), (12_345, "12.3k"), (999_999, "1.0M")]
)
def test_large_numbers_are_short(number: int, said: str) -> None:
    assert words.short_number(number) == said


def test_every_state_of_a_task_has_a_mark_also_in_ascii() -> None:
    assert set(words.TASK_MARKS) == set(TaskStatus)
    for mark in words.TASK_MARKS.values():
        assert mark.ascii.isascii()
        assert len(mark.sign) == len(mark.ascii) == 1


def test_counted_nouns_agree_with_their_number() -> None:
    assert words.count(1, "task") == "1 task"
    assert words.count(1_200, "entry", "entries") == "1,200 entries"
