import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.ledger.states import FailClass
from counterfoil.plans.gating import classify, failing_tests, fingerprint, tail

F = FailClass

PYTEST = """\
=================================== FAILURES ===================================
E       assert 3 == 4
=========================== short test summary info ============================
FAILED tests/test_sum.py::test_adds[1-2] - assert 3 == 4
FAILED tests/test_sum.py::test_carries - AssertionError
========================= 2 failed, 7 passed in 0.31s =========================
"""
MYPY = """\
src/a.py:3: error: Name "x" is not defined  [name-defined]
Found 1 error in 1 file (checked 3 source files)
"""

OUTPUTS = [
    ("pytest", PYTEST, F.TEST),
    ("pytest -q", "F.\nFAILED tests/t.py::test_a - x\n1 failed, 1 passed in 0.01s\n", F.TEST),
    ("pytest, collection", "ERROR tests/t.py::x\n===== 1 error in 0.1s =====\n", F.TEST),
    ("unittest", "FAIL: test_a (t.T)\nRan 3 tests in 0.001s\n\nFAILED (failures=1)\n", F.TEST),
    ("jest", "  ● sum › adds\n\nTests:       1 failed, 4 passed, 5 total\n", F.TEST),
    ("vitest", " Test Files  1 failed | 2 passed (3)\n", F.TEST),
    (
        "go test",
        "--- FAIL: TestSum (0.00s)\n    sum_test.go:9: got 3\nFAIL\nFAIL\tx/sum\t0.2s\n",
        F.TEST,
    ),
    (
        "cargo test",
        "test sum::adds ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed;\n",
        F.TEST,
    ),
    ("node --test", "not ok 2 - adds\n# pass 1\n# fail 1\n", F.TEST),
    ("mypy", MYPY, F.TYPECHECK),
    ("mypy with columns", 'src/a.py:3:5: error: Name "x" is not defined\n', F.TYPECHECK),
    ("pyright", "  /w/a.py:1:5 - error: x\n2 errors, 0 warnings, 0 informations \n", F.TYPECHECK),
    ("tsc", "src/a.ts(3,5): error TS2322: Type 'x' is not assignable.\n", F.TYPECHECK),
    (
        "tsc --pretty",
        "src/a.ts:3:5 - error TS2322: Type 'x' is not\n\nFound 1 error in src/a.ts:3\n",
        F.TYPECHECK,
    ),
    ("ruff", "F401 [*] `os` imported but unused\nFound 3 errors.\n", F.LINT),
    ("ruff format", "Would reformat: src/a.py\n1 file would be reformatted\n", F.LINT),
    (
        "eslint",
        "  3:5  error  'x' is not defined  no-undef\n\n✖ 1 problem (1 error, 0 warnings)\n",
        F.LINT,
    ),
    ("flake8", "src/a.py:1:1: F401 'os' imported but unused\n", F.LINT),
    ("golangci-lint", "a.go:3:5: Error return value is not checked (errcheck)\n", F.LINT),
    ("gcc", "a.c:3:5: error: 'x' undeclared\nmake: *** [Makefile:2: a.o] Error 1\n", F.BUILD),
    (
        "ld",
        "a.c:(.text+0x5): undefined reference to `f'\ncollect2: error: ld returned 1\n",
        F.BUILD,
    ),
    ("cargo build", "error[E0425]: cannot find value\nerror: could not compile `x`\n", F.BUILD),
    ("go build", "# x/sum\n./sum.go:3:5: undefined: y\n", F.BUILD),
    ("make", "make: *** No rule to make target 'x'.  Stop.\n", F.BUILD),
    ("vite", "error during build:\nCould not resolve './x'\n", F.BUILD),
    ("javac", "A.java:3: error: ';' expected\n1 error\n", F.BUILD),
]


@pytest.mark.parametrize(("output", "expected"), [pytest.param(*o[1:], id=o[0]) for o in OUTPUTS])
def test_the_output_of_common_tools_is_recognised(output: str, expected: FailClass):
    assert classify(None, False, ("sh", "-c", "./check"), output) is expected


def test_what_the_author_declared_wins_then_a_timeout_then_the_output():
    assert classify(F.LINT, True, ("pytest",), PYTEST) is F.LINT
    assert classify("lint", False, ("pytest",), PYTEST) is F.LINT
    assert classify(None, True, ("pytest",), PYTEST) is F.TIMEOUT
    assert classify(None, False, ("ruff", "check"), PYTEST) is F.TEST


def test_of_several_tools_in_one_output_the_last_one_counts():
    assert classify(None, False, ("make",), MYPY + PYTEST) is F.TEST
    assert classify(None, False, ("make",), PYTEST + MYPY) is F.TYPECHECK
    wrapped = PYTEST + "make: *** [Makefile:4: test] Error 1\n"
    assert classify(None, False, ("make", "check"), wrapped) is F.TEST


def test_colours_hide_nothing():
    assert classify(None, False, ("x",), "\x1b[31m✖ 2 problems\x1b[0m\n") is F.LINT


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("python", "-m", "pytest", "-x"), F.TEST),
        (("npm", "run", "test:unit"), F.TEST),
        (("make", "test"), F.TEST),
        (("sh", "-c", "npm run lint"), F.LINT),
        (("cargo", "clippy"), F.LINT),
        (("npx", "tsc", "--noEmit"), F.TYPECHECK),
        (("cargo", "build", "--release"), F.BUILD),
        (("./ok.sh",), F.OTHER),
        (("make", "check"), F.OTHER),
        ((), F.OTHER),
    ],
)
def test_where_the_output_says_nothing_the_command_does(argv: tuple[str, ...], expected: FailClass):
    assert classify(None, False, argv, "it went wrong\n") is expected


