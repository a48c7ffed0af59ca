"""Streams as the program writes them, put together by hand: one for each way it can end."""

import json
import random
from decimal import Decimal
from typing import Any

import pytest

from counterfoil.agents.claude_stream import ClaudeReader
from counterfoil.ports.agent import ErrorClass, Report, Terminal, Usage

SESSION = "0198f2aa-0000-7000-8000-000000000001"


def init(**changes: Any) -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "init",
        "session_id": SESSION,
        "model": "m",
        "claude_code_version": "2.1.332",
        **changes,
    }


def answer(text: str = "hi", **changes: Any) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 40, "output_tokens": 1},
    }
    return {
        "type": "assistant",
        "message": message,
        "parent_tool_use_id": None,
        "session_id": SESSION,
        **changes,
    }


def api_error(kind: str, text: str, stop_reason: str = "stop_sequence", **more: Any) -> dict:
    message = {
        "model": "<synthetic>",
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop_reason,
    }
    return answer(message=message, error=kind, is_api_error_message=True, **more)


def result(**changes: Any) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "done",
        "session_id": SESSION,
        "terminal_reason": "completed",
        "api_error_status": None,
        "errors": None,
        "usage": {"input_tokens": 80, "output_tokens": 10},
        "modelUsage": {},
        "model_usage_since_last_result": {"m": counts(80, 10, "0.001")},
        "permission_denials": [],
        **changes,
    }


def counts(tokens_in: int, tokens_out: int, cost: str, **changes: Any) -> dict[str, Any]:
    return {
        "inputTokens": tokens_in,
        "outputTokens": tokens_out,
        "cacheReadInputTokens": 20,
        "cacheCreationInputTokens": 3,
        "costUSD": Decimal(cost),
        "costBasis": "list",
        **changes,
    }


def failed(text: str, status: int | None = None, **changes: Any) -> dict[str, Any]:
    """The result after an API error: its subtype still says success."""
    values = {"is_error": True, "result": text, "api_error_status": status}
    return result(**(values | {"terminal_reason": "api_error"} | changes))


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, default=float).encode()


def read(*events: dict[str, Any] | bytes, stderr: bytes = b"") -> Report:
    reader = ClaudeReader()
    for event in events:
        reader.feed(event if isinstance(event, bytes) else line(event))
    return reader.report(stderr)


def test_a_finished_run_tells_session_model_version_and_answer():
    report = read(init(), answer(), result())
    assert report == Report(
        session=SESSION,
        model="m",
        version="2.1.332",
        terminal=Terminal(ok=True, message="done"),
        usage=(Usage("m", 80, 10, 20, 3, "0.001", "USD", "reported"),),
        message="done",
    )


def test_the_order_of_keys_does_not_matter():
    events = [init(), answer(), result()]
    shuffled = []
    for event in events:
        keys = list(event)
        random.Random(7).shuffle(keys)
        shuffled.append({key: event[key] for key in keys})
    assert read(*shuffled) == read(*events)


