import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.core.errors import PlanInvalid, ValueRefused
from counterfoil.ledger.states import FailClass
from counterfoil.plans.model import Gate, OnNoChange, Plan, Task
from counterfoil.plans.parser import MAX_GUESSES, parse_plan, read_plan, write_plan

FIXTURES = Path(__file__).parents[1] / "fixtures" / "plans"


def read(*lines: object) -> Plan:
    return parse_plan(jsonl(*lines), name="plan")


def jsonl(*lines: object) -> bytes:
    return "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode()


def faults(*lines: object) -> list[tuple[int, int, str]]:
    plan, found = read_plan(jsonl(*lines), "plan")
    assert plan is None
    return [(fault.line, fault.column, fault.code) for fault in found]


def only_fault(*lines: object):
    plan, found = read_plan(jsonl(*lines), "plan")
    assert plan is None
    assert len(found) == 1, found
    return found[0]


def test_a_plan_without_any_optional_field_is_read():
    plan = parse_plan((FIXTURES / "bare.jsonl").read_bytes(), name="bare")
    assert [task.id for task in plan.tasks] == ["schema", "listing", "readme"]
    assert plan.name == "bare"
    assert plan.header == {}
    assert plan.notes == ()
    first, second, _ = plan.tasks
    assert first == Task(
        id="schema",
        title="schema",
        prompt="Write the schema of the notes.",
        line=1,
        raw={"id": "schema", "prompt": "Write the schema of the notes."},
    )
    assert second.run == ("sh", "-c", "git ls-files > LISTING")
    assert second.is_command


def test_every_field_and_every_default_of_the_header_is_read():
    plan = parse_plan((FIXTURES / "every_field.jsonl").read_bytes(), name="file")
    assert plan.name == "notes"
    assert plan.header["concurrency"] == 4
    schema, lint = plan.tasks
    gate = Gate(
        name="test",
        run=("make", "test"),
        fail_class=FailClass.TEST,
        cwd="app",
        env={"CI": "1"},
        timeout_seconds=600.0,
        accepts=("ok",),
    )
    assert (schema.title, schema.priority, schema.files) == ("The schema", 3, ("src/schema/**",))
    assert schema.gates == (gate,)
    assert schema.prepare == ("make", "deps")
    assert (schema.agent, schema.agent_options) == ("claude", {"model": "m"})
    assert (schema.timeout_seconds, schema.retries) == (1800.0, 2)
    assert schema.on_no_change is OnNoChange.FAIL
    assert schema.line == 2
    assert lint.gates == ()
    assert lint.prepare is None
    assert lint.env == {"LANG": "C", "STAGE": "lint"}
    assert (lint.agent, lint.agent_options) == ("command", {})
    assert (lint.timeout_seconds, lint.retries) == (30.5, 0)
    assert lint.on_no_change is OnNoChange.ACCEPT
    assert lint.depends_on == ("schema",)


def test_options_of_the_header_hold_for_tasks_of_the_same_agent_only():
    plan = read(
        {"plan": {"agent": "claude", "agent_options": {"model": "m", "turns": 3}}},
        {"id": "a", "prompt": "x", "agent_options": {"turns": 9}},
        {"id": "b", "prompt": "x", "agent": "codex", "agent_options": {"turns": 9}},
    )
    assert plan.tasks[0].agent_options == {"model": "m", "turns": 9}
    assert plan.tasks[1].agent_options == {"turns": 9}


def test_an_agent_may_be_an_object_with_its_options():
    plan = read({"id": "a", "prompt": "x", "agent": {"name": "codex", "model": "m"}})
    assert (plan.tasks[0].agent, plan.tasks[0].agent_options) == ("codex", {"model": "m"})


def test_other_names_of_dependencies_are_read_and_noted():
    plan = parse_plan((FIXTURES / "aliases.jsonl").read_bytes(), name="aliases")
    assert {task.id: task.depends_on for task in plan.tasks} == {
        "1": (),
        "2": ("1",),
        "a.3": ("1", "2"),
        "four": ("2",),
        "five": ("1", "four"),
        "six": ("five",),
    }
    assert plan.notes == (
        "1 task says `deps`, read as `depends_on`",
        "1 task says `needs`, read as `depends_on`",
        "1 task says `dependencies`, read as `depends_on`",
        "1 task says `dependsOn`, read as `depends_on`",
        "1 task says `blockedBy`, read as `depends_on`",
        "1 id is a number, read as text",
    )


