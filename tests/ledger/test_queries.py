"""Every named query keeps to its scope; statements and schema name the same columns."""

import re
from collections.abc import Iterator

import pytest

from counterfoil.ledger.queries import queries, tables
from counterfoil.ledger.schema import migrations

SCOPE = ("tenant_id", "workspace_id")


def schema() -> dict[str, list[str]]:
    """The columns of each table, read from the migrations."""
    text = "\n".join(migration.sql for migration in migrations())
    found = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", text, re.S)
    return {
        name: [
            words[0]
            for words in (line.split() for line in body.splitlines())
            if words and words[0].islower()
        ]
        for name, body in found
    }


SCOPED = {name for name, columns in schema().items() if set(SCOPE) <= set(columns)}


def named() -> Iterator[tuple[str, str, str]]:
    for table in tables():
        for name, sql in queries(table).items():
            yield table, name, " ".join(sql.split())


def touched(sql: str) -> list[tuple[str, str]]:
    """The tables that a statement reads or writes, with the alias of each."""
    found = re.findall(
        r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)(?:\s+(?!WHERE|SET|LEFT|ON)(\w+))?", sql
    )
    return [(table, alias) for table, alias in found if table in SCOPED]


def test_every_table_but_meta_is_scoped() -> None:
    assert set(schema()) == SCOPED
    assert set(tables()) - SCOPED == {"meta"}


@pytest.mark.parametrize(("table", "name", "sql"), [*named()], ids=lambda part: part[:24])
def test_a_query_on_a_scoped_table_carries_both_scope_columns(
    table: str, name: str, sql: str
) -> None:
    for touched_table, alias in touched(sql):
        for column in SCOPE:
            if sql.startswith("INSERT"):
                columns, values = re.search(r"\((.*?)\) VALUES \((.*?)\)", sql).groups()
                place = columns.replace(" ", "").split(",").index(column)
                assert values.replace(" ", "").split(",")[place] == f":{column}"
                continue
            owner = f"{alias}." if alias else ""
            conditions = sql.split(" WHERE ", 1)[-1] + sql.partition(" ON ")[2]
            bound = rf"(?<![\w.]){re.escape(owner)}{column} = (?::{column}|\w\.{column})"
            assert re.search(bound, conditions), f"{table}.{name}: {touched_table}.{column}"


@pytest.mark.parametrize(("table", "name", "sql"), [*named()], ids=lambda part: part[:24])
def test_a_query_stays_with_its_own_table(table: str, name: str, sql: str) -> None:
    written = re.findall(r"\b(?:INTO|UPDATE) (?!SET)(\w+)", sql)
    owner = {"journal": {"journal", "run_heads"}}.get(table, {table})
    assert set(written) <= owner
    assert " OR " not in sql, "a condition beside the scope's must not open it"


@pytest.mark.parametrize("table", sorted(SCOPED))
def test_the_scope_leads_every_key_and_index(table: str) -> None:
    text = "\n".join(migration.sql for migration in migrations())
    body = re.search(rf"CREATE TABLE {table} \((.*?)\n\)", text, re.S)[1]
    keys = re.findall(r"PRIMARY KEY \((.*?)\)", body)
    keys += re.findall(rf"INDEX \w+\s+ON {table} \((.*?)\)", text)
    for key in keys:
        assert key.startswith("tenant_id, workspace_id"), key


def test_no_statement_counts_rows_or_asks_the_engine_for_the_time() -> None:
    for table, name, sql in named():
        asked = re.findall(r"(?<!:)\b(?:now|changes|strftime|CURRENT_\w+)\b", sql, re.I)
        assert asked == [], (table, name)
