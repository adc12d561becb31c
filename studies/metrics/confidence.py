"""What the confidence heads' logits mean, and whether they are right (Jumper et al. 2021, Suppl. 1.9.6 and 1.9.7)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

LAST_BREAK = 31.0
"""Angstrom; the last edge between bins of the aligned error, the first is 0"""
SHORTEST = 19
"""residues; shorter chains are scored as if they had as many"""


def predicted_lddt(logits: Float[np.ndarray, "res bin"]) -> Float[np.ndarray, "res"]:
    """Expected lDDT-Ca of every residue, 0 to 100 (Suppl. Algorithm 29)."""
    bins = logits.shape[-1]
    return _probabilities(logits) @ ((np.arange(bins) + 0.5) / bins) * 100


class AlignedError(NamedTuple):
    """Expected error of residue j seen from the frame of residue i, Angstrom."""

    expected: Float[np.ndarray, "res res"]
    largest: float
    """the most that can be predicted"""


def predicted_aligned_error(logits: Float[np.ndarray, "res res bin"]) -> AlignedError:
    """Mean of the predicted distribution (Suppl. 1.9.7)."""
    centres = _centres(logits.shape[-1])
    return AlignedError(_probabilities(logits) @ centres, float(centres[-1]))


def predicted_tm_score(logits: Float[np.ndarray, "res res bin"]) -> float:
    """Expected TM-score, from the residue whose frame sees the others best (Suppl. Equation 38)."""
    scale = 1.24 * np.cbrt(max(len(logits), SHORTEST) - 15) - 1.8
    kept = _probabilities(logits) @ (1 / (1 + np.square(_centres(logits.shape[-1]) / scale)))
    return float(kept.mean(axis=1).max())


class Calibration(NamedTuple):
    """Predicted against true lDDT-Ca, both 0 to 100."""

    correlation: float
    """Pearson's; NaN where either is constant"""
    error: float
    """mean absolute difference"""
    bins: list[tuple[float, float, int]]
    """mean prediction, mean truth and number of residues for each tenth of the scale that holds any"""


def calibration(predicted: Float[np.ndarray, "res"], true: Float[np.ndarray, "res"]) -> Calibration:
    """Residues without a true score (NaN) are left out. Raises ValueError where none is left."""
    there = np.isfinite(true)
    predicted, true = predicted[there], true[there]
    if len(true) == 0:
        raise ValueError("no residue has a true lDDT to compare with")
    tenth = np.minimum(predicted // 10, 9)
    bins = [
        (float(predicted[tenth == t].mean()), float(true[tenth == t].mean()), int((tenth == t).sum()))
        for t in np.unique(tenth)
    ]
    varied = predicted.std() > 0 and true.std() > 0
    correlation = float(np.corrcoef(predicted, true)[0, 1]) if varied else float("nan")
    return Calibration(correlation, float(np.abs(predicted - true).mean()), bins)


def _centres(bins: int) -> Float[np.ndarray, "bin"]:
    """The last bin, open to the right, is taken to be as wide as the others."""
    breaks = np.linspace(0.0, LAST_BREAK, bins - 1)
    half = (breaks[1] - breaks[0]) / 2
    return np.append(breaks + half, breaks[-1] + 3 * half)


def _probabilities(logits: Float[np.ndarray, "*any bin"]) -> Float[np.ndarray, "*any bin"]:
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
