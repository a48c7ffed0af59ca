"""Cutting text says whether it cut."""

from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.core.limits import cut, cut_middle


def test_text_within_the_limit_is_the_same_object():
    text = "x" * 10
    assert cut(text, 10) == (text, False)
    assert cut(text, 10)[0] is text


def test_one_character_over_is_cut_and_flagged():
    assert cut("é" * 11, 10) == ("é" * 10, True)


def test_the_middle_is_left_out_with_a_note_of_how_much():
    text = "a" * 500 + "z" * 500
    short, lost = cut_middle(text, 200)
    assert lost
    assert len(short) <= 200
    assert short.startswith("aaa")
    assert short.endswith("zzz")
    left_out = 1_000 - short.count("a") - short.count("z")
    assert "characters left out" in short
    assert str(left_out + "characters left out".count("a")) in short


@settings(database=None, deadline=None)
@given(st.text(max_size=300), st.integers(0, 300))
def test_no_cut_is_ever_longer_than_its_limit(text, limit):
    for way in (cut, cut_middle):
        short, lost = way(text, limit)
        assert len(short) <= limit
        assert lost == (short != text)