def test_free_text_acceptance_is_neither_refused_nor_rewritten():
    data = (FIXTURES / "legacy_acceptance.jsonl").read_bytes()
    plan = parse_plan(data, name="legacy")
    assert plan.tasks[0].raw["acceptance"] == "GET /health gives 200\n  and no less"
    assert plan.tasks[1].raw["acceptance"] == ["it builds", "it is fast"]
    assert write_plan(plan) == data


@pytest.mark.parametrize("name", ["bare", "every_field", "legacy_acceptance", "aliases"])
def test_writing_a_plan_gives_back_every_line_with_its_unknown_fields(name: str):
    data = (FIXTURES / f"{name}.jsonl").read_bytes()
    written = write_plan(parse_plan(data, name=name))
    before, after = data.splitlines(), written.splitlines()
    assert [list(json.loads(line).items()) for line in after] == [
        list(json.loads(line).items()) for line in before
    ]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1).map("x-".__add__), JSON_VALUES, max_size=4))
def test_unknown_fields_never_fail_and_survive_a_round_trip(extra: dict[str, object]):
    row = {"id": "a", "prompt": "x", **extra}
    plan = read(row)
    assert json.loads(write_plan(plan)) == row
    assert read_plan(write_plan(plan), "again")[0] == read_plan(write_plan(plan), "again")[0]


def test_a_lone_surrogate_in_an_unknown_field_is_written_as_an_escape():
    plan = read('{"id": "a", "prompt": "x", "odd": "\\ud800"}')
    assert json.loads(write_plan(plan))["odd"] == "\ud800"


def test_a_task_that_was_never_a_line_cannot_be_written():
    with pytest.raises(ValueRefused, match="'a'"):
        write_plan(Plan("p", (Task(id="a", title="a", prompt="x"),)))


def test_byte_order_mark_carriage_returns_and_blank_lines_are_nothing_special():
    data = (
        b'\xef\xbb\xbf{"id": "a", "prompt": "x"}\r\n\r\n  \n{"id": "b", "prompt": "\xc3\xa9"}\r\n'
    )
    plan = parse_plan(data, name="p")
    assert [(task.id, task.line) for task in plan.tasks] == [("a", 1), ("b", 4)]
    assert plan.tasks[1].prompt == "é"


def test_null_counts_as_absent():
    fields = ("title", "run", "depends_on", "deps", "files", "gates", "timeout", "acceptance")
    plan = read({"id": "a", "prompt": "x"} | dict.fromkeys(fields))
    assert plan.tasks[0].title == "a"


def test_all_faults_are_told_at_once_in_the_order_of_lines():
    plan, found = read_plan((FIXTURES / "faulty.jsonl").read_bytes(), "faulty")
    assert plan is None
    assert [(fault.line, fault.column, fault.code, fault.task_id) for fault in found] == [
        (2, 25, "BAD_RUN", "schema"),
        (3, 56, "UNKNOWN_DEPENDENCY", "docs"),
        (3, 66, "SELF_DEPENDENCY", "docs"),
        (4, 1, "NO_WORK", "docs"),
        (4, 8, "DUPLICATE_ID", "docs"),
        (5, 26, "SYNTAX", None),
        (6, 43, "CYCLE", "a"),
        (7, 68, "BAD_TIMEOUT", "b"),
    ]
    by_code = {fault.code: fault for fault in found}
    assert by_code["UNKNOWN_DEPENDENCY"].hint == "did you mean 'schema'?"
    assert by_code["BAD_RUN"].hint.startswith('write ["make", "schema"]')
    assert '["sh", "-c", "make schema"]' in by_code["BAD_RUN"].hint
    assert "line 3" in by_code["DUPLICATE_ID"].message
    assert "line 4" in by_code["DUPLICATE_ID"].message
    assert by_code["CYCLE"].message == "task 'a': it waits for itself: a -> b -> a"
    assert "`promt`" in by_code["NO_WORK"].hint


