"""How many of the most confidently predicted contacts are real."""

import sys

import numpy as np
from jaxtyping import Bool, Float

CONTACT = 8.0
"""Angstrom between pseudo-beta atoms"""
LONG_RANGE, MEDIUM_RANGE = (24, sys.maxsize), (12, 23)
"""Least and most residues from one partner to the other, as CASP counts them"""


def contact_precision(
    score: Float[np.ndarray, "res res"],
    beta: Float[np.ndarray, "res 3"],
    known: Bool[np.ndarray, "res"],
    *,
    separation: tuple[int, int] = LONG_RANGE,
    share: int = 5,
) -> float:
    """Share of real contacts among the L/5 pairs of highest score; NaN where no pair is as far along the chain.

    Pairs are from the least to the most `separation` residues apart and both resolved; L counts resolved residues.
    Equal scores are taken in the order of the pairs. Of fewer pairs than L/5 all are taken.
    """
    least, most = separation
    first, second = np.triu_indices(len(beta), k=least)
    meant = known[first] & known[second] & (second - first <= most)
    first, second = first[meant], second[meant]
    if len(first) == 0:
        return float("nan")
    best = np.argsort(-score[first, second], kind="stable")[: max(1, int(known.sum()) // share)]
    apart = np.linalg.norm(beta[first[best]] - beta[second[best]], axis=1)
    return float((apart < CONTACT).mean())
