"""A multiple sequence alignment, seen from its query."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int8, Int32

from elbowroom.datasets.proteins.alphabet import GAP, indices


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Rows aligned to a query; the columns are the query's residues."""

    msa: Int8[np.ndarray, "seq res"]
    """AlphaFold's residue index, 21 for a gap; row 0 is the query."""
    deletions: Int32[np.ndarray, "seq res"]
    """Letters that the row has between this column and the one before, which the query lacks."""

    @property
    def num_rows(self) -> int:
        return self.msa.shape[0]


def single_row(sequence: str) -> Alignment:
    """The alignment of a sequence that has none: itself."""
    msa = indices(sequence)[None]
    return Alignment(msa=msa, deletions=np.zeros(msa.shape, np.int32))


def on_query_columns(rows: Sequence[str], deletions: Int32[np.ndarray, "seq column"]) -> tuple[Alignment, int]:
    """The alignment without the columns in which the query has a gap; letters there become deletions.

    `rows` are capital letters and `-`, all equally long. The second result counts the letters after the query's last
    residue, which no column can hold.
    """
    msa = np.stack([indices(row) for row in rows])
    kept = np.flatnonzero(msa[0] != GAP)
    removed = msa != GAP
    removed[:, kept] = False
    # Running totals up to each kept column; differences of neighbours are the letters since the last kept column.
    total = np.cumsum(deletions + removed, axis=1, dtype=np.int32)
    lost = int((total[:, -1] - total[:, kept[-1]]).sum()) if len(kept) else 0
    before = np.diff(total[:, kept], axis=1, prepend=np.int32(0))
    return Alignment(msa=msa[:, kept], deletions=before.astype(np.int32)), lost


def distinct_rows(alignment: Alignment) -> Alignment:
    """Every aligned row once, as AlphaFold's `make_msa_features` does; the first of equal rows stays."""
    _, first = np.unique(alignment.msa, axis=0, return_index=True)
    order = np.sort(first)
    return Alignment(msa=alignment.msa[order], deletions=alignment.deletions[order])