def test_a_dependency_on_a_task_whose_line_cannot_be_read_is_not_unknown():
    assert [
        code for *_, code in faults('{"id": "a", ', {"id": "b", "prompt": "x", "deps": ["a"]})
    ] == ["SYNTAX"]


def test_the_error_counts_the_faults_and_carries_all_of_them():
    with pytest.raises(PlanInvalid) as caught:
        parse_plan((FIXTURES / "faulty.jsonl").read_bytes(), name="faulty.jsonl")
    message = str(caught.value)
    assert message.startswith("faulty.jsonl has 8 faults: line 2 column 25: task 'schema'")
    assert message.endswith("and 5 more")
    assert len(caught.value.details["faults"]) == 8
    assert caught.value.details["faults"][0] | {"hint": "", "message": ""} == {
        "line": 2,
        "column": 25,
        "code": "BAD_RUN",
        "message": "",
        "hint": "",
        "task_id": "schema",
    }
    assert caught.value.hint
    json.dumps(caught.value.details)


TASK = {"id": "a", "prompt": "x"}


@pytest.mark.parametrize(
    ("field", "value", "code", "path"),
    [
        ("title", 3, "BAD_TITLE", "3"),
        ("prompt", "", "BAD_PROMPT", '""'),
        ("prompt", ["x"], "BAD_PROMPT", "["),
        ("prompt", "a\0b", "BAD_PROMPT", '"a'),
        ("depends_on", "b", "BAD_DEPENDS_ON", '"b"'),
        ("depends_on", [1.5], "BAD_DEPENDS_ON", "1.5"),
        ("needs", [{"id": "b"}], "BAD_DEPENDS_ON", '{"id": "b"'),
        ("files", "src/", "BAD_FILES", '"src/'),
        ("files", ["src", 3], "BAD_FILES", "3"),
        ("files", ["src", ""], "BAD_FILES", '""'),
        ("files", ["src", "/etc"], "PATH_ESCAPES", '"/etc'),
        ("files", ["a/../../b"], "PATH_ESCAPES", '"a/'),
        ("files", ["C:\\x"], "PATH_ESCAPES", '"C:'),
        ("gates", {}, "BAD_GATE", "{}"),
        ("gates", ["make"], "BAD_GATE", '"make"'),
        ("gates", [{"run": ["x"]}], "BAD_GATE", '{"run"'),
        ("gates", [{"name": "n"}], "BAD_GATE", '{"name"'),
        ("gates", [{"name": "n", "run": []}], "BAD_GATE", "[]"),
        ("gates", [{"name": "n", "run": "make"}], "BAD_GATE", '"make"'),
        ("gates", [{"name": "n", "run": ["x"], "class": "style"}], "BAD_GATE", '"style"'),
        ("gates", [{"name": "n", "run": ["x"], "timeout": 0}], "BAD_GATE", "0"),
        ("gates", [{"name": "n", "run": ["x"], "timeout": True}], "BAD_GATE", "true"),
        ("gates", [{"name": "n", "run": ["x"], "cwd": ".."}], "PATH_ESCAPES", '".."'),
        ("gates", [{"name": "n", "run": ["x"], "cwd": "/w"}], "PATH_ESCAPES", '"/w"'),
        ("gates", [{"name": "n", "run": ["x"], "env": {"A": 7}}], "BAD_ENV", "7"),
        ("gates", [{"name": "n", "run": ["x"]}, {"name": "m", "run": []}], "BAD_GATE", "[]"),
        ("prepare", "make", "BAD_PREPARE", '"make"'),
        ("env", [], "BAD_ENV", "[]"),
        ("env", {"A=B": "x"}, "BAD_ENV", '"x"}'),
        ("env", {"": "y"}, "BAD_ENV", '"y"'),
        ("env", {"A": None}, "BAD_ENV", "null"),
        ("agent", 7, "BAD_AGENT", "7"),
        ("agent", {"model": "m"}, "BAD_AGENT", '{"model"'),
        ("agent", {"name": 7}, "BAD_AGENT", "7"),
        ("agent_options", [], "BAD_AGENT_OPTIONS", "[]"),
        ("timeout", "30m", "BAD_TIMEOUT", '"30m"'),
        ("timeout", -1, "BAD_TIMEOUT", "-1"),
        ("timeout", 1e300, "BAD_TIMEOUT", "1e+300"),
        ("retries", -1, "BAD_RETRIES", "-1"),
        ("retries", 1.5, "BAD_RETRIES", "1.5"),
        ("priority", "high", "BAD_PRIORITY", '"high"'),
        ("on_no_change", "maybe", "BAD_ON_NO_CHANGE", '"maybe"'),
        ("acceptance", 7, "BAD_ACCEPTANCE", "7"),
        ("acceptance", [{"id": "1", "text": "x"}], "BAD_ACCEPTANCE", '{"id": "1"'),
        ("acceptance", [{"id": "1", "text": "x", "kind": "no"}], "BAD_ACCEPTANCE", '"no"'),
        ("acceptance", [{"id": 1, "text": "x", "kind": "auto"}], "BAD_ACCEPTANCE", "1"),
    ],
)
def test_a_wrong_value_is_named_with_its_task_and_its_column(
    field: str, value: object, code: str, path: str
):
    text = json.dumps(TASK | {field: value})
    fault = only_fault(text)
    assert (fault.line, fault.code, fault.task_id) == (1, code, "a")
    assert "task 'a'" in fault.message
    assert text[fault.column - 1 :].startswith(path)


