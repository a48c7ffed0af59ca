from decimal import Decimal

import pytest

from counterfoil.agents.events import (
    event_of,
    money_in,
    number_in,
    object_in,
    objects_in,
    tail_of,
    text_in,
)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"plain words",
        b'{"type":"result","subty',
        b"\x00\x00",
        b"\x1b[2J{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"n":' + b"9" * 5_000 + b"}",
    ],
)
def test_a_line_that_is_no_object_is_none(line):
    assert event_of(line) is None


def test_a_byte_order_mark_a_carriage_return_and_broken_bytes_are_no_obstacle():
    assert event_of(b'\xef\xbb\xbf{"a":"b\xff"}\r') == {"a": "b\ufffd"}


def test_values_of_an_unexpected_type_read_as_absent():
    event = {"t": 1, "n": "1", "b": True, "neg": -1, "o": [], "l": {}, "mixed": [1, {"a": 1}]}
    assert text_in(event, "t") is None
    assert number_in(event, "n") is None
    assert number_in(event, "b") is None
    assert number_in(event, "neg") is None
    assert object_in(event, "o") == {}
    assert objects_in(event, "l") == []
    assert objects_in(event, "mixed") == [{"a": 1}]
    assert text_in({"s": "a\ud800"}, "s") == "a?"


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        (b"0.00061725", Decimal("0.00061725")),
        (b"1e-7", Decimal("1e-7")),
        (b"3", Decimal(3)),
        (b"0", Decimal(0)),
        (b"-1.5", None),
        (b"true", None),
        (b"NaN", None),
        (b"1e999999999", None),
        (b'"1"', None),
    ],
)
def test_money_is_exactly_what_was_written(written, amount):
    event = event_of(b'{"cost":' + written + b"}")
    assert event is not None
    assert money_in(event, "cost") == amount


def test_a_cut_text_shows_that_it_was_cut():
    assert tail_of("  short\n", 10) == "short"
    assert tail_of("0123456789", 5) == "…6789"
