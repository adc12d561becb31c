"""Local distance difference test (Mariani et al. 2013): agreement with the reference without superposition."""

import numpy as np
from jaxtyping import Bool, Float, Int

INCLUSION, THRESHOLDS = 15.0, (0.5, 1.0, 2.0, 4.0)
"""Angstrom; which distances of the reference are looked at, and how well they must be kept"""


def lddt(
    predicted: Float[np.ndarray, "atom 3"],
    true: Float[np.ndarray, "atom 3"],
    known: Bool[np.ndarray, "atom"],
    residue: Int[np.ndarray, "atom"] | None = None,
) -> Float[np.ndarray, "atom"]:
    """For every atom the share of its distances that is kept, mean over four thresholds; NaN where it has none.

    Args:
      known: atoms that the reference resolves; others count nowhere.
      residue: which residue each atom belongs to, so that distances within one are left out; every atom is one of
        its own if left out, as with CA alone.
    """
    residue = np.arange(len(true)) if residue is None else residue
    distance, other = _distances(true), _distances(predicted)
    counted = (distance < INCLUSION) & known[:, None] & known[None] & (residue[:, None] != residue[None])
    kept = np.mean([np.abs(distance - other) < threshold for threshold in THRESHOLDS], axis=0)
    total = counted.sum(axis=1)
    return np.where(total > 0, (counted * kept).sum(axis=1) / np.maximum(total, 1), np.nan)


def lddt_ca(
    predicted: Float[np.ndarray, "res 3"], true: Float[np.ndarray, "res 3"], known: Bool[np.ndarray, "res"]
) -> float:
    """Mean over the residues of a chain of lDDT between CA; NaN for a chain with less than two near residues."""
    scores = lddt(predicted, true, known)
    return float(np.nanmean(scores)) if np.isfinite(scores).any() else float("nan")


def _distances(points: Float[np.ndarray, "atom 3"]) -> Float[np.ndarray, "atom atom"]:
    return np.linalg.norm(points[:, None].astype(np.float64) - points[None], axis=-1)
