"""Whether a model knows how good its predictions are."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


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
