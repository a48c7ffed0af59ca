"""Where settings come from, and which values are refused."""

from pathlib import Path

import pytest

from counterfoil.app.settings import load_settings
from counterfoil.core.errors import SettingInvalid


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "LEDGER", "TASK_TIMEOUT", "GATE_TIMEOUT", "GRACE", "AGENT"):
        monkeypatch.delenv(f"COUNTERFOIL_{name}", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize("name", ["HOME", "LEDGER", "AGENT", "GRACE"])
def test_an_empty_variable_counts_as_unset(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unset = load_settings()
    monkeypatch.setenv(f"COUNTERFOIL_{name}", "")
    assert load_settings() == unset
    assert unset.ledger_file == tmp_path / "counterfoil" / "ledger.db"


@pytest.mark.parametrize("name", ["TASK_TIMEOUT", "GATE_TIMEOUT", "GRACE"])
@pytest.mark.parametrize("value", ["0", "-1", "inf", "nan", "1e9", "soon"])
def test_a_time_that_cannot_be_waited_is_refused_by_its_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"COUNTERFOIL_{name}", value)
    with pytest.raises(SettingInvalid, match=f"COUNTERFOIL_{name}: "):
        load_settings()


def test_a_year_of_work_and_an_hour_of_grace_are_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_TASK_TIMEOUT", "31536000")
    monkeypatch.setenv("COUNTERFOIL_GATE_TIMEOUT", "31536000")
    monkeypatch.setenv("COUNTERFOIL_GRACE", "3600")
    assert load_settings().grace == 3600
    monkeypatch.setenv("COUNTERFOIL_GRACE", "3601")
    with pytest.raises(SettingInvalid, match="COUNTERFOIL_GRACE"):
        load_settings()
