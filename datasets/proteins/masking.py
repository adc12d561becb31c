"""Masked-MSA corruption: what the network must guess back."""

from typing import Final

import numpy as np
from jaxtyping import Bool, Float32, Int8, Int32

from elbowroom.datasets.proteins.alphabet import MASKED

CORRUPTED: Final = 0.15
"""share of MSA positions that are touched (Suppl. 1.2.7), gaps included"""
UNIFORM, PROFILE, UNCHANGED = 0.1, 0.1, 0.1
"""of those, replaced by: a uniform amino acid, a draw from the column's profile, itself; the rest by the mask token"""


def column_profile(msa: Int8[np.ndarray, "seq res"]) -> Float32[np.ndarray, "res 22"]:
    """Share of every residue, X and gap included, in each column of the whole alignment."""
    return np.stack([(msa == residue).mean(axis=0, dtype=np.float32) for residue in range(22)], axis=-1)


def corrupt(
    msa: Int8[np.ndarray, "seq res"], profile: Float32[np.ndarray, "res 22"], random: np.random.Generator
) -> tuple[Int32[np.ndarray, "seq res"], Bool[np.ndarray, "seq res"]]:
    """The alignment with 15 % of its positions replaced, and where that was, unchanged draws included.

    Jumper et al. 2021, Suppl. 1.2.7.
    """
    touched = random.random(msa.shape, np.float32) < CORRUPTED
    way = random.random(msa.shape, np.float32)
    uniform = random.integers(20, size=msa.shape, dtype=np.int32)
    from_profile = _draw(profile, random.random(msa.shape, np.float32))
    replacement = np.select(
        [way < UNIFORM, way < UNIFORM + PROFILE, way < UNIFORM + PROFILE + UNCHANGED],
        [uniform, from_profile, msa.astype(np.int32)],
        default=np.int32(MASKED),
    )
    return np.where(touched, replacement, msa.astype(np.int32)), touched


def _draw(
    profile: Float32[np.ndarray, "res 22"], uniform: Float32[np.ndarray, "seq res"]
) -> Int32[np.ndarray, "seq res"]:
    cumulative = np.cumsum(profile, axis=-1)
    cumulative /= cumulative[:, -1:]
    above = np.zeros(uniform.shape, np.int32)
    for residue in range(21):  # one class at a time: [seq, res, 22] would be the largest array of an example
        above += uniform >= cumulative[:, residue]
    return above
