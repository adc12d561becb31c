"""TM-score and GDT-TS of a prediction whose residues are those of the reference, in that order.

Both are the best over all superpositions, and so tell a structure from its mirror image.
"""

import numpy as np

from elbowroom.studies.metrics.search import superpositions
from elbowroom.studies.metrics.superposition import Points

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
    trials = superpositions(predicted, true, near=min(max(scale, 4.5), 8.0))
    return max(float((1 / (1 + np.square(apart / scale))).sum(axis=1).max()) for apart in trials) / length


def distance_scale(length: int) -> float:
    """d0 in Angstrom, the distance at which a residue counts half; at least 0.5."""
    return max(float(1.24 * np.cbrt(length - 15) - 1.8), 0.5)


def gdt_ts(predicted: Points, true: Points, *, length: int | None = None) -> float:
    """Mean of the shares of residues that can be brought within 1, 2, 4 and 8 Angstrom (Zemla 2003).

    Arguments as in `tm_score`. For each distance the best superposition of all four searches counts.
    """
    most = np.zeros(len(GDT_DISTANCES), int)
    for near in GDT_DISTANCES:
        for apart in superpositions(predicted, true, near=near):
            within = [(apart <= distance).sum(axis=1).max() for distance in GDT_DISTANCES]
            most = np.maximum(most, within)
    return float(most.mean()) / (length or len(true))
