"""Moving one structure onto another, and how far apart they then are. Lengths in Angstrom."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

type Points = Float[np.ndarray, "point 3"]


class Motion(NamedTuple):
    """x -> x rotation + translation."""

    rotation: Float[np.ndarray, "3 3"]
    translation: Float[np.ndarray, "3"]

    def __call__(self, points: Points) -> Points:
        return points @ self.rotation + self.translation


def superpose(moved: Points, fixed: Points) -> Motion:
    """The rotation and translation, without reflection, that brings `moved` nearest to `fixed` (Kabsch 1976).

    Nearest in the sum of squared distances. One point is only shifted; where points lie on a line, one of the best
    rotations is taken. Raises ValueError where there is no point.
    """
    if len(moved) == 0:
        raise ValueError("no point to superpose: prediction and reference share no resolved atom")
    centre, target = moved.mean(axis=0), fixed.mean(axis=0)
    left, _, right = np.linalg.svd((moved - centre).T @ (fixed - target))
    handed = np.diag([1.0, 1.0, np.sign(np.linalg.det(left) * np.linalg.det(right))])
    rotation = left @ handed @ right
    return Motion(rotation, target - centre @ rotation)


def rmsd(predicted: Points, true: Points, known: Bool[np.ndarray, "point"] | None = None) -> float:
    """Root mean square distance of the known points after superposition on them."""
    if known is not None:
        predicted, true = predicted[known], true[known]
    apart = superpose(predicted, true)(predicted) - true
    return float(np.sqrt(np.square(apart).sum(axis=1).mean()))
