"""The figures as a table for people, and as JSON for whoever compares two runs."""

import json
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from importlib import metadata

from bench.figures import Figure, Findings
from bench.limits import BY_KEY

NO_VERSION = "not installed"


def table(findings: Mapping[str, Findings]) -> str:
    """One line a figure, with its limit and whether it is kept."""
    rows = [_row(figure) for found in findings.values() for figure in found.figures]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    lines = [_aligned(row, widths) for row in rows]
    for found in findings.values():
        lines += [f"skipped: {reason}" for reason in found.skipped]
        lines += [f"failed: {reason}" for reason in found.failed]
    return "\n".join(lines)


def as_json(findings: Mapping[str, Findings]) -> str:
    """Every figure by key, with what it was measured on."""
    figures = {f.key: round(f.value, 4) for found in findings.values() for f in found.figures}
    skipped = [reason for found in findings.values() for reason in found.skipped]
    failed = [reason for found in findings.values() for reason in found.failed]
    document = {
        "machine": machine(),
        "figures": figures,
        "skipped": skipped,
        "failed": failed,
    }
    return json.dumps(document, indent=2) + "\n"


def machine() -> dict[str, str]:
    """What a reader must know to compare: versions and kind of machine, no names."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "apsw": _version("apsw"),
        "sqlite3 of Python": sqlite3.sqlite_version,
        "dbos": _version("dbos"),
    }


def _row(figure: Figure) -> tuple[str, ...]:
    limit = BY_KEY.get(figure.key)
    if limit is None:
        verdict = ""
    else:
        verdict = f"{limit.text} {'kept' if limit.allows(figure.value) else 'MISSED'}"
    return figure.key, f"{figure.value:,.2f}", figure.unit, verdict, figure.what


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    cells[1] = row[1].rjust(widths[1])
    return "  ".join(cells).rstrip()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return NO_VERSION
