"""The rules of the house that no linter knows, as one command: ``python scripts/house_rules.py``.

It reports the largest rooms and functions, and fails with one line for each thing that breaks a
rule. A line may be excused where it stands: ``house: RULE - reason`` in a comment of that line;
a long room or function in pyproject.toml, table ``tool.house_rules.long``, with its reason.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from house_sources import Finding, Source, excuses, read_tree

ROOM_LINES = 400
FUNCTION_LINES = 60
CODE = ("src", "scripts", "bench", "examples")
SAMPLE = "src/counterfoil/samples/tidepool"
STATES = "src/counterfoil/ledger/states.py"
EMPTY_NAMES = frozenset({"utils", "helpers", "common", "manager", "base", "misc"})

BANNED = frozenset(
    [f"time.{name}" for name in ("time", "monotonic", "perf_counter")]
    + [f"time.{name}_ns" for name in ("time", "monotonic", "perf_counter")]
    + [f"{module}.uuid{n}" for module in ("uuid", "uuid_utils") for n in (1, 4, 6, 7)]
    + [f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")]
    + ["datetime.date.today", "time.sleep", "asyncio.sleep"]
)
EXCUSED_LINT = re.compile(r"noqa: TID251 - \w+")
CLOCK_ROOMS = frozenset({"src/counterfoil/core/clock.py", "src/counterfoil/core/ids.py"})
SHELLS = frozenset({"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"})

HOST = re.compile(
    r"pypi\.or[g]|pythonhosted\.or[g]|npmjs\.(?:or[g]|co[m])|\"resolved\": *\"https?:"
    r"|(?:index-url|find-links)[ =]+https?:|https?://\S+\.(?:whl|tar\.gz|tgz)\b"
)
MACHINE = re.compile(r"(?<![\w.~/-])/(?:roo[t]|wor[k]|tmp/c[f])/")
SOMEBODYS = re.compile(r"(?<![\w.~/-])/(?:hom[e]|User[s])/\w+/")


@dataclass(frozen=True, slots=True)
class Size:
    lines: int
    path: str
    name: str
    line: int

    @property
    def key(self) -> str:
        return f"{self.path}::{self.name}" if self.name else self.path


def main(argv: Sequence[str] | None = None) -> int:
    """Check the tree; 0 when it keeps every rule."""
    parser = argparse.ArgumentParser(prog="house_rules.py", description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    root: Path = parser.parse_args(argv).root
    sources = read_tree(root)
    for line in largest(sources):
        print(line)
    findings = check(sources, long_ones(root))
    for finding in findings:
        print(finding)
    count = len(findings)
    print(f"house rules: {len(sources)} files, {count or 'nothing'} to mend")
    return 1 if findings else 0


def check(sources: Sequence[Source], long: Mapping[str, str]) -> list[Finding]:
    """Every finding of every rule, in the order of files and lines."""
    words = status_words(sources)
    findings = [*sizes_kept(sources, long), *queries_scoped(sources)]
    for source in sources:
        found = [*names_say_something(source), *no_hosts_or_machines(source)]
        if source.under(*CODE) and not source.under(SAMPLE):
            found += no_shell(source)
        if source.under("src") and not source.under(SAMPLE):
            found += [*clock_comes_in(source), *status_words_in_one_room(source, words)]
        findings += [one for one in found if not source.excused(one.line, one.rule)]
    return sorted(findings)


def long_ones(root: Path) -> Mapping[str, str]:
    """Rooms and functions that may be long, each with its reason."""
    project = root / "pyproject.toml"
    tool = tomllib.loads(project.read_text()).get("tool", {}) if project.exists() else {}
    long = tool.get("house_rules", {}).get("long", {})
    return {str(key): str(reason) for key, reason in long.items()}


# Sizes and names


def sizes(source: Source) -> Iterator[Size]:
    yield Size(len(source.lines), source.path, "", 1)
    for node in source.walk():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            yield Size(lines, source.path, node.name, node.lineno)


def all_sizes(sources: Sequence[Source], *folders: str) -> list[Size]:
    code = (s for s in sources if s.tree and s.under(*folders) and not s.under(SAMPLE))
    return sorted((size for s in code for size in sizes(s)), key=lambda one: -one.lines)


def sizes_kept(sources: Sequence[Source], long: Mapping[str, str]) -> Iterator[Finding]:
    needed = set()
    for size in all_sizes(sources, *CODE):
        limit = FUNCTION_LINES if size.name else ROOM_LINES
        if size.lines <= limit:
            continue
        needed.add(size.key)
        if not long.get(size.key, "").strip():
            what = f"function {size.name}" if size.name else "room"
            text = f"{what} has {size.lines} lines, over {limit}: split it by reason to change"
            yield Finding(size.path, size.line, "size", text)
    for key in sorted(long.keys() - needed):
        yield Finding("pyproject.toml", 1, "size", f"{key} is listed as long and is not")


def largest(sources: Sequence[Source]) -> Iterator[str]:
    found = all_sizes(sources, *CODE, "tests")
    for what, some in (
        ("rooms", [size for size in found if not size.name]),
        ("functions", [size for size in found if size.name]),
    ):
        top = ", ".join(f"{size.key} {size.lines}" for size in some[:4])
        mean = sum(size.lines for size in some) // max(len(some), 1)
        yield f"largest {what} (of {len(some)}, mean {mean} lines): {top}"


def names_say_something(source: Source) -> Iterator[Finding]:
    for part in Path(source.path).parts:
        stem = part.split(".")[0]
        bare = stem.removeprefix("test_").strip("_")
        if bare in EMPTY_NAMES:
            yield Finding(source.path, 1, "name", f"{stem!r} does not say what is inside")


# Code


def no_shell(source: Source) -> Iterator[Finding]:
    for node in source.walk():
        if not isinstance(node, ast.Call):
            continue
        named = dotted(node.func)
        for keyword in node.keywords:
            off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            if keyword.arg == "shell" and not off:
                yield Finding(source.path, node.lineno, "shell", "start children from argv lists")
        if named in SHELLS:
            yield Finding(source.path, node.lineno, "shell", f"{named} starts a shell")


def clock_comes_in(source: Source) -> Iterator[Finding]:
    """Clock, ids and sleep, also under another name or imported one by one."""
    if source.path in CLOCK_ROOMS:
        return
    nodes = list(source.walk())
    names: dict[str, str] = {}
    for node in nodes:
        names |= imported(node)
    for node in nodes:
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        first, dot, rest = dotted(node).partition(".")
        called = names.get(first, "") + dot + rest
        if called in BANNED and not EXCUSED_LINT.search(source.lines[node.lineno - 1]):
            text = f"{called}: take clock and ids from outside, wait on signals"
            yield Finding(source.path, node.lineno, "clock", text)


def imported(node: ast.AST) -> dict[str, str]:
    """What an import binds: the local name and the full one behind it."""
    if isinstance(node, ast.Import):
        return {(a.asname or a.name): a.name for a in node.names}
    if isinstance(node, ast.ImportFrom) and node.module:
        return {(a.asname or a.name): f"{node.module}.{a.name}" for a in node.names}
    return {}


def dotted(node: ast.expr) -> str:
    """``a.b.c`` of a chain of names, else an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (left := dotted(node.value)):
        return f"{left}.{node.attr}"
    return ""


