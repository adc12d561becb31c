"""Which rows of an alignment the network sees in full, and what their clusters look like."""

from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Float32, Int32, Integer

from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.alphabet import GAP

DELETED_BLOCKS: Final = 5
BLOCK_SHARE: Final = 0.3
"""of all rows in each deleted block (Suppl. Algorithm 1)"""


class Clusters(NamedTuple):
    """Summary of each centre together with the rows nearest to it."""

    profile: Float32[np.ndarray, "seq res 23"]
    deletion_mean: Float32[np.ndarray, "seq res"]


def without_blocks(alignment: Alignment, random: np.random.Generator, *, least: int = 0) -> Alignment:
    """The alignment without five random blocks of neighbouring rows, 30 % of the rows each; they may overlap.

    Neighbours in a search result are alike: this removes whole branches of a family. The query always stays, and so
    does a block without which fewer than `least` rows would be left: a shallow alignment has none to spare.
    Jumper et al. 2021, Suppl. Algorithm 1.
    """
    rows = alignment.num_rows
    block = int(BLOCK_SHARE * rows)
    kept = np.ones(rows, bool)
    for start in random.integers(rows, size=DELETED_BLOCKS):
        fewer = kept.copy()
        fewer[max(1, start) : start + block] = False
        if fewer.sum() >= least:
            kept = fewer
    return Alignment(msa=alignment.msa[kept], deletions=alignment.deletions[kept])


def nearest_centre(
    centres: Integer[np.ndarray, "seq res"], rows: Integer[np.ndarray, "row res"]
) -> Integer[np.ndarray, "row"]:
    """The centre that agrees with each row in most columns; gaps and masked residues agree with nothing.

    The first of equally near centres is taken. Jumper et al. 2021, Suppl. 1.2.7.
    """
    agreement = np.zeros((len(rows), len(centres)), np.float32)
    for residue in range(GAP):  # one matrix product a residue type: one-hot rows would need 21 times the memory
        agreement += (rows == residue).astype(np.float32) @ (centres == residue).astype(np.float32).T
    return agreement.argmax(axis=1)


def summarise(
    centres: Integer[np.ndarray, "seq res"],
    centre_deletions: Int32[np.ndarray, "seq res"],
    rows: Integer[np.ndarray, "row res"],
    row_deletions: Int32[np.ndarray, "row res"],
) -> Clusters:
    """Residue shares and mean deletions of each cluster, its centre included.

    Jumper et al. 2021, Suppl. 1.2.7 and Table 1 (cluster_profile, cluster_deletion_mean).
    """
    seq, res = centres.shape
    members = np.concatenate([np.arange(seq), nearest_centre(centres, rows)])
    place = members[:, None] * res + np.arange(res)
    residues = np.concatenate([centres, rows]).astype(np.int64)
    deletions = np.concatenate([centre_deletions, row_deletions])
    counts = np.bincount((place * 23 + residues).ravel(), minlength=seq * res * 23).reshape(seq, res, 23)
    total = np.bincount(place.ravel(), deletions.ravel(), minlength=seq * res).reshape(seq, res)
    size = np.bincount(members, minlength=seq)
    return Clusters(
        profile=(counts / size[:, None, None]).astype(np.float32),
        deletion_mean=(total / size[:, None]).astype(np.float32),
    )
