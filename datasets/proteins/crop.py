"""A window of a chain: training sees a fixed number of residues."""

import numpy as np

from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.structure import Structure, Template


def crop(protein: Protein, start: int, length: int) -> Protein:
    """The residues from `start` on, at most `length` of them, in sequence, alignment, structure and templates."""
    window = slice(start, start + length)
    alignment, structure = protein.alignment, protein.structure
    if alignment is not None:
        alignment = Alignment(msa=alignment.msa[:, window], deletions=alignment.deletions[:, window])
    if structure is not None:
        structure = Structure(
            residue_index=structure.residue_index[window],
            atom_positions=structure.atom_positions[window],
            atom_mask=structure.atom_mask[window],
            resolution=structure.resolution,
        )
    templates = tuple(
        Template(
            name=template.name,
            aatype=template.aatype[window],
            atom_positions=template.atom_positions[window],
            atom_mask=template.atom_mask[window],
        )
        for template in protein.templates
    )
    return Protein(
        name=protein.name,
        sequence=protein.sequence[window],
        alignment=alignment,
        structure=structure,
        templates=templates,
    )


def random_crop(protein: Protein, length: int, random: np.random.Generator, *, early: bool = False) -> Protein:
    """A contiguous window whose start is uniform over all places where it fits, or over a random first part of them.

    `early` is for examples with unclamped FAPE (Jumper et al. 2021, Suppl. 1.2.8).
    """
    last = max(len(protein.sequence) - length, 0)
    if early:
        last -= int(random.integers(last + 1))
    return crop(protein, int(random.integers(last + 1)), length)