# Status words


def status_words(sources: Sequence[Source]) -> frozenset[str]:
    """The values of every ``…Status`` enumeration of the room of states."""
    words: set[str] = set()
    for source in sources:
        if source.path != STATES or source.tree is None:
            continue
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Status"):
                words |= {text for member in node.body for text in assigned_text(member)}
    return frozenset(words)


def assigned_text(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
        yield str(node.value.value)


def status_words_in_one_room(source: Source, words: frozenset[str]) -> Iterator[Finding]:
    """A status word is misplaced where it is compared, matched, or given as a status.

    Prose, keys of dictionaries and words of other vocabularies stay free.
    """
    if source.path == STATES:
        return
    for node in source.walk():
        for value in status_places(node):
            for one in ast.walk(value):
                if isinstance(one, ast.Constant) and one.value in words:
                    text = f"{one.value!r} is spelled out; import it from ledger.states"
                    yield Finding(source.path, one.lineno, "status", text)


def status_places(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions below a node in which a plain status word would be a status."""
    if isinstance(node, ast.Compare):
        for side in (node.left, *node.comparators):
            if isinstance(side, ast.Constant | ast.Tuple | ast.List | ast.Set):
                yield side
    elif isinstance(node, ast.MatchValue):
        yield node.value
    elif isinstance(node, ast.Call):
        yield from (k.value for k in node.keywords if is_status(k.arg) and plain(k.value))
        name = dotted(node.func).rpartition(".")[2]
        if "move" in name or "status" in name:
            yield from (argument for argument in node.args if plain(argument))
    elif isinstance(node, ast.Assign):
        if any(is_status(dotted(target).rpartition(".")[2]) for target in node.targets):
            yield from (value for value in [node.value] if plain(value))
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        if is_status(dotted(node.target).rpartition(".")[2]) and plain(node.value):
            yield node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and is_status(str(key.value)) and plain(value):
                yield value


def is_status(name: str | None) -> bool:
    return name is not None and (name == "status" or name.endswith("_status"))


def plain(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant | ast.IfExp)


# Text and SQL


def no_hosts_or_machines(source: Source) -> Iterator[Finding]:
    """Tests may make up a home folder as data; nothing else may name one."""
    machines = (MACHINE,) if source.under("tests") else (MACHINE, SOMEBODYS)
    for number, line in enumerate(source.lines, 1):
        for match in HOST.finditer(line):
            yield Finding(source.path, number, "host", f"names a registry's host: {match[0]}")
        for match in (found for path in machines for found in path.finditer(line)):
            yield Finding(source.path, number, "machine", f"names a machine's path: {match[0]}")


def queries_scoped(sources: Sequence[Source]) -> Iterator[Finding]:
    """Each named query on a scoped table names tenant and workspace (in its WHERE, if it has one).

    A query that crosses scopes on purpose says so: ``-- house: scope - reason``.
    """
    texts = [source for source in sources if source.path.endswith(".sql") and source.under("src")]
    scoped = {table for source in texts for table in scoped_tables(source.text)}
    for source in texts:
        for number, name, body in named_queries(source.text):
            bare = re.sub(r"--.*", "", body)
            touched = scoped & set(
                re.findall(r"(?i)\b(?:from|join|into|update)\s+(?:or\s+\w+\s+)?\"?(\w+)", bare)
            )
            excused = excuses(body, "scope")
            inserts = re.search(r"(?i)\binsert\b", bare)
            where = bare if inserts else re.split(r"(?i)\bwhere\b", f"{bare} where ", maxsplit=1)[1]
            missing = [c for c in ("tenant_id", "workspace_id") if c not in where]
            if touched and missing and not excused:
                text = f"query {name} on {', '.join(sorted(touched))} has no {', '.join(missing)}"
                yield Finding(source.path, number, "scope", text)


def scoped_tables(sql: str) -> Iterator[str]:
    """Tables that are created with a tenant_id column."""
    bare = re.sub(r"--.*", "", sql)
    for match in re.finditer(
        r"(?is)create\s+table\s+(?:if\s+not\s+exists\s+)?\"?(\w+)\"?\s*\(([^;]*)", bare
    ):
        if re.search(r"\btenant_id\b", match[2]):
            yield match[1]


def named_queries(sql: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and text of each ``-- name: …`` query."""
    parts = re.split(r"(?m)^--\s*name:\s*([\w^$!*#]+).*$", sql)
    line = parts[0].count("\n") + 1
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        yield line, name, body
        line += body.count("\n")


if __name__ == "__main__":
    sys.exit(main())
