"""Records that start with `>`, the common frame of FASTA and A3M, and the cleaning of their letters."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.alphabet import LETTERS

_BOTH_CASES: Final = LETTERS | {letter.lower() for letter in LETTERS}


@dataclass(frozen=True, kw_only=True)
class Record:
    """A header and the lines below it."""

    header: str
    """without the `>`"""
    line: int
    """of the header, from 1"""
    body: tuple[tuple[int, str], ...]
    """lines that are not blank, with their numbers"""

    @property
    def name(self) -> str:
        """The first word of the header; everything after it is a description."""
        words = self.header.split()
        return words[0] if words else ""


def split_records(lines: Sequence[str], path: Path, findings: Findings) -> list[Record]:
    """Records in file order; lines that begin with `#` or `;` are comments."""
    starts: list[tuple[int, str]] = []
    bodies: list[list[tuple[int, str]]] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith(("#", ";")) or not line.strip():
            continue
        if line.startswith(">"):
            starts.append((number, line[1:].strip()))
            bodies.append([])
        elif bodies:
            bodies[-1].append((number, line))
        else:
            findings.defect(
                path, f"line {number}", "no '>' before the first letters", "begin each sequence with '>name'"
            )
            return []
    if not starts:
        findings.defect(path, "", "holds no sequence", "begin each sequence with a line '>name'")
    return [
        Record(header=header, line=number, body=tuple(body))
        for (number, header), body in zip(starts, bodies, strict=True)
    ]


def clean_letters(record: Record, path: Path, findings: Findings, *, gaps: str) -> str | None:
    """The record's letters in both cases and `gaps`, joined; None after a defect.

    Blanks are left out with a warning, and so is a `*` at the end, the stop codon of translated genes.
    """
    parts: list[str] = []
    for number, line in record.body:
        text = line.rstrip()
        if number == record.body[-1][0]:
            text = text.rstrip("*").rstrip()
        words = text.split()
        if len(words) > 1 or text[:1].isspace():
            findings.warn("blanks inside a sequence, left out", path, f"line {number}")
        for column, letter in enumerate(text, start=1):
            if letter not in _BOTH_CASES and letter not in gaps and not letter.isspace():
                findings.defect(path, f"line {number}, column {column}, {_titled(record)}", *_complaint(letter))
                return None
        parts.extend(words)
    sequence = "".join(parts)
    if not sequence:
        findings.defect(
            path, f"line {record.line}, {_titled(record)}", "has no letters", "remove it or add its sequence"
        )
        return None
    return sequence


def _titled(record: Record) -> str:
    return f"row {record.name!r}"


def _complaint(letter: str) -> tuple[str, str]:
    if letter in "-.":
        return f"{letter!r} is a gap, but FASTA is read as unaligned", "remove the gaps, or name an alignment .a3m"
    return f"{letter!r} is not a residue letter", "use one-letter amino acid codes, X where one is unknown"
