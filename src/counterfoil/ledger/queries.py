"""The named SQL of each table, one ``.sql`` file per table, one text for every engine."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import aiosql

SQL_FOLDER = Path(__file__).parent / "sql"


@cache
def queries(table: str) -> Mapping[str, str]:
    """The statements of one table: {name: SQL with ``:name`` parameters}."""
    loaded = aiosql.from_path(
        SQL_FOLDER / f"{table}.sql", "apsw", kwargs_only=True, mandatory_parameters=False
    )
    return {
        name: getattr(loaded, name).sql
        for name in loaded.available_queries
        if not name.endswith("_cursor")
    }


def tables() -> tuple[str, ...]:
    """The tables that have named SQL."""
    return tuple(sorted(path.stem for path in SQL_FOLDER.glob("*.sql")))
