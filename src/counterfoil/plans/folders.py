"""Where the files of a run lie: worktrees by task, folders by attempt and gate."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}")


def slug(name: str) -> str:
    """A file name for an id: itself when it is plain, else its plain part and a hash."""
    if _PLAIN.fullmatch(name) and not name.endswith((".lock", ".")):
        return name
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:24].strip("-")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain}-{digest}" if plain else digest


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run below the state folder."""

    root: Path

    def worktree(self, task_id: str) -> Path:
        return self.root / "worktrees" / slug(task_id)

    def attempt(self, attempt_id: str) -> Path:
        return self.root / "attempts" / attempt_id

    def checkout(self, attempt_id: str, tree: str) -> Path:
        """A fresh checkout of a candidate for its gates."""
        return self.root / "checkouts" / f"{attempt_id[-12:]}-{tree[:12]}"

    def checkouts(self) -> list[Path]:
        """The checkouts that are there now."""
        folder = self.root / "checkouts"
        return sorted(folder.iterdir()) if folder.is_dir() else []
