"""The schema as numbered, checksummed migrations, and the procedure that applies them."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from counterfoil.core.errors import MigrationRefused
from counterfoil.ledger.queries import queries
from counterfoil.ports.store import Connection

MIGRATIONS_FOLDER = Path(__file__).parent / "migrations"
_PREFIX = "migration/"
_META = """
CREATE TABLE IF NOT EXISTS meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) /*sqlite WITHOUT ROWID */
"""
_APPLIED = "SELECT key, value FROM meta WHERE key LIKE 'migration/%' ORDER BY key"


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema. A released migration is never edited: its checksum is kept."""

    name: str
    sql: str
    sha256: str


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations, in order."""
    found = []
    for path in sorted(MIGRATIONS_FOLDER.glob("*.sql")):
        sql = path.read_text("utf-8")
        found.append(Migration(path.stem, sql, hashlib.sha256(sql.encode()).hexdigest()))
    return tuple(found)


def migrate(connection: Connection) -> list[str]:
    """Apply what is missing, each in a transaction of its own; the caller holds the lock.

    Returns the names applied. Raises ``MigrationRefused`` when the database was made by a
    newer version or a migration that it has was changed since.
    """
    connection.begin()
    connection.run(_META)
    connection.commit()
    applied = {key.removeprefix(_PREFIX): value for key, value in connection.all(_APPLIED)}
    known = {migration.name: migration for migration in migrations()}
    for name, checksum in applied.items():
        if name not in known:
            raise MigrationRefused(
                f"the ledger has migration {name}, which this version does not know",
                hint="use the version of counterfoil that wrote it, or a newer one",
            )
        if known[name].sha256 != checksum:
            raise MigrationRefused(
                f"migration {name} was changed after this ledger applied it",
                hint="restore the released file; a change of the schema is a new migration",
            )
    missing = [migration for migration in migrations() if migration.name not in applied]
    for migration in missing:
        connection.begin()
        try:
            connection.run(migration.sql)
            connection.run(
                queries("meta")["put_new"],
                {"key": _PREFIX + migration.name, "value": migration.sha256},
            )
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
    return [migration.name for migration in missing]
