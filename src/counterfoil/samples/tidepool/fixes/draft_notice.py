"""Drafts the notice to mariners. Signing it is not for a program to do."""

from pathlib import Path

Path("NOTICE.md").write_text(
    "# Notice to mariners\n\nWalking times are published from the first of March.\n\nSigned:\n",
    encoding="utf-8",
)
print("NOTICE.md: drafted, not signed")
