"""From the rows of an alignment file to an alignment on its query's residues."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Int32
from numpy import ndarray

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.alignment import Alignment, distinct_rows, on_query_columns


@dataclass(frozen=True, kw_only=True)
class AlignedQuery:
    """What an alignment file holds."""

    sequence: str
    """The query's letters, without gaps."""
    alignment: Alignment
    path: Path


def aligned_query(
    rows: Sequence[str], deletions: Int32[ndarray, "seq column"], after: int, path: Path, findings: Findings
) -> AlignedQuery | None:
    """The alignment of the first row, of capital letters and `-`; None if that row is all gaps.

    `after` counts the letters inserted after the last column; they have no place in AlphaFold's features.
    """
    if not rows[0].strip("-"):
        return findings.defect(path, "row 1", "the query is all gaps", "put the query's own sequence first")
    alignment, beyond = on_query_columns(rows, deletions)
    if after + beyond:
        findings.warn("letter inserted after the query's last residue, left out", path, count=after + beyond)
    distinct = distinct_rows(alignment)
    if distinct.num_rows < alignment.num_rows:
        count = alignment.num_rows - distinct.num_rows
        findings.warn("alignment row equal to an earlier one, left out", path, count=count)
    return AlignedQuery(sequence=rows[0].replace("-", ""), alignment=distinct, path=path)
