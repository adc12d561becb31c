"""Alignments from A3M: capitals and `-` stand in columns, lower-case letters between them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int32

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.query import AlignedQuery, aligned_query
from elbowroom.datasets.proteins.records import Record, clean_letters, split_records


def read_a3m(lines: Sequence[str], path: Path, findings: Findings) -> AlignedQuery | None:
    """The first row is the query; `.` means nothing; None after a defect that leaves no alignment."""
    rows: list[str] = []
    deletions: list[np.ndarray] = []
    trailing = 0
    for number, record in enumerate(split_records(lines, path, findings), start=1):
        row = _row(record, path, findings, query=number == 1)
        if row is None and number == 1:
            return None
        if row is None:
            continue
        columns, before, after = _split_insertions(row)
        if rows and len(columns) != len(rows[0]):
            where = f"line {record.line}, row {record.name!r}"
            reason = f"{len(columns)} aligned letters, but the query has {len(rows[0])}"
            findings.defect(path, where, reason, "insertions must be lower-case, gaps '-'; check for a cut row")
            continue
        rows.append(columns)
        deletions.append(before)
        trailing += after
    if not rows:
        return None
    if "-" in rows[0]:
        findings.warn("query with gaps, whose columns became insertions", path, "row 1")
    return aligned_query(rows, np.stack(deletions), trailing, path, findings)


def _row(record: Record, path: Path, findings: Findings, *, query: bool) -> str | None:
    row = clean_letters(record, path, findings, gaps="-.")
    if row is None:
        return None
    row = row.replace(".", "")
    if query and row != row.upper():
        findings.warn("lower-case letters in a query, read as capitals", path, f"line {record.line}")
        return row.upper()
    return row


def _split_insertions(row: str) -> tuple[str, Int32[np.ndarray, "column"], int]:
    """Letters in columns, how many insertions stand before each, and how many after the last."""
    inserted = np.frombuffer(row.encode("ascii"), np.uint8) >= ord("a")
    total = np.cumsum(inserted, dtype=np.int32)
    at_columns = total[~inserted]
    columns = "".join(letter for letter in row if not letter.islower())
    after = int(total[-1] - at_columns[-1]) if len(at_columns) else int(inserted.sum())
    return columns, np.diff(at_columns, prepend=np.int32(0)).astype(np.int32), after
