"""Counterfoil: a durable run ledger and plan runner for AI agents.

Importing this package opens nothing and reads no environment; names load when first used.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["House", "Run", "__version__", "open_house"]

if TYPE_CHECKING:
    from counterfoil.app.house import House, Run, open_house


def __getattr__(name: str) -> Any:
    if name in {"House", "Run", "open_house"}:
        from counterfoil.app import house

        return getattr(house, name)
    raise AttributeError(f"module 'counterfoil' has no attribute {name!r}")
