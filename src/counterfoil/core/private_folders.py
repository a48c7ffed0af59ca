"""Folders that are for their owner alone, with all that had to be made above them."""

from pathlib import Path

PRIVATE = 0o700


def make_private(folder: Path) -> None:
    """Create a folder, every missing parent as private as itself; one that is there stays as is.

    ``Path.mkdir`` gives its mode to the last folder only.
    """
    missing = [folder, *folder.parents]
    for each in reversed(missing):
        if not each.is_dir():
            each.mkdir(mode=PRIVATE, exist_ok=True)