def test_the_work_is_over_with_the_result_even_if_the_process_lingers():
    reader = ClaudeReader()
    reader.feed(line(init()))
    reader.feed(line(answer()))
    assert not reader.finished
    reader.feed(line(result()))
    assert reader.finished


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # A used-up API limit, an empty account, a wrong key: is_error, but subtype success.
        (
            [api_error("rate_limit", "API Error: Request rejected (429)"), failed("…", 429)],
            "rate_limit",
        ),
        ([api_error("billing_error", "Credit balance is too low"), failed("…", 400)], "billing"),
        ([api_error("authentication_failed", "Invalid API key"), failed("…", 401)], "auth"),
        ([api_error("authentication_failed", "Not logged in"), failed("…")], "auth"),
        ([api_error("oauth_org_not_allowed", "No"), failed("…", 403)], "auth"),
        ([api_error("server_error", "API Error: 500"), failed("…", 500)], "provider"),
        ([api_error("server_error", "API Error: 529 Overloaded"), failed("…", 529)], "provider"),
        ([api_error("overloaded", "Overloaded"), failed("…")], "provider"),
        ([api_error("model_not_found", "No such model"), failed("…", 404)], "provider"),
        # A stream that was cut or never began.
        (
            [api_error("server_error", "lost", api_error="connection_failed"), failed("lost")],
            "network",
        ),
        ([api_error("server_error", "API Error (ECONNRESET)"), failed("…")], "network"),
        ([api_error("unknown", "API Error: Request timed out."), failed("…")], "network"),
        # Limits that the plan's author set, and the model's own.
        ([result(subtype="error_max_turns", is_error=True, result=None)], "limit"),
        ([result(subtype="error_max_budget_usd", is_error=True, result=None)], "limit"),
        ([result(subtype="error_max_structured_output_retries", is_error=True)], "limit"),
        ([api_error("max_output_tokens", "API Error: exceeded"), failed("…")], "limit"),
        (
            [
                api_error("invalid_request", "Prompt is too long"),
                failed("…", 400, terminal_reason="prompt_too_long"),
            ],
            "context_overflow",
        ),
        ([api_error("invalid_request", "Request too large"), failed("…", 413)], "context_overflow"),
        ([api_error("invalid_request", "can't", stop_reason="refusal"), failed("…")], "refused"),
        ([result(stop_reason="refusal")], "refused"),
        ([api_error("unknown", "ENOSPC: no space left on device"), failed("…")], "disk"),
        # An interrupted run, and an error of no known kind.
        (
            [result(subtype="error_during_execution", is_error=True, errors=["aborted"])],
            "exit",
        ),
        ([api_error("unknown", "API Error: 400 bad"), failed("…", 400)], "exit"),
        ([failed("Something new")], "exit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_is_told_by_its_class(events, expected):
    report = read(init(), answer(), *events)
    assert report.terminal is not None
    assert not report.terminal.ok
    assert report.terminal.error_class == expected
    assert report.error_class == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Credit balance is too low", "billing"),
        ("Invalid API key · Please run /login", "auth"),
        ('API Error: 401 {"type":"error"}', "auth"),
        ("API Error: 529 Overloaded", "provider"),
        ("Claude AI usage limit reached|1796076304", "rate_limit"),
        ("API Error: Connection error.", "network"),
        ("Prompt is too long", "context_overflow"),
    ],
)
def test_older_versions_tell_the_class_only_by_their_words(text, expected):
    report = read(init(), result(is_error=True, result=text))
    assert report.error_class == expected


def test_an_errors_text_passed_off_as_the_answer_is_no_success():
    report = read(
        init(),
        api_error("rate_limit", "You've hit your 5-hour limit"),
        result(result="You've hit your 5-hour limit"),
    )
    assert report.terminal == Terminal(False, ErrorClass.RATE_LIMIT, "You've hit your 5-hour limit")


def test_a_made_up_message_with_an_errors_words_is_an_error_without_any_flag():
    message = {
        "model": "<synthetic>",
        "content": [{"type": "text", "text": "API Error: Overloaded"}],
    }
    assert read(init(), answer(message=message), result()).error_class is ErrorClass.PROVIDER


def test_an_agent_that_writes_about_errors_has_not_failed():
    said = "Fixed: rate limit, credit balance and ECONNRESET are handled; invalid api key too."
    report = read(init(), answer(said), result(result=said))
    assert report.terminal == Terminal(True, None, said)


def test_an_error_that_was_overcome_is_forgotten():
    report = read(init(), api_error("overloaded", "Overloaded"), answer("better now"), result())
    assert report.terminal is not None
    assert report.terminal.ok


def test_a_subagents_error_is_not_the_runs_error():
    error = api_error("rate_limit", "429", parent_tool_use_id="toolu_1")
    report = read(init(), answer(), error, result())
    assert report.terminal is not None
    assert report.terminal.ok


@pytest.mark.parametrize("missing", ["result", "is_error", "subtype"])
def test_an_envelope_that_lacks_its_payload_is_no_success(missing):
    event = result()
    del event[missing]
    report = read(init(), answer(), event)
    assert report.terminal is not None
    assert not report.terminal.ok
    expected = ErrorClass.NO_RESULT if missing == "result" else ErrorClass.EXIT
    assert report.error_class is expected


def test_an_empty_answer_is_an_answer():
    report = read(init(), answer(), result(result=""))
    assert report.terminal == Terminal(True)


def test_the_reset_time_of_a_used_up_window_comes_from_its_event():
    info = {"status": "rejected", "resetsAt": 1796076304, "rateLimitType": "five_hour"}
    limit = {"type": "rate_limit_event", "rate_limit_info": info}
    error = api_error("rate_limit", "You've hit your 5-hour limit · resets 10:05pm (UTC)")
    assert read(init(), limit, error, failed("…", 429)).resets_at == 1796076304
    assert read(init(), error, failed("…", 429)).resets_at is None


def test_the_reset_time_is_also_read_from_the_error_itself_and_from_older_wording():
    info = {"status": "rejected", "resetsAt": 1796076304}
    error = api_error("rate_limit", "limit", api_error_params={"rate_limit_info": info})
    assert read(init(), error, failed("limit", 429)).resets_at == 1796076304
    old = result(is_error=True, result="Claude AI usage limit reached|1796076304")
    assert read(init(), old).resets_at == 1796076304


