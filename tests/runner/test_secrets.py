"""No secret that a run hands on is anywhere on disk afterwards, whichever road it took."""

from pathlib import Path
from typing import Any

import pytest

SECRETS = {
    "MY_API_KEY": "ENV-abcdefghijklmnopqrstuvwxyz-LASTPART",
    "STRIPE_KEY": "stripe-0123456789-ENDOFIT",
}


def found(folder: Path, parts: list[bytes]) -> list[str]:
    """The files below a folder that hold one of the texts."""
    hits = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            hits += [f"{path.name}: {part.decode()}" for part in parts if part in data]
    return hits


def test_no_road_leads_a_secret_to_the_disk(
    stage: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    gate_secret = "PLANTED3-gate-secret-value"
    task_secret = "PLANTED4-task-secret-value"
    dots = "printf '%1990s' ' ' | tr ' ' ."
    more = "printf '%4085s' ' ' | tr ' ' ."
    say = f'echo "gate $GATE_SECRET"; printf "%s" "$MY_API_KEY"; {more}; exit 1'
    gate = kit.gate("g", say)
    gate["env"] = {"GATE_SECRET": gate_secret}
    played = stage.run(
        kit.sh("cut", f"printf '%s' \"$MY_API_KEY\"; {dots}; exit 4", retries=0),
        kit.sh("cut2", f"printf '%s' \"$STRIPE_KEY\" >&2; {dots} >&2; exit 4", retries=0),
        kit.sh("gated", "echo 1 > gated.txt", gates=[gate], retries=0),
        kit.sh(
            "argv",
            f"echo {task_secret} >/dev/null; echo 1 > argv.txt",
            env={"TASK_SECRET": task_secret},
            title=f"use {SECRETS['MY_API_KEY']}",
        ),
        kit.sh("left", "setsid sh -c 'sleep 60; :' \"left-$MY_API_KEY\" & echo 1 > left.txt"),
    )
    assert played.statuses()["argv"] == "merged"
    parts = [b"LASTPART", b"ENDOFIT", gate_secret.encode(), task_secret.encode()]
    parts += [b"abcdefghijklmnop", b"0123456789-END"]
    assert found(stage.home, parts) == []
    log = stage.git("log", "--all", "--format=%B")
    assert not [part for part in parts if part.decode() in log]
