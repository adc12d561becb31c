"""Local distance difference test (Mariani et al. 2013): agreement with the reference without superposition."""

import numpy as np
from jaxtyping import Bool, Float, Int

INCLUSION, THRESHOLDS = 15.0, (0.5, 1.0, 2.0, 4.0)
"""Angstrom; which distances of the reference are looked at, and how well they must be kept"""
HELD = 2**20
"""distances computed at once, which bounds memory at any number of atoms"""


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
    return _share(*_kept(predicted, true, known, np.arange(len(true)) if residue is None else residue))


def lddt_ca(
    predicted: Float[np.ndarray, "res 3"], true: Float[np.ndarray, "res 3"], known: Bool[np.ndarray, "res"]
) -> float:
    """Mean over the residues of a chain of lDDT between CA; NaN for a chain with less than two near residues."""
    scores = lddt(predicted, true, known)
    return float(np.nanmean(scores)) if np.isfinite(scores).any() else float("nan")


def lddt_of_residues(
    predicted: Float[np.ndarray, "res 37 3"], true: Float[np.ndarray, "res 37 3"], known: Bool[np.ndarray, "res 37"]
) -> Float[np.ndarray, "res"]:
    """For every residue the share of its heavy atoms' distances to other residues that is kept; NaN where it has none.

    Atoms are compared by name: a ring of phenylalanine turned by half a turn counts as wrong.
    """
    kept, total = _kept_of_residues(predicted, true, known)
    return _share(kept, total)


def lddt_all_atom(
    predicted: Float[np.ndarray, "res 37 3"], true: Float[np.ndarray, "res 37 3"], known: Bool[np.ndarray, "res 37"]
) -> float:
    """Share of all distances between heavy atoms of different residues that is kept; NaN where there is none."""
    kept, total = _kept_of_residues(predicted, true, known)
    return float(_share(kept.sum(keepdims=True), total.sum(keepdims=True))[0])


def _kept_of_residues(
    predicted: Float[np.ndarray, "res 37 3"], true: Float[np.ndarray, "res 37 3"], known: Bool[np.ndarray, "res 37"]
) -> tuple[Float[np.ndarray, "res"], Float[np.ndarray, "res"]]:
    residue, column = np.nonzero(known)
    everywhere = np.ones(len(residue), bool)
    parts = _kept(predicted[residue, column], true[residue, column], everywhere, residue)
    kept, total = (np.bincount(residue, part, minlength=len(known)).astype(np.float64) for part in parts)
    return kept, total


def _kept(
    predicted: Float[np.ndarray, "atom 3"],
    true: Float[np.ndarray, "atom 3"],
    known: Bool[np.ndarray, "atom"],
    residue: Int[np.ndarray, "atom"],
) -> tuple[Float[np.ndarray, "atom"], Float[np.ndarray, "atom"]]:
    """How many distances of each atom are kept, mean over the thresholds, and how many it has."""
    count = len(true)
    kept, total = np.zeros(count), np.zeros(count)
    for rows in np.array_split(np.arange(count), max(1, -(-count * count // HELD))):
        distance = _distances(true[rows], true)
        counted = (distance < INCLUSION) & known[rows, None] & known & (residue[rows, None] != residue)
        error = np.abs(distance - _distances(predicted[rows], predicted))
        within = sum((error < threshold).astype(np.float64) for threshold in THRESHOLDS) / len(THRESHOLDS)
        kept[rows], total[rows] = (counted * within).sum(axis=1), counted.sum(axis=1)
    return kept, total


def _distances(some: Float[np.ndarray, "row 3"], points: Float[np.ndarray, "atom 3"]) -> Float[np.ndarray, "row atom"]:
    return np.linalg.norm(some[:, None].astype(np.float64) - points, axis=-1)


def _share(kept: Float[np.ndarray, "count"], total: Float[np.ndarray, "count"]) -> Float[np.ndarray, "count"]:
    return np.where(total > 0, kept / np.maximum(total, 1), np.nan)
