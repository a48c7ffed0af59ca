"""Verify: walk the chains, fold the journal into the rows, hash the artifacts again.

A chain proves that nothing inside it was changed or taken out. That nothing was cut off its end
is proven only against a head that was kept elsewhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from counterfoil.core.errors import IntegrityFault, NotFound, ValueRefused
from counterfoil.ledger import artifacts, fold, journal, runs
from counterfoil.ledger.hashing import sha256_text
from counterfoil.ledger.queries import queries
from counterfoil.ledger.states import MACHINES
from counterfoil.ledger.values import ROWS, Scope
from counterfoil.ports.blobs import Blobs
from counterfoil.ports.store import Connection


@dataclass(slots=True)
class Findings:
    """What one stream's verification found. ``faults`` empty: it is as it was recorded.

    ``head`` is the cursor to keep elsewhere; ``completeness`` says against what the end of the
    chain was judged.
    """

    stream: str
    entries: int = 0
    artifacts: int = 0
    head: str = ""
    completeness: str = "no head was given: what was cut off the end cannot be seen"
    faults: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults


def streams(connection: Connection, scope: Scope) -> Iterator[journal.Cursor]:
    """The heads of all streams, and of each that has rows or entries but no head any more."""
    heads = {head.stream: head for head in journal.streams(connection, scope)}
    names = set(heads)
    for table in ("journal", *MACHINES):
        names.update(row[0] for row in connection.all(queries(table)["run_ids"], scope.params()))
    for name in sorted(names):
        yield heads.get(name) or journal.Cursor(name, 0, journal.genesis(scope, name))


def verify_stream(
    connection: Connection,
    blobs: Blobs,
    scope: Scope,
    head: journal.Cursor,
    *,
    kept_head: str = "",
) -> Findings:
    """Verify one stream against its rows, its artifacts and, if given, a head kept elsewhere."""
    findings = Findings(head.stream, head=str(head))
    moves: list[tuple[int, str]] = []
    kept_seq = _seq_of(kept_head) if kept_head else 0
    last = start = journal.Cursor(head.stream, 0, journal.genesis(scope, head.stream))
    for last in _walk(connection, scope, findings, moves, start):
        if kept_head and last.seq == kept_seq:
            _compare_kept(findings, str(last), kept_head)
    if head.seq == 0:
        findings.faults.append(f"{head.stream}: its head row is missing")
    elif (last.seq, last.hash) != (head.seq, head.hash):
        findings.faults.append(
            f"{head.stream}: the head row says {head}, the journal ends at {last}"
        )
    if kept_seq > last.seq:
        findings.faults.append(
            f"{head.stream}: the kept head is {kept_head}, the journal ends at {last}"
        )
    _check_rows(connection, scope, findings, moves)
    _check_artifacts(connection, blobs, scope, findings)
    return findings


def _seq_of(kept_head: str) -> int:
    seq, _, prefix = kept_head.partition("-")
    if not (seq.isascii() and seq.isdigit() and int(seq) and prefix):
        raise ValueRefused(
            f"{kept_head!r} is not a head", hint="give it as verify prints it: 42-1f0c9a77"
        )
    return int(seq)


def _walk(
    connection: Connection,
    scope: Scope,
    findings: Findings,
    moves: list[tuple[int, str]],
    last: journal.Cursor,
) -> Iterator[journal.Cursor]:
    previous = last.hash
    for entry in journal.entries(connection, scope, last.stream):
        expected = last.seq + 1
        if entry.seq != expected:
            findings.faults.append(f"{last.stream}: entry {expected} is missing")
        if entry.payload is None:
            findings.faults.append(
                f"{last.stream}: the body of entry {entry.seq} was taken out, and no entry says why"
            )
        elif entry.body_sha256 != journal.body_hash(entry.payload):
            findings.faults.append(f"{last.stream}: the body of entry {entry.seq} was changed")
        if entry.hash != journal.header_of(entry).hash_after(previous):
            findings.faults.append(f"{last.stream}: the chain breaks at entry {entry.seq}")
        findings.entries += 1
        moves.append((entry.seq, entry.moves))
        previous = entry.hash
        last = journal.Cursor(last.stream, entry.seq, entry.hash)
        yield last


def _compare_kept(findings: Findings, cursor: str, kept_head: str) -> None:
    if cursor == kept_head:
        findings.completeness = f"complete up to the kept head {kept_head}"
    else:
        findings.faults.append(
            f"{findings.stream}: the kept head is {kept_head}, the journal has {cursor}"
        )


def _check_rows(
    connection: Connection, scope: Scope, findings: Findings, moves: list[tuple[int, str]]
) -> None:
    folded = fold.fold(moves)
    findings.faults.extend(folded.illegal)
    for table in MACHINES:
        if table == "runs":
            run = runs.get(connection, scope, findings.stream)
            rows = [asdict(run)] if run else []
        else:
            found = connection.all(queries(table)["of_run"], scope.params(run_id=findings.stream))
            rows = [asdict(ROWS[table](*row)) for row in found]
        findings.faults.extend(fold.differences(folded, table, rows))
        if table in ("runs", "run_steps"):
            kept = artifacts.of_run(connection, scope, findings.stream)
            hashes = {artifact.id: artifact.sha256 for artifact in kept}
            for row in rows:
                _check_text(findings, table, row, hashes)


def _check_text(
    findings: Findings, table: str, row: Mapping[str, Any], hashes: Mapping[str, str]
) -> None:
    """What a recorded hash covers: a run's input, a run's or step's result, inline or stored.

    ``hashes``: those of the run's artifacts.
    """
    for what in ("input", "result"):
        hashed = row.get(f"{what}_sha256")
        if not hashed:
            continue
        text, pointer = row[f"{what}_json"], row[f"{what}_artifact_id"]
        found = hashes.get(pointer) if text is None else sha256_text(str(text))
        if found != hashed:
            place = f"{what}_json" if pointer is None else f"{what}_artifact_id"
            name = fold.describe(fold.row_key(table, row))
            findings.faults.append(f"{name}: {place} is not what its hash says")


def _check_artifacts(
    connection: Connection, blobs: Blobs, scope: Scope, findings: Findings
) -> None:
    for artifact in artifacts.of_run(connection, scope, findings.stream):
        findings.artifacts += 1
        try:
            blobs.check(artifact.sha256)
        except (IntegrityFault, NotFound, ValueRefused) as error:
            findings.faults.append(f"{artifact.id} of {findings.stream}: {error.message}")
