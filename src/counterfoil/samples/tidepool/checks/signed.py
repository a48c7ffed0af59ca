"""Passes when the notice carries the harbour master's signature."""

from pathlib import Path

notice = Path("NOTICE.md").read_text(encoding="utf-8")
if "Signed: the harbour master" not in notice:
    raise SystemExit("NOTICE.md is not signed by the harbour master")
