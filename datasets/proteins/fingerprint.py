"""A short text that changes whenever any protein does."""

import hashlib
from collections.abc import Iterable

from elbowroom.datasets.proteins.protein import Protein


def fingerprint(proteins: Iterable[Protein]) -> str:
    """Equal for equal proteins in equal order: a resumed run is known to see the data that it began with."""
    digest = hashlib.sha256()
    for protein in proteins:
        parts = [protein.name.encode(), protein.sequence.encode()]
        if protein.alignment is not None:
            parts += [protein.alignment.msa.tobytes(), protein.alignment.deletions.tobytes()]
        if protein.structure is not None:
            solved = protein.structure
            parts += [solved.residue_index.tobytes(), solved.atom_positions.tobytes(), solved.atom_mask.tobytes()]
            if solved.resolution is not None:
                parts.append(f"{solved.resolution!r}".encode())
        for template in protein.templates:
            parts += [template.name.encode(), template.aatype.tobytes()]
            parts += [template.atom_positions.tobytes(), template.atom_mask.tobytes()]
        for part in parts:
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()[:16]
