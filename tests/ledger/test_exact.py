"""Values as recorded: inline or stored, exact after redaction, and never a reason to fail."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from counterfoil.core import codec
from counterfoil.core.redaction import Redactor
from counterfoil.ledger.exact import prepare


def text_of(size: int) -> str:
    """A text whose canonical form has this many bytes."""
    return "x" * (size - 2)


@pytest.mark.parametrize(("size", "inline"), [(8_191, True), (8_192, True), (8_193, False)])
def test_a_value_is_inline_up_to_8192_bytes(size: int, inline: bool) -> None:
    value = text_of(size)
    prepared = prepare(value, Redactor())
    assert prepared.size == size
    assert (prepared.inline is not None, prepared.overflow is not None) == (inline, not inline)
    kept = prepared.inline or (prepared.overflow or b"").decode("ascii")
    assert codec.decode(kept) == value
    assert prepared.sha256 == hashlib.sha256(kept.encode()).hexdigest()


def test_the_limit_counts_bytes_of_the_recorded_text_and_not_characters() -> None:
    assert prepare("ä" * 1_000, Redactor()).inline is not None
    assert prepare("ä" * 1_500, Redactor()).inline is None


def test_a_summary_is_cut_at_8192_characters_and_says_so() -> None:
    whole, cut = prepare(text_of(8_192), Redactor()), prepare(text_of(8_193), Redactor())
    assert (len(whole.summary), whole.cut) == (8_192, False)
    assert (len(cut.summary), cut.cut) == (8_192, True)


def test_what_was_redacted_is_named_by_its_path() -> None:
    prepared = prepare({"user": "u", "deep": [{"password": "p"}]}, Redactor())
    assert prepared.redacted == ("/deep/0/password",)
    assert prepared.redacted_paths == '["/deep/0/password"]'
    assert codec.decode(prepared.inline or "") == {
        "user": "u",
        "deep": [{"password": "[REDACTED]"}],
    }


def test_what_is_hashed_is_what_is_recorded_after_redaction() -> None:
    one = prepare({"password": "one"}, Redactor())
    other = prepare({"password": "other"}, Redactor())
    assert one == other


class Hostile:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not look at me")

    def __repr__(self) -> str:
        raise RuntimeError("nor print me")


@pytest.mark.parametrize(
    "make",
    [object, Hostile, lambda: {"a": {1, (2, 3)}, "b": Hostile()}, lambda: [float("nan")]],
    ids=["object", "hostile", "inside", "nan"],
)
def test_preparing_never_raises(make: Callable[[], Any]) -> None:
    prepared = prepare(make(), Redactor())
    assert prepared.inline
    codec.decode(prepared.inline)


def test_what_cannot_be_searched_for_secrets_is_withheld() -> None:
    value: list[Any] = ["a secret of mine"]
    value.append(value)
    prepared = prepare(value, Redactor())
    assert codec.decode(prepared.inline or "")["withheld"] is True
    assert prepared.redacted == ("",)


def test_a_redactor_that_fails_keeps_nothing_but_size_hash_and_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from counterfoil.core import redaction

    def fail(*_: Any) -> bool:
        raise RuntimeError("broken")

    monkeypatch.setattr(redaction, "_looks_clean", fail)
    prepared = prepare({"a": "a secret of mine"}, Redactor())
    assert "a secret of mine" not in (prepared.inline or "")
    assert prepared.redacted == ("",)
