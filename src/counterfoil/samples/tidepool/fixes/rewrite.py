"""Puts a new text in the place of one function: what the scripts of this folder have in common.

They stand in for coding agents: each works for a moment, then edits one module. Doing the same
edit twice is harmless, as a retry starts from the files of the try before it.
"""

import ast
import time
from pathlib import Path

WORK_SECONDS = 0.5


def rewrite_function(module: str, name: str, source: str) -> None:
    """Replace the top-level function ``name`` of a file by ``source``."""
    time.sleep(WORK_SECONDS)
    path = Path(module)
    lines = path.read_text(encoding="utf-8").splitlines()
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            lines[node.lineno - 1 : node.end_lineno] = source.strip("\n").splitlines()
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            print(f"{module}: rewrote {name}")
            return
    raise SystemExit(f"{module} has no function {name}")
