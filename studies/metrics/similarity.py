"""TM-score and GDT-TS of a prediction whose residues are those of the reference, in that order.

Both are the best over all superpositions. The search is that of the TM-score program: superpose on a fragment, then
again and again on the residues that came near, from fragments of many lengths and places.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from elbowroom.studies.metrics.superposition import Points, superpose

SHORTEST_FRAGMENT, ROUNDS = 4, 20
GDT_DISTANCES = (1.0, 2.0, 4.0, 8.0)
"""Angstrom"""


def tm_score(predicted: Points, true: Points, *, length: int | None = None) -> float:
    """How much of the reference is modelled right, from 0 to 1 (Zhang & Skolnick 2004, Equation 1).

    Args:
      predicted, true: CA of the same residues, Angstrom; only those resolved in the reference.
      length: residues of the whole reference, by which the score is normalised; those given if left out.
    """
    length = length or len(true)
    scale = distance_scale(length)

    def score(apart: Float[np.ndarray, "point"]) -> float:
        return float((1 / (1 + np.square(apart / scale))).sum() / length)

    return max(score(apart) for apart in _superpositions(predicted, true, near=min(max(scale, 4.5), 8.0)))


def distance_scale(length: int) -> float:
    """d0 in Angstrom, the distance at which a residue counts half; at least 0.5."""
    return max(1.24 * np.cbrt(length - 15) - 1.8, 0.5)


def gdt_ts(predicted: Points, true: Points, *, length: int | None = None) -> float:
    """Mean of the shares of residues that can be brought within 1, 2, 4 and 8 Angstrom (Zemla 2003)."""
    length = length or len(true)

    def most(distance: float) -> int:
        return max(int((apart <= distance).sum()) for apart in _superpositions(predicted, true, near=distance))

    return float(np.mean([most(distance) / length for distance in GDT_DISTANCES]))


def _superpositions(predicted: Points, true: Points, *, near: float) -> Iterator[Float[np.ndarray, "point"]]:
    """Distances of all residues under every superposition that the search comes by."""
    if len(predicted) == 0:
        raise ValueError("no residue to compare: prediction and reference share no resolved CA")

    def distances(chosen: np.ndarray) -> Float[np.ndarray, "point"]:
        return np.linalg.norm(superpose(predicted[chosen], true[chosen])(predicted) - true, axis=1)

    for fragment in _fragments(len(predicted)):
        apart = distances(fragment)
        yield apart
        chosen = _nearest(apart, near - 1.0)
        for _ in range(ROUNDS):
            apart = distances(chosen)
            yield apart
            following = _nearest(apart, near + 1.0)
            if np.array_equal(following, chosen):
                break
            chosen = following


def _fragments(count: int) -> Iterator[np.ndarray]:
    length = count
    while True:
        for start in range(0, count - length + 1, max(1, length // 4)):
            yield np.arange(start, start + length)
        if length <= SHORTEST_FRAGMENT:
            return
        length = max(SHORTEST_FRAGMENT, length // 2)


def _nearest(apart: Float[np.ndarray, "point"], distance: float) -> np.ndarray:
    """Residues within a distance, or the three nearest: fewer leave a superposition undetermined."""
    chosen = np.flatnonzero(apart < distance)
    return chosen if len(chosen) >= 3 else np.sort(np.argsort(apart, kind="stable")[:3])
