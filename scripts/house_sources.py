"""The files of the tree as the house rules read them, and what a rule finds in one."""

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

EXCUSE = re.compile(r"\bhouse: ([a-z-]+) - \w+")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the tree, read once."""

    path: str
    text: str
    lines: Sequence[str]
    tree: ast.Module | None = field(compare=False)

    def under(self, *folders: str) -> bool:
        return any(self.path.startswith(f"{folder}/") for folder in folders)

    def excused(self, line: int, rule: str) -> bool:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return excuses(text, rule)

    def walk(self) -> Iterator[ast.AST]:
        """Every node of its code; nothing for a file that is not Python."""
        return ast.walk(self.tree) if self.tree else iter(())


def excuses(text: str, rule: str) -> bool:
    """Whether a text excuses itself from a rule, with a reason."""
    return any(match[1] == rule for match in EXCUSE.finditer(text))


def read_tree(root: Path) -> list[Source]:
    """Every text file that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
    ).stdout
    paths = sorted({name.decode() for name in listed.split(b"\0") if name})
    read = (read_file(root, path) for path in paths)
    return [source for source in read if source is not None]


def read_file(root: Path, path: str) -> Source | None:
    """None for what is not text, or is a link or gone."""
    place = root / path
    if place.is_symlink() or not place.is_file():
        return None
    try:
        text = place.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
    tree = None
    if path.endswith(".py"):
        try:
            tree = ast.parse(text)
        except SyntaxError:
            tree = None  # the linter reports it
    return Source(path, text, text.splitlines(), tree)
