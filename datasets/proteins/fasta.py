"""Sequences from FASTA."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.records import Record, clean_letters, split_records


@dataclass(frozen=True, kw_only=True)
class NamedSequence:
    """One FASTA record."""

    name: str
    sequence: str
    path: Path
    line: int


def read_fasta(lines: Sequence[str], path: Path, stem: str, findings: Findings) -> list[NamedSequence]:
    """Every record with its own name, the first word of its header; `stem` names those whose header is empty."""
    found: dict[str, NamedSequence] = {}
    for number, record in enumerate(split_records(lines, path, findings), start=1):
        sequence = clean_letters(record, path, findings, gaps="")
        if sequence is None:
            continue
        if sequence != sequence.upper():
            findings.warn("lower-case sequence, read as capitals", path, f"line {record.line}")
        name = record.name or _name_for(number, record, path, stem, findings)
        if name in found:
            places = f"lines {found[name].line} and {record.line}"
            findings.defect(path, places, f"two records are named {name!r}", "give each record its own name")
            continue
        found[name] = NamedSequence(name=name, sequence=sequence.upper(), path=path, line=record.line)
    return list(found.values())


def _name_for(number: int, record: Record, path: Path, stem: str, findings: Findings) -> str:
    findings.warn("header without a name, named after its file", path, f"line {record.line}")
    return stem if number == 1 else f"{stem}_{number}"
