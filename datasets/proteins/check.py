"""Read everything a user has and name every defect, without stopping at the first."""

from dataclasses import dataclass
from pathlib import Path

from elbowroom.datasets.findings import DataError, Findings, Warned
from elbowroom.datasets.proteins.collect import gather


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was found in the user's files."""

    proteins: int
    residues: int
    resolved_residues: int
    """Those with at least one atom."""
    alignments: int
    alignment_rows: int
    structures: int
    defects: tuple[DataError, ...]
    """Each names file and line, row or residue; training refuses to start while there are any."""
    warnings: tuple[Warned, ...]


def check(data: Path, structures: Path | None = None) -> Report:
    """Counts, defects and warnings of a file or folder; never raises for bad content."""
    findings = Findings(strict=False)
    proteins = gather(data, structures, findings)
    aligned = [protein.alignment for protein in proteins if protein.alignment is not None]
    solved = [protein.structure for protein in proteins if protein.structure is not None]
    return Report(
        proteins=len(proteins),
        residues=sum(len(protein.sequence) for protein in proteins),
        resolved_residues=sum(int(structure.atom_mask.any(axis=1).sum()) for structure in solved),
        alignments=len(aligned),
        alignment_rows=sum(alignment.num_rows for alignment in aligned),
        structures=len(solved),
        defects=findings.defects,
        warnings=findings.warnings,
    )
