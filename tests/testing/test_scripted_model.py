import http.client
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from counterfoil.testing.model_script import (
    Call,
    Cut,
    Hang,
    Say,
    Tokens,
    bad_key,
    broken,
    rate_limited,
)
from counterfoil.testing.scripted_model import ScriptedModel, main

PATIENCE = 20.0


def ask(base_url, words="hello", path="/v1/messages?beta=true", timeout=PATIENCE, **body):
    """Send one request; returns status, headers and the body's text."""
    address = urlsplit(base_url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=timeout)
    try:
        sent = {"model": "m", "messages": [{"role": "user", "content": words}], **body}
        connection.request("POST", path, json.dumps(sent), {"X-Api-Key": "k"})
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()
    finally:
        connection.close()


def wait_until_asked(model):
    deadline = time.monotonic() + PATIENCE
    while not model.asked:
        assert time.monotonic() < deadline, "no request came"
        threading.Event().wait(0.01)


def said(answer):
    return json.loads(answer[2])["content"][0]["text"]


def test_steps_are_taken_in_order_and_the_last_one_repeats():
    with ScriptedModel([broken(529), Say("one"), Say("two")]) as model:
        assert ask(model.base_url)[0] == 529
        assert [said(ask(model.base_url)) for _ in range(3)] == ["one", "two", "two"]


def test_a_whole_answer_carries_the_scripted_usage():
    with ScriptedModel([Say("ok", Tokens(100, 7, 20, 3))]) as model:
        answer = json.loads(ask(model.base_url)[2])
    assert answer["usage"] == {
        "input_tokens": 100,
        "output_tokens": 7,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 3,
    }
    assert answer["model"] == "m"


def test_a_stream_is_a_well_formed_sequence_of_events():
    with ScriptedModel([Call("Bash", {"command": "date"})]) as model:
        status, headers, text = ask(model.base_url, stream=True)
    assert status == 200
    assert headers["Content-Type"] == "text/event-stream"
    events = [block.split("\n") for block in text.strip().split("\n\n")]
    for name, data in events:
        assert name == f"event: {json.loads(data.removeprefix('data: '))['type']}"
    assert events[0][0] == "event: message_start"
    assert events[-1][0] == "event: message_stop"


def test_an_error_carries_the_apis_body_and_headers():
    with ScriptedModel(
        [rate_limited(resets_at=1796076304, retry_after_seconds=3), bad_key()]
    ) as model:
        status, headers, text = ask(model.base_url)
        assert (status, headers["retry-after"]) == (429, "3")
        assert headers["anthropic-ratelimit-unified-status"] == "rejected"
        assert json.loads(text)["error"]["type"] == "rate_limit_error"
        assert ask(model.base_url)[0] == 401


def test_a_cut_answer_breaks_off_in_the_middle():
    with ScriptedModel([Cut("half a")]) as model, pytest.raises(http.client.IncompleteRead) as cut:
        ask(model.base_url, stream=True)
    assert b"half a" in cut.value.partial
    assert b"message_stop" not in cut.value.partial


def test_a_hanging_model_is_let_go_when_it_closes():
    with ScriptedModel([Hang()]) as model, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, model.base_url)
        wait_until_asked(model)
        assert not answer.done()
        model.close()
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            answer.result(PATIENCE)


def test_a_slow_answer_pauses_between_words_and_does_not_outlive_the_model():
    with ScriptedModel([Say("a b c", pause_seconds=3600)]) as model, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, model.base_url, stream=True)
        wait_until_asked(model)
        assert not answer.done()
        model.close()
        assert "message_stop" in answer.result(PATIENCE)[2]


def test_conversations_are_served_apart_by_their_words():
    script = {"task one": [Say("1a"), Say("1b")], "task two": [Say("2a"), Say("2b")]}
    with ScriptedModel(script) as model:
        order = ["do task one", "do task two", "do task two", "do task one"]
        assert [said(ask(model.base_url, words)) for words in order] == ["1a", "2a", "2b", "1b"]
        status, _, text = ask(model.base_url, "task three")
    assert status == 400
    assert "No script matches" in text


def test_words_of_the_assistant_choose_no_script():
    messages = [{"role": "assistant", "content": "one"}, {"role": "user", "content": "two"}]
    with ScriptedModel({"one": [Say("wrong")], "two": [Say("right")]}) as model:
        assert said(ask(model.base_url, messages=messages)) == "right"


def test_requests_are_recorded_with_their_headers_tools_and_words():
    with ScriptedModel([Say("ok")]) as model:
        ask(model.base_url, "größe", tools=[{"name": "Bash"}, {"name": "Edit"}])
        (request,) = model.requests
    assert request.method == "POST"
    assert request.path == "/v1/messages?beta=true"
    assert request.headers["x-api-key"] == "k"
    assert request.tools == ("Bash", "Edit")
    assert "größe" in request.words


def test_counting_tokens_takes_no_step():
    with ScriptedModel([Say("first"), Say("second")]) as model:
        counted = ask(model.base_url, path="/v1/messages/count_tokens")
        assert json.loads(counted[2])["input_tokens"] > 0
        assert said(ask(model.base_url)) == "first"
        assert len(model.requests) == 2
        assert len(model.asked) == 1


def test_every_answer_has_an_id_of_its_own():
    with ScriptedModel([Say("ok")]) as model, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(model.base_url), range(40)))
    assert len({json.loads(answer[2])["id"] for answer in answers}) == 40


def test_a_client_that_goes_away_disturbs_nobody(capsys):
    with ScriptedModel([Say("word " * 20_000)]) as model:
        address = urlsplit(model.base_url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
        connection.request("POST", "/v1/messages", json.dumps({"stream": True}))
        connection.getresponse().read(10)
        connection.close()
        assert ask(model.base_url)[0] == 200
    assert capsys.readouterr().err == ""


def test_as_a_program_it_prints_its_address_and_serves_a_script_file(tmp_path):
    script = tmp_path / "script.json"
    script.write_text('[{"say": "from a file"}]')
    command = [sys.executable, "-m", "counterfoil.testing.scripted_model", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            base_url = program.stdout.readline().strip()
            assert said(ask(base_url)) == "from a file"
        finally:
            program.terminate()


def test_an_unreadable_script_file_ends_the_program_with_a_sentence(tmp_path, capsys):
    script = tmp_path / "script.json"
    script.write_text("not json")
    assert main([str(script)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main([str(tmp_path / "none.json")]) == 2
