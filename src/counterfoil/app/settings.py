"""Settings and where they come from: built-in defaults under the environment."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from counterfoil.core.errors import SettingInvalid
from counterfoil.plans.fields import MAX_SECONDS


def _default_home() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "counterfoil"


class Settings(BaseSettings):
    """Every setting is an environment variable of the same name with ``COUNTERFOIL_`` before it.

    A variable that is empty counts as unset.
    """

    model_config = SettingsConfigDict(
        env_prefix="COUNTERFOIL_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    home: Path = Field(
        default_factory=_default_home,
        description="Folder of the default ledger, the artifacts, the worktrees and the logs.",
    )
    ledger: Path | None = Field(
        default=None, description="The ledger's SQLite file; by default ledger.db in the home."
    )
    concurrency: int = Field(
        default=4, ge=1, le=256, description="How many tasks of a plan run side by side."
    )
    agent: str = Field(default="claude", description="The agent of a prompt task that names none.")
    durability: Literal["full", "normal"] = Field(
        default="full",
        description="full survives power loss; normal survives the process and is faster.",
    )
    task_timeout: float = Field(
        default=3600.0,
        gt=0,
        le=MAX_SECONDS,
        allow_inf_nan=False,
        description="Seconds an attempt may take when its task says nothing.",
    )
    gate_timeout: float = Field(
        default=1800.0,
        gt=0,
        le=MAX_SECONDS,
        allow_inf_nan=False,
        description="Seconds a gate may take when it says nothing.",
    )
    grace: float = Field(
        default=5.0,
        gt=0,
        le=3600,
        allow_inf_nan=False,
        description="Seconds between asking a process to end and ending it.",
    )

    @property
    def ledger_file(self) -> Path:
        return (self.ledger or self.home / "ledger.db").expanduser().absolute()

    @property
    def artifacts_folder(self) -> Path:
        return self.ledger_file.parent / f"{self.ledger_file.stem}.artifacts"


def load_settings() -> Settings:
    """The settings of this process. Raises ``SettingInvalid`` naming the variable."""
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "COUNTERFOIL_" + str(first["loc"][0]).upper()
        raise SettingInvalid(f"{name}: {first['msg']}", hint=f"correct or unset {name}") from error