@pytest.mark.parametrize(
    ("line", "code", "column"),
    [
        ('{"prompt": "x"}', "MISSING_ID", 1),
        ('{"id": null, "prompt": "x"}', "MISSING_ID", 1),
        ('{"id": " ", "prompt": "x"}', "EMPTY_ID", 8),
        ('{"id": 1.2, "prompt": "x"}', "BAD_ID", 8),
        ('{"id": true, "prompt": "x"}', "BAD_ID", 8),
        ('{"id": "a\\nb", "prompt": "x"}', "BAD_ID", 8),
        ('{"id": "\\ud800", "prompt": "x"}', "BAD_ID", 8),
        ('{"id": "a", "prompt": "x", "run": ["y"]}', "TWO_WORKS", 35),
        ('{"id": "a", "run": ["", "y"]}', "BAD_RUN", 20),
        ('{"id": "a", "run": ["y", 3]}', "BAD_RUN", 26),
        ('{ "id" : "a" , "run" : [ "y" , 3 ] }', "BAD_RUN", 32),
        ('{"id": "a", "run": ["y", "\\u0000"]}', "BAD_RUN", 26),
        ('{"id": "a", "prompt": "x", "prompt": "y"}', "DUPLICATE_KEY", 28),
        ('{"id": "a", "prompt": "x", "n": {"k": [{"k": 1, "k": 2}]}}', "DUPLICATE_KEY", 49),
        ('{"id": "a", "prompt": "x", "n": NaN}', "BAD_NUMBER", 33),
        ('{"id": "a", "prompt": "x", "n": 1e999}', "BAD_NUMBER", 33),
        ('{"id": "a" "prompt": "x"}', "SYNTAX", 12),
        ('{"id": "é" "prompt": "x"}', "SYNTAX", 12),
        ('{"id": "a", "prompt": "x"} {"id": "b", "prompt": "x"}', "SYNTAX", 28),
        (' ["a"]', "NOT_AN_OBJECT", 2),
        ('"a"', "NOT_AN_OBJECT", 1),
        ('{"plan": "x"}', "BAD_HEADER", 10),
        ('{"plan": {"concurrency": 0}}', "BAD_CONCURRENCY", 26),
        ('{"plan": {"concurrency": 257}}', "BAD_CONCURRENCY", 26),
        ('{"plan": {"concurrency": 1' + "0" * 30 + "}}", "BAD_CONCURRENCY", 26),
        ('{"plan": {}, "more": 1}', "BAD_HEADER", 22),
        ('{"plan": {"retries": "x"}}', "BAD_RETRIES", 22),
    ],
)
def test_a_line_that_is_no_task_is_one_fault_with_its_column(line: str, code: str, column: int):
    fault = only_fault(line)
    assert (fault.code, fault.column) == (code, column)


