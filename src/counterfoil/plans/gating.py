"""What a failed gate's output says: its class, a fingerprint that survives a rerun, its end."""

import hashlib
import re
from collections.abc import Sequence

from counterfoil.ledger.states import FailClass

FINGERPRINT_LINES = 20
SEARCHED_CHARACTERS = 16_384
"""How much of an output's end is searched and compared."""

WINDOW_BYTES = 262_144
"""How much of an output ``tail`` looks at, unless its limit asks for more."""

_B, _Y, _L, _T = FailClass.BUILD, FailClass.TYPECHECK, FailClass.LINT, FailClass.TEST

_SIGNS: tuple[tuple[FailClass, str], ...] = (
    (_T, r"^=+ .*\b[1-9]\d* (?:failed|errors?)\b.*=+$"),  # pytest
    (_T, r"^[1-9]\d* failed\b.*\bin [\d.]+s"),  # pytest -q
    (_T, r"^(?:FAILED|ERROR) \S+::"),
    (_T, r"^FAILED \((?:failures|errors)="),  # unittest
    (_T, r"^(?:Tests|Test Suites):\s+[1-9]\d* failed"),  # jest
    (_T, r"^\s*(?:Tests|Test Files)\s+[1-9]\d* failed"),  # vitest
    (_T, r"^\s*[1-9]\d* failing$"),  # mocha
    (_T, r"^# fail [1-9]"),  # node --test
    (_T, r"^not ok \d+"),  # TAP
    (_T, r"^\s*--- FAIL: |^FAIL\t"),  # go test
    (_T, r"^test result: FAILED|^error: test failed, to rerun"),  # cargo test
    (_T, r"Tests run: .*(?:Failures|Errors): [1-9]"),  # surefire
    (_T, r"^\d+ examples?, [1-9]\d* failures?"),  # rspec
    (_Y, r"^Found [1-9]\d* errors? in \d+ files?"),  # mypy
    (_Y, r"^\S+\.pyi?:\d+:(?:\d+:)? error: "),
    (_Y, r"^[1-9]\d* errors?, \d+ warnings?, \d+ (?:informations?|notes?)"),  # pyright
    (_Y, r"\berror TS\d+: "),  # tsc
    (_L, r"^Found [1-9]\d* errors?(?:\.$| \()"),  # ruff
    (_L, r"^(?:Would reformat: |would reformat |\d+ files? would be reformatted)"),
    (_L, r"^✖ [1-9]\d* problems?"),  # eslint
    (_L, r"^\S+:\d+:\d+: [A-Z]{1,4}\d{2,4}:? "),  # flake8, ruff, pylint
    (_L, r"^Your code has been rated at"),  # pylint
    (_L, r"Code style issues found"),  # prettier
    (_L, r"^\S+\.go:\d+:\d+: .* \([\w-]+\)$"),  # golangci-lint
    (_L, r"^error: .* \[-D clippy|= note: `-D clippy"),
    (_B, r"^error(?:\[E\d+\])?: could not compile|^error\[E\d+\]"),  # rustc
    (_B, r"^\S+\.(?!pyi?:)\w+:\d+:(?:\d+:)? (?:fatal )?error: "),  # gcc, clang, javac
    (_B, r"^\S*\.go:\d+:\d+: "),
    (_B, r"\bundefined reference to\b|^(?:\S*/)?ld: |collect2: error"),
    (_B, r"^ninja: build stopped|^CMake Error|COMPILATION ERROR|^BUILD FAILED"),
    (_B, r"^g?make(?:\[\d+\])?: \*\*\* (?:.*Stop\.$|\[(?:.*: )?(?:all|build|\S+\.o)\] Error)"),
    (_B, r"^(?:error during build:|Build failed|Module not found: )"),  # vite, webpack
)
_RECOGNISED = tuple((found, re.compile(sign, re.MULTILINE)) for found, sign in _SIGNS)

_WORDS = {
    _T: "test tests pytest unittest jest vitest mocha nextest ctest tox nox rspec phpunit",
    _Y: "mypy pyright basedpyright tsc ty typecheck types pyre flow check-types type-check",
    _L: "lint ruff eslint flake8 pylint prettier black isort clippy shellcheck fmt vet biome",
    _B: "build compile gcc g++ clang cc rustc javac webpack vite ninja cmake",
}
_CLASS_OF_WORD = {word: found for found, words in _WORDS.items() for word in words.split()}

