"""The codec: one text per value, the same value back, and a record whatever happens."""

import dataclasses
import datetime
import json
import math
import re
import sys
from collections import OrderedDict
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.core.codec import (
    Described,
    decode,
    digest,
    encode,
    encode_safely,
)
from counterfoil.core.errors import ValueRefused
from counterfoil.core.failures import describe_error
from counterfoil.core.limits import (
    ERROR_MESSAGE_CHARACTERS,
    MAX_VALUE_DEPTH,
    TRACEBACK_CHARACTERS,
)

quick = settings(database=None, deadline=None, max_examples=100)

any_text = st.text(st.characters(exclude_categories=()), max_size=12)
tag_like = st.sampled_from(["~", "~~", "~tuple", "~~map", "~bytes", "~text", "%", "$ref"])
offsets = st.integers(-1439, 1439).map(
    lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes))
)
hashables = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    any_text,
    tag_like,
    st.binary(max_size=12),
    st.decimals(),
    st.uuids(),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.datetimes(timezones=st.none() | offsets),
)
keys = hashables.filter(lambda key: not isinstance(key, Decimal) or not key.is_snan())
values = st.recursive(
    hashables,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(any_text | tag_like, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
    ),
    max_leaves=16,
)


def same(one: object, other: object) -> bool:
    """Equality that also minds types, signs of zero and what stands inside. All NaN are one."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, Decimal):
        return str(one) == str(other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return encode(sorted(map(encode, one))) == encode(sorted(map(encode, other))) and all(
            any(same(key, there) and same(item, other[there]) for there in other)
            for key, item in one.items()
        )
    if isinstance(one, set | frozenset):
        return sorted(map(encode, one)) == sorted(map(encode, other))
    return one == other


@quick
@given(values)
def test_every_value_comes_back_with_its_types(value):
    text = encode(value)
    assert same(decode(text), value)
    assert encode(decode(text)) == text


@quick
@given(values)
def test_text_is_ascii_json_without_nul_or_surrogates(value):
    text = encode(value)
    assert text.isascii()
    assert "\0" not in text

    def check(part):
        if isinstance(part, str):
            assert not re.search("[\0\ud800-\udfff]", part)
        elif isinstance(part, list):
            for item in part:
                check(item)
        elif isinstance(part, dict):
            for key, item in part.items():
                check(key)
                check(item)
        elif isinstance(part, int) and not isinstance(part, bool):
            assert abs(part) < 2**53
        elif isinstance(part, float):
            assert math.isfinite(part)

    check(json.loads(text))


@quick
@given(values)
def test_encoding_safely_changes_nothing_for_values_that_have_a_form(value):
    assert encode_safely(value) == encode(value)


@quick
@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=5))
def test_order_of_keys_does_not_change_the_digest(value):
    assert digest(dict(reversed(value.items()))) == digest(value)


def test_types_are_part_of_the_digest():
    alike = [1, 1.0, True, "1", [1], (1,), {1}, {"1": 1}, {1: 1}, b"1", Decimal(1), 0.0, -0.0]
    assert len({digest(value) for value in alike}) == len(alike)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, 1.5]}, '{"a":[true,null,1.5],"b":1}'),
        (float("nan"), '{"~float":"nan"}'),
        (-0.0, '{"~float":"-0.0"}'),
        (2**53 - 1, "9007199254740991"),
        (2**53, '{"~int":"9007199254740992"}'),
        (-(2**53), '{"~int":"-9007199254740992"}'),
        ("é😀", '"\\u00e9\\ud83d\\ude00"'),
        ("a\0%", '{"~text":"a%0000%0025"}'),
        ("\ud83d\ude00", '{"~text":"%d83d%de00"}'),
        ("\\u0000", '"\\\\u0000"'),
        (b"\xff", '{"~bytes":"/w=="}'),
        ((1, "a"), '{"~tuple":[1,"a"]}'),
        ({1: "a", "1": "b"}, '{"~map":[["1","b"],[1,"a"]]}'),
        ({"~tuple": 1}, '{"~~tuple":1}'),
        ({"~tuple": 1, "b": 2}, '{"b":2,"~tuple":1}'),
        ({"$ref": "#/a"}, '{"$ref":"#/a"}'),
        (UUID(int=1), '{"~uuid":"00000000-0000-0000-0000-000000000001"}'),
        (Path("a/b"), '{"~path":"a/b"}'),
        ({3, 1}, '{"~set":[1,3]}'),
    ],
)
def test_canonical_forms_stay_as_they_are(value, text):
    assert encode(value) == text
    assert same(decode(text), value)


def test_huge_integers_come_back():
    for number in (10**5_000, -(10**5_000), 2**4_096, 2**4_095):
        assert decode(encode(number)) == number


def test_a_path_with_undecodable_bytes_comes_back():
    path = Path("caf\udce9")
    assert decode(encode(path)) == path


class Phase(StrEnum):
    REVIEW = "review"


class Level(IntEnum):
    HIGH = 3


class Colour(Enum):
    RED = ("r", 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: int
    where: Phase


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "recorded"),
    [
        (Phase.REVIEW, "review"),
        (Level.HIGH, 3),
        (Colour.RED, ("r", 1)),
        (Point(1, Phase.REVIEW), {"x": 1, "where": "review"}),
        ({Phase.REVIEW: 1}, {"review": 1}),
        (Name("n"), "n"),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": (1,)}), {"a": (1,)}),
        (bytearray(b"a"), b"a"),
    ],
)
def test_documented_conversions_are_one_way(value, recorded):
    assert encode(value) == encode(recorded)
    assert same(decode(encode(value)), recorded)


class Hostile:
    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __repr__


class HostileClass:
    @property
    def __class__(self):
        raise RuntimeError("hunter2")


class HostileError(Exception):
    def __str__(self):
        raise RuntimeError("no message")


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def holding_itself():
    value = {"items": []}
    value["items"] += [value, value]
    return value


def doubled(times):
    value = [1]
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Hostile(),
        {"a": Hostile()},
        complex(1, 2),
        lambda: None,
        ValueError("x"),
        {Point(1, Phase.REVIEW): 1},
        {Point(1, Phase.REVIEW)},
        {Phase.REVIEW: 1, Colour.RED: 1, ("r", 1): 2},
        nested(MAX_VALUE_DEPTH + 1),
        holding_itself(),
        (nested(MAX_VALUE_DEPTH),),
    ],
)
def test_values_without_a_form_are_refused_but_never_safely(value):
    with pytest.raises(ValueRefused):
        encode(value)
    text = encode_safely(value)
    assert "~described" in text
    assert encode(decode(text)) == text


def test_the_deepest_allowed_value_comes_back_on_both_paths():
    plain = nested(MAX_VALUE_DEPTH)
    assert decode(encode(plain)) == plain
    tagged = {"a": (1,), "b": nested(MAX_VALUE_DEPTH - 1)}
    assert decode(encode(tagged)) == tagged


def test_describing_keeps_all_that_could_be_recorded_and_shows_nothing_of_the_rest():
    class Secret:
        def __repr__(self):
            return "hunter2"

    text = encode_safely({"ok": (1, b"x"), "bad": [Secret(), 2], "worse": HostileClass()})
    value = decode(text)
    assert value["ok"] == (1, b"x")
    assert value["bad"][1] == 2
    assert isinstance(value["bad"][0], Described)
    assert value["bad"][0].type.endswith("Secret")
    assert isinstance(value["worse"], Described)
    assert "hunter2" not in text


def test_a_value_that_contains_itself_twice_is_described_at_once():
    text = encode_safely(holding_itself())
    assert text.count("contains itself") == 2


@pytest.mark.slow
def test_shared_parts_that_double_without_end_are_bounded():
    assert len(encode_safely(doubled(100))) < 10_000_000


def test_safe_encoding_survives_an_exhausted_stack():
    def dive(depth):
        if depth:
            return dive(depth - 1)
        return encode_safely({"a": nested(100), "b": (object(),)})

    limit = sys.getrecursionlimit()
    for depth in range(limit - 160, limit - 40, 7):
        try:
            text = dive(depth)
        except RecursionError:
            continue  # the test itself found no room for a frame
        assert json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        "[Infinity]",
        '{"~unknown":1}',
        '{"~bytes":"?"}',
        '{"~uuid":5}',
        '{"~path":5}',
        '{"~set":[[1]]}',
        '{"~int":[]}',
        '{"~decimal":"x"}',
        '{"~duration":5}',
        "[" * 100_000,
    ],
)
def test_text_that_was_not_encoded_here_is_refused(text):
    with pytest.raises(ValueRefused):
        decode(text)


def test_an_error_is_described_with_type_message_and_traceback():
    try:
        raise ValueError("NUL \0 inside") from KeyError("cause")
    except ValueError as error:
        described = describe_error(error)
    assert described["type"] == "ValueError"
    assert described["message"] == "NUL \0 inside"
    assert "KeyError" in described["traceback"]
    assert "test_codec.py" in described["traceback"]
    assert decode(encode(described)) == described


def test_an_error_with_a_hostile_message_is_described():
    described = describe_error(HostileError())
    assert described["type"].endswith("HostileError")
    assert "could not be read" in described["message"]
    assert "HostileError" in described["traceback"]


def test_a_megabyte_message_and_a_deep_traceback_are_bounded():
    def dive(depth):
        if depth:
            other(depth - 1)
        raise ValueError("x" * 3_000_000)

    def other(depth):
        dive(depth)

    with pytest.raises(ValueError) as caught:
        dive(400)
    described = describe_error(caught.value)
    assert described["truncated"] is True
    assert len(described["message"]) == ERROR_MESSAGE_CHARACTERS
    assert len(described["traceback"]) <= TRACEBACK_CHARACTERS
    assert described["traceback"].startswith("Traceback")


def test_errors_that_cause_each_other_are_described():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert describe_error(one)["message"] == "one"
