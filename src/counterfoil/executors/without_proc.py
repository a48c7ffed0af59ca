"""The process table of a system without /proc, asked of psutil.

psutil is imported with the first question only: the keeper must start without it.
"""

import importlib
import os
from typing import Any


def pids() -> list[int]:
    return list(importlib.import_module("psutil").pids())


def boot_id() -> str:
    return f"boot-{int(importlib.import_module('psutil').boot_time())}"


def row(pid: int) -> dict[str, Any] | None:
    """The fields of ``processes.Process``; start times are microseconds since 1970."""
    psutil = importlib.import_module("psutil")
    letters = {psutil.STATUS_ZOMBIE: "Z", psutil.STATUS_DEAD: "X", psutil.STATUS_STOPPED: "T"}
    try:
        known = psutil.Process(pid)
        return {
            "pid": pid,
            "ppid": known.ppid(),
            "group": os.getpgid(pid),
            "start": int(known.create_time() * 1_000_000),
            "state": letters.get(known.status(), "S"),
            "terminal": known.terminal() is not None,
        }
    except (psutil.Error, OSError):
        return None


def ask(pid: int, question: str) -> Any:
    """The answer of one method of psutil's Process, or None."""
    psutil = importlib.import_module("psutil")
    try:
        return getattr(psutil.Process(pid), question)()
    except (psutil.Error, OSError):
        return None