def test_a_warning_about_the_limit_parks_nothing():
    warning = {"status": "allowed_warning", "resetsAt": 1796076304}
    rejected = {"status": "rejected", "resetsAt": 1796076304}
    events = [{"type": "rate_limit_event", "rate_limit_info": info} for info in (rejected, warning)]
    report = read(init(), *events, answer(), result())
    assert report.resets_at is None
    assert report.error_class is None
    refused = api_error("rate_limit", "API Error: Request rejected (429)")
    assert read(init(), *events, refused, failed("…", 429)).resets_at is None


def test_denied_permissions_are_counted_once_though_told_twice():
    denied = {"type": "system", "subtype": "permission_denied", "tool_use_id": "toolu_1"}
    told = [{"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {}}]
    report = read(init(), denied, result(permission_denials=told))
    assert report.denials == 1
    assert report.terminal is not None
    assert report.terminal.ok
    assert read(init(), denied).denials == 1
    assert read(init(), result(permission_denials=[{}, {}])).denials == 2


def test_a_failing_tool_is_the_agents_business():
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3", "is_error": True}
    tool = {"type": "user", "message": {"role": "user", "content": [block]}}
    report = read(init(), answer(), tool, answer(), result())
    assert report.terminal is not None
    assert report.terminal.ok


def test_a_resumed_session_reports_only_its_own_usage():
    report = read(
        init(),
        answer(),
        result(
            usage={"input_tokens": 30, "output_tokens": 3},
            total_cost_usd=0.000585,
            modelUsage={"m": counts(130, 13, "0.000585")},
            model_usage_since_last_result={"m": counts(30, 3, "0.000135")},
        ),
    )
    assert [(u.input_tokens, u.output_tokens, u.cost) for u in report.usage] == [
        (30, 3, "0.000135")
    ]


def test_usage_is_apart_by_model_and_adds_up_over_the_results_of_one_process():
    first = {"m": counts(10, 1, "0.1"), "small": counts(5, 1, "1e-7")}
    second = {"m": counts(20, 2, "0.2")}
    report = read(
        init(),
        result(model_usage_since_last_result=first),
        result(model_usage_since_last_result=second, result="and more"),
    )
    assert report.usage == (
        Usage("m", 30, 3, 40, 6, "0.3", "USD", "reported"),
        Usage("small", 5, 1, 20, 3, "0.0000001", "USD", "reported"),
    )
    assert report.message == "and more"


def test_a_price_made_up_for_an_unknown_model_is_unknown():
    since = {"fake-1": counts(30, 3, "0.00018", costBasis="unknown")}
    (usage,) = read(init(), result(model_usage_since_last_result=since)).usage
    assert (usage.input_tokens, usage.cost, usage.currency) == (30, None, None)
    assert usage.cost_source == "unknown"


def test_older_versions_report_their_own_tokens_and_a_cost_only_when_nothing_came_before():
    old = result(
        usage={
            "input_tokens": 120,
            "output_tokens": 9,
            "cache_read_input_tokens": 7,
            "cache_creation_input_tokens": 0,
        },
        total_cost_usd=0.0024792,
    )
    del old["model_usage_since_last_result"]
    fresh = read(init(), old | {"modelUsage": {"m": counts(120, 9, "0.0024792")}})
    assert fresh.usage == (Usage("m", 120, 9, 7, 0, "0.0024792", "USD", "reported"),)
    resumed = read(init(), old | {"modelUsage": {"m": counts(360, 48, "0.0024792")}})
    assert resumed.usage == (Usage("m", 120, 9, 7, 0),)


def test_assistant_events_are_never_added_up():
    report = read(init(), answer("a"), answer("b"), answer("c"), result())
    assert [u.input_tokens for u in report.usage] == [80]


def test_work_that_no_result_accounts_for_is_unknown_not_nothing():
    assert read(init(), answer()).usage == (Usage(model="m"),)
    assert read(init()).usage == ()
    started_again = read(init(), answer(), result(), answer("more"))
    assert started_again.usage == (Usage(model="m"),)


def test_a_failed_start_used_nothing():
    startup = result(
        subtype="error_during_execution",
        is_error=True,
        errors=["No conversation found with session ID: x"],
        usage={"input_tokens": 0, "output_tokens": 0},
    )
    del startup["result"]
    del startup["model_usage_since_last_result"]
    report = read(startup)
    assert report.usage == ()
    assert report.error_class is ErrorClass.EXIT
    assert report.message == "No conversation found with session ID: x"


def test_no_output_at_all_is_no_result():
    assert read() == Report()


def test_a_program_that_never_started_is_explained_by_stderr():
    report = read(stderr=b"Error: Session ID x is already in use.\n")
    assert report.terminal is None
    assert report.error_class is None
    assert report.message == "Error: Session ID x is already in use."
    assert read(stderr=b"Invalid API key\n").error_class is ErrorClass.AUTH


def test_words_on_stderr_after_the_start_classify_nothing():
    report = read(init(), answer(), stderr=b"grep: invalid api key\n")
    assert report.error_class is None
    assert report.message == "grep: invalid api key"


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (429, "rate_limit", ErrorClass.RATE_LIMIT),
        (529, "overloaded", ErrorClass.PROVIDER),
        (401, "authentication_failed", ErrorClass.AUTH),
        (None, "unknown", ErrorClass.NETWORK),
    ],
)
def test_a_run_that_was_ended_while_it_retried_names_what_it_waited_for(status, kind, expected):
    retry = {"type": "system", "subtype": "api_retry", "error_status": status, "error": kind}
    report = read(init(), retry)
    assert report.terminal is None
    assert report.error_class is expected
    assert kind in report.message
    assert read(init(), retry, answer()).error_class is None


