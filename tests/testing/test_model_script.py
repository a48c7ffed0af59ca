import json

import pytest

from counterfoil.core.errors import ValueRefused
from counterfoil.testing.model_script import (
    Call,
    Cut,
    Hang,
    Refuse,
    Say,
    Tokens,
    events,
    message,
    rate_limited,
    script_from_json,
)


def test_every_step_can_be_written_as_json():
    text = json.dumps(
        [
            {"call": "Bash", "arguments": {"command": "date"}},
            {"say": "Done.", "tokens": {"input": 7, "cache_read": 2}, "pause_seconds": 0.5},
            {"refuse": 529},
            {"refuse": 429, "kind": "rate_limit_error", "headers": {"retry-after": "3"}},
            {"cut": "I was"},
            {"hang": True},
        ]
    )
    assert script_from_json(text) == [
        Call("Bash", {"command": "date"}),
        Say("Done.", Tokens(input=7, cache_read=2), pause_seconds=0.5),
        Refuse(529, "api_error", "scripted"),
        Refuse(429, "rate_limit_error", "scripted", {"retry-after": "3"}),
        Cut("I was"),
        Hang(),
    ]


def test_a_script_can_differ_by_the_words_of_the_prompt():
    script = script_from_json('{"task one": [{"say": "1"}], "": [{"say": "other"}]}')
    assert script == {"task one": [Say("1")], "": [Say("other")]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[1]",
        '[{"shout": "x"}]',
        '[{"say": "x", "loud": true}]',
        '[{"call": "Bash"}]',
        '[{"say": "x", "tokens": {"many": 1}}]',
    ],
)
def test_a_script_that_cannot_be_read_is_refused_with_an_example(text):
    with pytest.raises(ValueRefused) as refused:
        script_from_json(text)
    assert '{"say": "text"}' in refused.value.hint or "step" in refused.value.message


def test_a_streamed_answer_adds_up_to_the_whole_one():
    step = Call("Write", {"file_path": "a", "content": "b"}, Tokens(9, 8, 7, 6))
    whole = message(step, "m", "1")
    streamed = list(events(step, "m", "1"))
    started = streamed[0]["message"]
    assert {key: started[key] for key in ("id", "role", "model")} == {
        key: whole[key] for key in ("id", "role", "model")
    }
    assert started["usage"]["output_tokens"] == 1
    deltas = [e["delta"] for e in streamed if e["type"] == "content_block_delta"]
    assert json.loads("".join(d["partial_json"] for d in deltas)) == whole["content"][0]["input"]
    assert streamed[-2]["usage"] == whole["usage"]
    assert streamed[-2]["delta"]["stop_reason"] == whole["stop_reason"] == "tool_use"


def test_text_arrives_word_by_word_and_unchanged():
    deltas = [
        e["delta"]["text"]
        for e in events(Say("one  two"), "m", "1")
        if "text" in str(e.get("delta"))
    ]
    assert len(deltas) > 1
    assert "".join(deltas) == "one  two"


def test_a_used_up_window_names_its_reset_in_the_headers():
    headers = rate_limited(resets_at=1796076304, retry_after_seconds=9).headers
    assert headers["anthropic-ratelimit-unified-reset"] == "1796076304"
    assert headers["retry-after"] == "9"
    assert rate_limited().headers == {}
