"""The resolved atoms of a chain, on the positions of its own sequence or of another's."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int32

from elbowroom.datasets.proteins.alphabet import GLYCINE
from elbowroom.datasets.proteins.atoms import CA, CB


@dataclass(frozen=True, kw_only=True)
class Structure:
    """Where the atoms of a chain are; positions without atoms are unresolved."""

    residue_index: Int32[np.ndarray, "res"]
    """Rises by one along the chain, by more where residues are missing from both sequence and structure."""
    atom_positions: Float32[np.ndarray, "res 37 3"]
    """Angstrom, the mean of the resolved CA at the origin; zero where unresolved."""
    atom_mask: Bool[np.ndarray, "res 37"]
    """True where the atom was resolved."""
    resolution: float | None = None
    """Angstrom; None where the experiment has none, as NMR, or the file does not say."""


@dataclass(frozen=True, kw_only=True)
class Template:
    """Where the atoms of another chain are, on the positions of a query that it is aligned to."""

    name: str
    aatype: Int32[np.ndarray, "res"]
    """AlphaFold's index of the template's residue, 21 (a gap) where it has none beside the query's."""
    atom_positions: Float32[np.ndarray, "res 37 3"]
    """Angstrom, those of the template's own residues, centred as in `Structure`; zero where unresolved."""
    atom_mask: Bool[np.ndarray, "res 37"]
    """True where the atom was resolved, nowhere in a gap."""


def centred(
    positions: Float32[np.ndarray, "res 37 3"], mask: Bool[np.ndarray, "res 37"]
) -> Float32[np.ndarray, "res 37 3"]:
    """Positions with the mean of the resolved CA (of all atoms if there is none) at the origin.

    Half precision holds 10,000 Angstrom in steps of 8: a chain must not stay where the crystal had it.
    """
    known = mask[:, CA] if mask[:, CA].any() else mask.any(axis=1)
    if not known.any():
        return np.zeros_like(positions)
    points = positions[:, CA][known] if mask[:, CA].any() else positions[mask]
    shifted = positions - points.astype(np.float64).mean(axis=0).astype(np.float32)
    return np.where(mask[..., None], shifted, np.float32(0))


def pseudo_beta(
    aatype: Int32[np.ndarray, "res"], solved: Structure | Template
) -> tuple[Float32[np.ndarray, "res 3"], Float32[np.ndarray, "res"]]:
    """The atom that stands for each residue, and 1 where it is resolved: CB, or CA for glycine.

    Jumper et al. 2021, Suppl. 1.9.8.
    """
    atom = np.where(aatype == GLYCINE, CA, CB)
    residues = np.arange(len(aatype))
    mask = solved.atom_mask[residues, atom]
    positions = np.where(mask[:, None], solved.atom_positions[residues, atom], np.float32(0))
    return positions, mask.astype(np.float32)
