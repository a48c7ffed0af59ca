"""Where the files of a run lie: worktrees by task, folders by attempt and gate."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

# Lower case: some file systems take A and a for one name.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9._-]{0,47}")


PREPARE = "prepare"
GATES = "gates"


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

    @property
    def home(self) -> Path:
        """The state folder, of all runs."""
        return self.root.parent.parent

    def checkout(self, attempt_id: str, tree: str, fence: int) -> Path:
        """A fresh checkout of a candidate for its gates, of one driver's own."""
        return self.root / "checkouts" / f"{attempt_id[-12:]}-{tree[:12]}-{fence}"

    def checkouts(self) -> list[Path]:
        """The checkouts that are there now."""
        folder = self.root / "checkouts"
        return sorted(folder.iterdir()) if folder.is_dir() else []


def remove_raw_output(folder: Path) -> None:
    """The raw output is the one place before redaction: it goes once it is harvested."""
    for name in ("stdout", "stderr", "stdin", "spec.json", "exit.json", "feedback.txt"):
        (folder / name).unlink(missing_ok=True)


def remove_all_raw_output(folder: Path) -> None:
    """That of an attempt, its preparation and its gates."""
    for place in (folder, folder / PREPARE, *gate_folders(folder)):
        remove_raw_output(place)


def gate_folders(folder: Path) -> list[Path]:
    """The folders of the gates that judged an attempt's candidate, in the order of their runs."""
    return sorted((folder / GATES).glob("*"))
