"""The baseline that knows nothing of a protein but how far apart two residues are in its sequence."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from jaxtyping import Float32, Float64, Int32

from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.structure import pseudo_beta

_FIRST_EDGE, _LAST_EDGE = 2.3125, 21.6875
"""Angstrom (Jumper et al. 2021, Suppl. 1.9.8)"""
BINS: Final = 64


def separation_prior(proteins: Sequence[Protein]) -> Float64[np.ndarray, "separation 64"]:
    """Log-probability of each distance bin for residues 0, 1, 2 ... apart, from the structures of these proteins.

    Every bin is counted once more than it was seen. The last row is that of the largest separation seen, and serves
    all beyond it. Raises `ValueError` if no pair of residues is resolved.
    """
    counts = np.zeros((0, BINS), np.int64)
    for protein in proteins:
        if protein.structure is None:
            continue
        beta, mask = pseudo_beta(indices(protein.sequence).astype(np.int32), protein.structure)
        known = mask > 0
        if not known.any():
            continue
        separation = _separations(protein.structure.residue_index[known])
        rows = max(len(counts), int(separation.max()) + 1)
        counts = np.pad(counts, ((0, rows - len(counts)), (0, 0)))
        place = separation * BINS + distance_bins(beta[known])
        counts += np.bincount(place.ravel(), minlength=counts.size).reshape(counts.shape)
    if not len(counts):
        raise ValueError("no structure to learn distances from")
    return np.log((counts + 1) / (counts + 1).sum(axis=1, keepdims=True))


def prior_loss(log_probability: Float64[np.ndarray, "separation 64"], features: Mapping[str, np.ndarray]) -> float:
    """Distogram cross-entropy of the prior on an example, in nats: the mean over resolved pairs, as for the network."""
    known = features["pseudo_beta_mask"] > 0
    if not known.any():
        return 0.0
    separation = np.minimum(_separations(features["residue_index"][known]), len(log_probability) - 1)
    return float(-log_probability[separation, distance_bins(features["pseudo_beta"][known])].mean())


def distance_bins(positions: Float32[np.ndarray, "res 3"]) -> Int32[np.ndarray, "res res"]:
    """Bin of every pair's distance: the number of the 63 edges that it exceeds."""
    edges = np.linspace(_FIRST_EDGE, _LAST_EDGE, BINS - 1)
    squared = ((positions[:, None] - positions[None]) ** 2).sum(axis=-1)
    return np.searchsorted(edges**2, squared, side="left").astype(np.int32)


def _separations(residue_index: Int32[np.ndarray, "res"]) -> Int32[np.ndarray, "res res"]:
    return np.abs(residue_index[:, None] - residue_index[None])
