"""The normal form of this folder: what is known of one protein chain."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.structure import Structure, Template

_RESERVED: Final = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(1, 10))}
_LONGEST: Final = 100
"""characters of a file name, which leaves room for suffixes under the usual limit of 255 bytes"""


@dataclass(frozen=True, kw_only=True)
class Protein:
    """A sequence, and its alignment, structure and templates where they are known, on the same residues."""

    name: str
    """Unique in its collection."""
    sequence: str
    """The letters as they were read, B, Z, J, O, U and X included."""
    alignment: Alignment | None = None
    structure: Structure | None = None
    templates: tuple[Template, ...] = ()
    """Best first."""

    def __post_init__(self) -> None:
        length = len(self.sequence)
        if self.alignment is not None and self.alignment.msa.shape[1] != length:
            raise ValueError(f"{self.name}: {length} residues but {self.alignment.msa.shape[1]} alignment columns")
        if self.structure is not None and len(self.structure.residue_index) != length:
            raise ValueError(f"{self.name}: {length} residues but {len(self.structure.residue_index)} in the structure")
        for template in self.templates:
            if len(template.aatype) != length:
                found = f"{len(template.aatype)} in the template {template.name}"
                raise ValueError(f"{self.name}: {length} residues but {found}; align it to this sequence")


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A file name for each protein that every system accepts, and that no two share even where case is ignored."""
    taken: set[str] = set()
    chosen: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:_LONGEST] or "protein"
        if plain.split(".")[0].lower() in _RESERVED:
            plain = f"{plain}_"
        candidate, number = plain, 2
        while candidate.lower() in taken:
            candidate, number = f"{plain}_{number}", number + 1
        taken.add(candidate.lower())
        chosen[name] = candidate
    return chosen