_TEST_NAMES = re.compile(
    r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$"  # pytest
    r"|^(?:FAIL|ERROR): (\S+(?: \(\S+\))?)$"  # unittest
    r"|^\s*--- FAIL: (\S+)"  # go test
    r"|^test (\S+) \.\.\. FAILED$"  # cargo test
    r"|^\s*● (.+)$"  # jest
    r"|^not ok \d+ (?:- )?(.+)$",  # TAP
    re.MULTILINE,
)

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FOLDS = (
    (re.compile(r"(?<![\w.])(?:[A-Za-z]:)?(?:[\\/][\w.+@~-]+)+[\\/]"), "<dir>/"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d+(?::\d\d)+(?:\.\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:[mµun]?s|secs?|seconds?|m|min|minutes?)\b"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<hex>"),
    (re.compile(r"\b(?=[0-9a-f-]{0,64}\d)[0-9a-f]{7,}(?:-[0-9a-f]{4,})*\b"), "<hex>"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "<n>"),
    (re.compile(r"([=_.*#~+-])\1{3,}"), r"\1\1\1"),
    (re.compile(r"\s+"), " "),
)


def classify(
    declared: str | None, timed_out: bool, argv: Sequence[str], output_tail: str
) -> FailClass:
    """How a gate failed: what its author declared, a timeout, what the output shows.

    Of several tools in one output the last one counts: commands stop at the first failure.
    Where no output is known, the command's own words decide, else ``other``.
    """
    if declared is not None:
        return FailClass(declared)
    if timed_out:
        return FailClass.TIMEOUT
    shown = _ESCAPES.sub("", output_tail[-SEARCHED_CHARACTERS:])
    seen = [(match.start(), found) for found, sign in _RECOGNISED for match in sign.finditer(shown)]
    if seen:
        return max(seen, key=lambda sign: sign[0])[1]
    return _class_of_command(argv) or FailClass.OTHER


def _class_of_command(argv: Sequence[str]) -> FailClass | None:
    """The most specific known word of a command; ``make test`` is a test."""
    words = [word for part in argv for word in re.split(r"[^\w+-]+|(?<=\w):", part.lower())]
    known = [_CLASS_OF_WORD[word] for word in words if word in _CLASS_OF_WORD]
    specific = [found for found in known if found is not FailClass.BUILD]
    return next(iter(specific or known), None)


def fingerprint(fail_class: FailClass, argv: Sequence[str], output: str) -> str:
    """The same 64 hex digits for the same failure, however often and wherever it is run.

    Made of the class, the command, the names of failing tests in any order, and the last
    lines with directories, times, hex and numbers folded.
    """
    text = _CONTROLS.sub("", _ESCAPES.sub("", output.replace("\r\n", "\n")))
    tests = sorted(failing_tests(text))
    said = [
        folded
        for line in text[-SEARCHED_CHARACTERS:].splitlines()
        if not _TEST_NAMES.match(line) and (folded := _folded(line))
    ]
    parts = (fail_class.value, *argv, "", *tests, "", *said[-FINGERPRINT_LINES:])
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def failing_tests(output: str) -> tuple[str, ...]:
    """The names of the failing tests that the output lists, each once, in its order."""
    found = (next(name for name in match if name) for match in _TEST_NAMES.findall(output))
    return tuple(dict.fromkeys(found))


def _folded(line: str) -> str:
    for pattern, fold in _FOLDS:
        line = pattern.sub(fold, line)
    return line.strip()


def tail(output: bytes, lines: int, limit: int) -> str:
    """The last ``lines`` lines, at most ``limit`` characters, of any bytes.

    Undecodable bytes and control characters become U+FFFD, terminal escapes are dropped, and
    of a line that overwrote itself with carriage returns the last state is kept.
    """
    if lines <= 0 or limit <= 0:
        return ""
    end = output[-max(4 * limit, WINDOW_BYTES) :]
    text = _ESCAPES.sub("", end.decode("utf-8", "replace")).replace("\r\n", "\n")
    rows = [row.rstrip("\r").rpartition("\r")[2] for row in text.rstrip().split("\n")[-lines:]]
    return _CONTROLS.sub("\ufffd", "\n".join(rows))[-limit:]
