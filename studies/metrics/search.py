"""Superpositions among which the one that fits most residues is looked for, as by the TM-score program.

Superpose on a fragment, then again and again on the residues that came near, from fragments of many lengths and
places (Zhang & Skolnick 2004, Methods). A least-squares fit of all residues would be spoilt by those modelled wrong.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from elbowroom.studies.metrics.superposition import Points, best_rotation, comparable

SHORTEST_FRAGMENT, ROUNDS = 4, 20
LEAST = 3
"""residues; fewer leave a superposition undetermined"""
STARTS = 500
"""The most places that fragments of one length start from; chains no longer than this are searched at every residue"""
HELD = 2**20
"""distances computed at once, which bounds memory at any length"""


def superpositions(predicted: Points, true: Points, *, near: float) -> Iterator[Float[np.ndarray, "trial point"]]:
    """Distances of all residues, in Angstrom, under every superposition that the search comes by.

    `near` is how far residues may be from each other to be superposed next, one more Angstrom from the second round
    on and one less before. Raises ValueError as `comparable` does.
    """
    predicted, true = comparable(predicted, true)
    predicted, true = predicted - predicted.mean(axis=0), true - true.mean(axis=0)
    for fragments in _fragments(len(true)):
        apart = _distances(predicted, true, fragments)
        yield apart
        chosen = _nearest(apart, near - 1.0)
        for _ in range(ROUNDS):
            chosen = np.unique(chosen, axis=0)  # most trials soon meet
            apart = _distances(predicted, true, chosen)
            yield apart
            following = _nearest(apart, near + 1.0)
            chosen = following[(following != chosen).any(axis=1)]
            if len(chosen) == 0:
                break


def _fragments(count: int) -> Iterator[Bool[np.ndarray, "trial point"]]:
    """Which residues each fragment holds: all of them, half of them, and so on, from every start."""
    length, place, stride = count, np.arange(count), -(-count // STARTS)
    while True:
        starts = np.arange(0, count - length + 1, stride)
        for some in np.array_split(starts, -(-len(starts) * count // HELD)):
            yield (place >= some[:, None]) & (place < some[:, None] + length)
        if length <= SHORTEST_FRAGMENT:
            return
        length = max(SHORTEST_FRAGMENT, length // 2)


def _distances(
    predicted: Points, true: Points, chosen: Bool[np.ndarray, "trial point"]
) -> Float[np.ndarray, "trial point"]:
    """Of all residues, after superposition on the chosen ones. Both structures are centred."""
    weight = chosen / chosen.sum(axis=1, keepdims=True)
    centre, target = weight @ predicted, weight @ true
    products = (predicted[:, :, None] * true[:, None]).reshape(-1, 9)
    covariance = (weight @ products).reshape(-1, 3, 3) - centre[:, :, None] * target[:, None]
    rotation = best_rotation(covariance)
    shift = target - np.einsum("ti,tij->tj", centre, rotation)
    return np.linalg.norm(predicted @ rotation + shift[:, None] - true, axis=-1)


def _nearest(apart: Float[np.ndarray, "trial point"], distance: float) -> Bool[np.ndarray, "trial point"]:
    """Residues within a distance, or the nearest three."""
    last = min(LEAST, apart.shape[1]) - 1
    return apart <= np.maximum(np.partition(apart, last, axis=1)[:, last, None], distance)