@pytest.mark.parametrize(
    "line",
    [
        r'{"plan": {"name": @"\ud800"}}',
        r'{"plan": {"gates": [{"name": @"g\uDfff", "run": ["x"]}]}}',
        r'{"id": "a", "title": @"x\ud800", "prompt": "x"}',
        r'{"id": "a", "prompt": @"\udc80 x"}',
        r'{"id": "a", "run": ["x", @"\ud800"]}',
        r'{"id": "a", "prompt": "x", "prepare": [@"\ud800"]}',
        r'{"id": "a", "prompt": "x", "files": [@"\ud800"]}',
        r'{"id": "a", "prompt": "x", "env": {"A": @"\ud800"}}',
        r'{"id": "a", "prompt": "x", "env": {"A\ud800": @"x"}}',
        r'{"id": "a", "prompt": "x", "agent": @"\ud800"}',
        r'{"id": "a", "prompt": "x", "agent": {"name": "claude", "model": @"\ud800"}}',
        r'{"id": "a", "prompt": "x", "agent_options": {"tools": [@"\ud800"]}}',
        r'{"id": "a", "prompt": "x", "acceptance": [@"\ud800"]}',
        r'{"id": "a", "prompt": "x", "gates": [{"name": "g", "run": [@"\ud800"]}]}',
        r'{"id": "a", "prompt": "x", "gates": [{"name": "g", "run": ["x"], "cwd": @"\ud800"}]}',
        r'{"id": "a", "run":["x"], "gates": [{"run":["x"], "name":"g", "accepts": [@"\ud800"]}]}',
        r'{"id": "a", "run":["x"], "gates": [{"run":["x"], "name":"g", "env": {"B": @"\ud800"}}]}',
    ],
)
def test_half_a_character_is_a_fault_with_its_column(line: str):
    fault = only_fault(line.replace("@", ""))
    assert (fault.line, fault.column, fault.code) == (1, line.index("@") + 1, "BAD_TEXT")
    assert "half a character" in fault.message
    assert fault.hint
    fault.message.encode()


@pytest.mark.parametrize(
    "more",
    [
        {"run": ["x", "a\0"]},
        {"run": ["x"], "prepare": ["\0"]},
        {"run": ["x"], "env": {"A": "\0"}},
        {"run": ["x"], "env": {"A\0": "x"}},
        {"run": ["x"], "gates": [{"name": "g", "run": ["x\0"]}]},
        {"run": ["x"], "gates": [{"name": "g", "run": ["x"], "cwd": "x\0"}]},
    ],
)
def test_a_nul_in_a_command_or_its_surroundings_is_a_fault(more: dict[str, object]):
    assert (
        "NUL" in only_fault({"id": "a"} | more).message
        or "u0000" in only_fault({"id": "a"} | more).message
    )


def test_a_whole_surrogate_pair_is_a_character_and_retries_have_no_bound():
    plan = read(r'{"id": "a", "prompt": "\ud83d\ude00", "retries": 1000000000000}')
    assert plan.tasks[0].prompt == "\U0001f600"
    assert plan.tasks[0].retries == 10**12


def test_two_gates_of_one_name_are_refused():
    gates = [{"name": "n", "run": ["x"]}, {"name": "m", "run": ["x"]}, {"name": "n", "run": ["y"]}]
    fault = only_fault(TASK | {"gates": gates})
    assert fault.code == "DUPLICATE_GATE"
    assert "1 and 3" in fault.message


def test_a_criterion_id_is_unique_within_its_task_only():
    twice = [{"id": "1", "text": "x", "kind": "auto"}, {"id": "1", "text": "y", "kind": "manual"}]
    assert only_fault(TASK | {"acceptance": twice}).code == "BAD_ACCEPTANCE"
    read(TASK | {"acceptance": twice[:1]}, TASK | {"id": "b", "acceptance": twice[:1]})


def test_a_header_below_the_first_line_is_refused():
    fault = only_fault(TASK, {"plan": {"retries": 2}})
    assert (fault.line, fault.code) == (2, "HEADER_NOT_FIRST")


def test_a_task_may_have_a_field_named_plan():
    assert read({"id": "a", "prompt": "x", "plan": {"b": 1}}).tasks[0].raw["plan"] == {"b": 1}


