"""Moving one structure onto another, and how far apart they then are. Lengths in Angstrom."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

type Points = Float[np.ndarray, "point 3"]


class Motion(NamedTuple):
    """x -> x rotation + translation."""

    rotation: Float[np.ndarray, "3 3"]
    translation: Float[np.ndarray, "3"]

    def __call__(self, points: Points) -> Points:
        return points @ self.rotation + self.translation


def superpose(moved: Points, fixed: Points) -> Motion:
    """The rotation and translation, without reflection, that brings `moved` nearest to `fixed` (Kabsch 1976).

    Nearest in the sum of squared distances, computed in float64. One point is only shifted; where points lie on a
    line, one of the best rotations is taken. Raises ValueError as `comparable` does.
    """
    moved, fixed = comparable(moved, fixed)
    centre, target = moved.mean(axis=0), fixed.mean(axis=0)
    rotation = best_rotation((moved - centre).T @ (fixed - target))
    return Motion(rotation, target - centre @ rotation)


def best_rotation(covariance: Float[np.ndarray, "*batch 3 3"]) -> Float[np.ndarray, "*batch 3 3"]:
    """The proper rotation R with the largest trace of (covariance^T R), for points that are moved by x -> x R.

    The third singular direction is turned around where the best orthogonal matrix is a reflection.
    """
    left, _, right = np.linalg.svd(covariance)
    right[..., 2, :] *= np.sign(np.linalg.det(left) * np.linalg.det(right))[..., None]
    return left @ right


def rmsd(predicted: Points, true: Points) -> float:
    """Root mean square distance after superposition."""
    apart = superpose(predicted, true)(predicted) - true
    return float(np.sqrt(np.square(apart).sum(axis=1).mean()))


def comparable(predicted: Points, true: Points) -> tuple[Points, Points]:
    """Both in float64. Raises ValueError where there is no point, or where one is not finite."""
    if len(true) == 0:
        raise ValueError("no point to superpose: prediction and reference share no resolved atom")
    for what, points in (("predicted", predicted), ("reference", true)):
        finite = np.isfinite(points).all(axis=1)
        if not finite.all():
            raise ValueError(f"{(~finite).sum()} of {len(points)} {what} points are not finite; leave them out")
    return predicted.astype(np.float64), true.astype(np.float64)
