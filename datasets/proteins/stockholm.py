"""Alignments from Stockholm files, as HMMER and Pfam write them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.alphabet import first_unknown_letter
from elbowroom.datasets.proteins.query import AlignedQuery, aligned_query

_GAPS: Final = str.maketrans("._~", "---")


def read_stockholm(lines: Sequence[str], path: Path, findings: Findings) -> AlignedQuery | None:
    """The first row is the query, and its residues are the columns; None after a defect that leaves no alignment."""
    if not lines[0].lstrip().startswith("# STOCKHOLM"):
        return findings.defect(path, "line 1", "does not begin with '# STOCKHOLM 1.0'", "check the kind of the file")
    segments, first_line = _collect_segments(lines, path, findings)
    rows: list[str] = []
    for name, parts in segments.items():
        row = "".join(parts)
        if rows and len(row) != len(rows[0]):
            where = f"line {first_line[name]}, row {name!r}"
            reason = f"{len(row)} columns in all, but the query has {len(rows[0])}"
            findings.defect(path, where, reason, "every row needs the same length, and a name of its own")
            continue
        rows.append(row)
    if not rows:
        return findings.defect(path, "", "holds no sequence", "each row is a name, blanks and its letters")
    return aligned_query(rows, np.zeros((len(rows), len(rows[0])), np.int32), 0, path, findings)


def _collect_segments(
    lines: Sequence[str], path: Path, findings: Findings
) -> tuple[dict[str, list[str]], dict[str, int]]:
    segments: dict[str, list[str]] = {}
    first_line: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith("# STOCKHOLM"):
            findings.defect(path, f"line {number}", "a second alignment begins", "keep one alignment in each file")
            return segments, first_line
        if line.startswith(("#", "//")) or not line.strip():
            continue
        name, *parts = line.split()
        text = "".join(parts).upper().translate(_GAPS)
        unknown = first_unknown_letter(text, allowed="-")
        if unknown is not None or not text:
            reason = f"{text[unknown]!r} is not a residue letter" if unknown is not None else "has no letters"
            findings.defect(path, f"line {number}, row {name!r}", reason, "each row is a name, blanks and its letters")
            continue
        segments.setdefault(name, []).append(text)
        first_line.setdefault(name, number)
    return segments, first_line