def test_names_of_failing_tests_are_found():
    assert failing_tests(PYTEST) == (
        "tests/test_sum.py::test_adds[1-2]",
        "tests/test_sum.py::test_carries",
    )
    assert failing_tests("FAIL: test_a (t.T)\n--- FAIL: TestB (0.00s)\n") == (
        "test_a (t.T)",
        "TestB",
    )
    assert failing_tests("test m::c ... FAILED\nnot ok 3 - adds up\n") == ("m::c", "adds up")


def rerun(output: str) -> bool:
    """Whether a second run with this output is the same failure as PYTEST."""
    argv = ("pytest",)
    return fingerprint(F.TEST, argv, PYTEST) == fingerprint(F.TEST, argv, output)


def test_a_rerun_of_the_same_failure_has_the_same_fingerprint():
    assert rerun(PYTEST.replace("0.31s", "12.07s").replace("=========", "======"))
    lines = PYTEST.splitlines(keepends=True)
    assert rerun("".join([*lines[:3], lines[4], lines[3], lines[5]]))
    assert rerun(PYTEST.replace("\n", "\r\n"))
    assert rerun(f"\x1b[1m{PYTEST}\x1b[0m")


def test_another_failure_has_another_fingerprint():
    assert not rerun(PYTEST.replace("test_carries", "test_borrows"))
    assert not rerun(PYTEST.replace("assert 3 == 4\n=", "it is not a number\n="))
    same = fingerprint(F.TEST, ("pytest",), PYTEST)
    assert fingerprint(F.OTHER, ("pytest",), PYTEST) != same
    assert fingerprint(F.TEST, ("pytest", "-x"), PYTEST) != same
    assert fingerprint(F.TEST, ("pytest", ""), PYTEST) != same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/tmp/w1/checkout/a.c:3:5: boom", "/home/x/w-22/a.c:17:1: boom"),
        ("object at 0x7f3a2c", "object at 0x55d0ff"),
        ("commit 3f9c2ab11", "commit 00ddee998877"),
        ("id 0198f2c4-5d1e-7abc-8def-001122334455", "id 0198f2c4-9999-7abc-8def-aabbccddeeff"),
        ("at 2026-01-02T03:04:05.123Z it broke", "at 2027-11-12 13:14:15 it broke"),
        ("took 900ms", "took 1.2 s"),
        ("elapsed 0:00:12", "elapsed 1:02:03.5"),
        ("1,024 of 3 items", "7 of 12 items"),
    ],
)
def test_paths_times_hex_and_numbers_are_folded(one: str, other: str):
    assert fingerprint(F.OTHER, ("x",), one) == fingerprint(F.OTHER, ("x",), other)
    assert fingerprint(F.OTHER, ("x",), one) != fingerprint(F.OTHER, ("x",), f"{other} again")


def test_only_the_last_lines_count():
    noise = "".join(f"compiling part {chr(97 + n % 26) * (n % 7 + 1)}\n" for n in range(300))
    end = "".join(f"reason {'abcdefghij'[n] * 3}\n" for n in range(10)) * 3
    assert fingerprint(F.OTHER, ("x",), noise + end) == fingerprint(F.OTHER, ("x",), end)


def test_the_tail_keeps_the_last_lines_and_characters():
    assert tail(b"a\nb\nc\n\n", 2, 100) == "b\nc"
    assert tail(b"abcdef", 2, 3) == "def"
    assert tail(b"", 5, 5) == ""
    assert tail(b"a", 0, 5) == ""
    assert tail(b"a", 5, 0) == ""


def test_the_tail_shows_what_a_terminal_would_have_shown_at_the_end():
    assert tail(b"\x1b[31mred\x1b[0m\r\n10%\r50%\r100%\r\ndone\r\n", 9, 99) == "red\n100%\ndone"


def test_the_tail_has_no_byte_that_a_database_or_a_terminal_chokes_on():
    assert tail(b"a\x00b\xff\x1b[2Jc\x07\td", 1, 99) == "a\ufffdb\ufffdc\ufffd\td"


@pytest.mark.parametrize("odd", [b"", b"x", b"xy", b"xyz"])
def test_the_tail_of_a_large_output_does_not_begin_inside_a_character(odd: bytes):
    assert tail(odd + "😀".encode() * 100_000, 1, 70_000) == "😀" * 70_000
    assert tail("é".encode() * 200_000 + odd, 1, 10).startswith("é")


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(-1, 9), st.integers(-1, 50))
def test_any_bytes_have_a_tail(output: bytes, lines: int, limit: int):
    shown = tail(output, lines, limit)
    assert len(shown) <= max(limit, 0)
    assert shown.count("\n") <= max(lines - 1, 0)
    shown.encode()
    assert not any(char < " " and char not in "\n\t" for char in shown)
    fingerprint(classify(None, False, (), shown), (), shown)


def test_long_hostile_output_is_judged_quickly():
    for text in ("=" * 100_000, "a-" * 50_000, "= 1 failed " * 9_000, "/a" * 50_000, "1 " * 50_000):
        fingerprint(classify(None, False, ("x",), text), ("x",), text)