def test_a_stream_cut_at_64_kib_keeps_what_was_read_and_shows_the_torn_line():
    whole = b"\n".join([line(init()), line(answer("x" * 70_000)), line(result())])
    report = read(*whole[:65_536].split(b"\n"))
    assert report.session == SESSION
    assert report.terminal is None
    assert report.unread_lines == 1
    assert '{"type": "assistant"' in report.message
    assert len(report.message) < 300


def test_a_foreign_line_in_the_middle_is_not_the_torn_end():
    assert read(init(), b"npm warn deprecated", answer()).message == ""


def test_lines_that_are_no_events_are_counted_and_passed_over():
    noise = [
        b"npm warn deprecated",
        b"",
        b"\r",
        b"\x00\x00\x00",
        b"\x1b[2K\x1b[1G",
        b"\xff\xfe",
        b"[1, 2]",
        b'{"no": "type"}',
        b'{"type": 7}',
        b"[" * 200_000,
    ]
    events = [init(), *noise, answer(), *noise, result()]
    report = read(*events)
    assert report.unread_lines == 16
    assert report.terminal == Terminal(True, message="done")


def test_unknown_events_and_fields_are_tolerated():
    strange = [
        {"type": "stream_event", "event": {"type": "ping"}},
        {"type": "conversation_reset", "new_conversation_id": "c"},
        {"type": "control_request", "request": {"subtype": "can_use_tool"}},
        {"type": "system", "subtype": "hook_started"},
        {"type": "from_the_future", "payload": [1, {"a": None}]},
        {"type": "assistant"},
        {"type": "assistant", "message": None},
        {"type": "assistant", "message": {"content": "text", "model": 3}},
        {"type": "rate_limit_event"},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": "soon"}},
    ]
    report = read(init(new_field={"x": 1}), *strange, answer(), result(new=1))
    assert report.unread_lines == 0
    assert report.terminal == Terminal(True, message="done")


def test_a_result_of_odd_types_is_a_failure_not_a_crash():
    odd = {
        "type": "result",
        "subtype": ["success"],
        "is_error": "false",
        "result": 5,
        "errors": {"a": 1},
        "usage": [],
        "modelUsage": "none",
        "model_usage_since_last_result": {"m": None, "n": {"inputTokens": "many", "costUSD": True}},
        "permission_denials": "all",
    }
    report = read(init(), odd)
    assert report.terminal is not None
    assert not report.terminal.ok
    assert report.usage == (Usage("m"), Usage("n"))


def test_invalid_utf8_inside_an_event_costs_only_the_broken_characters():
    broken = line(answer("caf@")).replace(b"@", b"\xe9")
    report = read(init(), broken, line(result(result="ok@")).replace(b"@", b"\xff"))
    assert report.message == "ok\ufffd"
    assert report.unread_lines == 0


def test_a_very_long_line_is_an_ordinary_line():
    report = read(init(), answer("x" * 5_000_000), result(result="y" * 5_000_000))
    assert report.terminal is not None
    assert report.terminal.ok
    assert len(report.message) == 2_000


def test_another_sessions_id_in_the_output_is_not_ours():
    block = {"type": "tool_result", "content": '{"session_id": "other"}'}
    tool = {"type": "user", "message": {"content": [block]}}
    assert read(init(), tool, result()).session == SESSION
