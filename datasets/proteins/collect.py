"""From the user's files to proteins."""

from dataclasses import dataclass
from pathlib import Path

from elbowroom.datasets.findings import Findings, Warned
from elbowroom.datasets.proteins.pairing import paired
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.sources import Contents, find_sources, read_sources


@dataclass(frozen=True, kw_only=True)
class Collection:
    """All proteins of a place, and what was odd about their files."""

    proteins: tuple[Protein, ...]
    warnings: tuple[Warned, ...]


def collect(data: Path, structures: Path | None = None) -> Collection:
    """Read a file or a folder of FASTA, A3M, Stockholm, mmCIF and PDB files, plain or gzip, and pair them by name.

    `structures` is a second place for mmCIF and PDB files; those that no sequence asks for are left out.
    Raises `DataError` for the first defect; `check` lists them all.
    """
    findings = Findings(strict=True)
    proteins = gather(data, structures, findings)
    return Collection(proteins=tuple(proteins), warnings=findings.warnings)


def gather(data: Path, structures: Path | None, findings: Findings) -> list[Protein]:
    """What can be read of both places; `findings` decides whether a defect ends it."""
    contents = read_sources(find_sources(data, findings), findings)
    library = Contents()
    if structures is not None:
        wanted = [source for source in find_sources(structures, findings) if source.kind in ("mmcif", "pdb")]
        library = read_sources(wanted, findings)
    return paired(contents, library.chains, findings)
