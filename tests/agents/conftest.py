"""Briefs for the adapters under test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from counterfoil.ports.agent import Brief


@pytest.fixture
def a_brief(tmp_path: Path) -> Callable[..., Brief]:
    """Make a brief; whatever is named replaces the default."""

    def make(**changes: Any) -> Brief:
        values: dict[str, Any] = {
            "task_id": "t1",
            "title": "Say hello",
            "prompt": "Write hello.txt.",
            "run": None,
            "worktree": tmp_path,
            "folder": tmp_path,
        }
        return Brief(**(values | changes))

    return make