@pytest.mark.parametrize("data", [b"", b"\n \r\n", b"\xef\xbb\xbf", b'{"plan": {}}\n'])
def test_a_plan_without_a_task_is_refused(data: bytes):
    _, found = read_plan(data, "p")
    assert [fault.code for fault in found] == ["EMPTY_PLAN"]


def test_undecodable_bytes_are_named_with_line_and_character_column():
    data = b'{"id": "a", "prompt": "x"}\n{"id": "\xc3\xa9\xff", "prompt": "x"}\n{"id": "\0"}'
    _, found = read_plan(data, "p")
    assert [(fault.line, fault.column, fault.code) for fault in found] == [
        (2, 10, "NOT_UTF8"),
        (3, 9, "NUL_BYTE"),
    ]


def test_utf16_is_one_fault_not_thousands():
    _, found = read_plan('{"id": "a", "prompt": "x"}\n'.encode("utf-16") * 3, "p")
    assert [fault.code for fault in found] == ["NOT_UTF8"]


def test_one_json_document_over_many_lines_is_one_fault():
    _, found = read_plan(json.dumps([TASK, TASK], indent=2).encode(), "p")
    assert [fault.code for fault in found] == ["NOT_JSONL"]


@pytest.mark.parametrize("depth", [101, 100_000])
def test_a_line_that_nests_too_deep_is_refused_not_crashed_on(depth: int):
    line = '{"id": "a", "prompt": "x", "n": ' + "[" * depth + "]" * depth + "}"
    assert only_fault(line).code == "TOO_DEEP"


def test_a_line_may_nest_99_levels_below_its_object():
    read('{"id": "a", "prompt": "x", "m": [], "n": ' + "[" * 99 + "]" * 99 + "}")


def test_a_whole_number_of_many_digits_is_a_fault_not_a_crash():
    assert only_fault('{"id": "a", "prompt": "x", "n": ' + "9" * 5000 + "}").code == "BAD_NUMBER"


def test_a_line_of_megabytes_is_read(monkeypatch: pytest.MonkeyPatch):
    line = TASK | {"prompt": "y" * 3_000_000}
    assert len(read(line).tasks[0].prompt or "") == 3_000_000
    monkeypatch.setattr("counterfoil.plans.lines.MAX_PLAN_LINE_BYTES", 2_000_000)
    assert only_fault(line).code == "LINE_TOO_LONG"


def test_every_cycle_is_shown_once():
    rows = [
        {"id": name, "prompt": "x", "deps": deps}
        for name, deps in {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d"]}.items()
    ]
    _, found = read_plan(jsonl(*rows), "p")
    assert [(fault.code, fault.message.partition(": it ")[2]) for fault in found] == [
        ("CYCLE", "waits for itself: a -> b -> c -> a"),
        ("CYCLE", "waits for itself: d -> e -> d"),
    ]


def test_ten_thousand_tasks_are_read_in_a_moment():
    rows = [
        {"id": f"t{n}", "prompt": "x", "deps": [f"t{n - 1}"] if n else [], "files": [f"src/{n}/"]}
        for n in range(10_000)
    ]
    data = jsonl(*rows)
    begun = time.process_time()
    assert len(parse_plan(data, name="p").tasks) == 10_000
    assert time.process_time() - begun < 5


def test_guesses_stop_after_the_first_unknown_dependencies():
    rows = [{"id": f"task{n}", "prompt": "x", "deps": [f"tusk{n}"]} for n in range(200)]
    _, found = read_plan(jsonl(*rows), "p")
    assert len(found) == 200
    assert sum("did you mean" in fault.hint for fault in found) == MAX_GUESSES


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data: bytes):
    plan, found = read_plan(data, "p")
    assert (plan is None) == bool(found)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "id",
                "title",
                "prompt",
                "run",
                "depends_on",
                "deps",
                "files",
                "gates",
                "acceptance",
                "env",
                "agent",
                "agent_options",
                "timeout",
                "retries",
                "priority",
                "prepare",
                "on_no_change",
                "plan",
            ]
        ),
        JSON_VALUES,
    )
)
def test_no_value_of_a_known_field_crashes_the_reader(row: dict[str, object]):
    plan, found = read_plan(jsonl(row), "p")
    assert (plan is None) == bool(found)
    for fault in found:
        assert fault.line == 1
        assert 1 <= fault.column <= len(json.dumps(row))
