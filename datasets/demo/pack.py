"""How the embedded chains were chosen and packed: `python -m elbowroom.datasets.demo.pack SOURCE`.

SOURCE holds `pdb_msa_chains.npz` and `pdb_msa_a3m.tar.gz`, which LICENSES.md describes.
"""

import sys
import tarfile
from pathlib import Path
from typing import Final

import numpy as np

from elbowroom.datasets.demo.load import CHAINS
from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.a3m import read_a3m
from elbowroom.datasets.proteins.query import AlignedQuery

_CHAINS: Final = {"train": 72, "test": 24}
"""the first of each split in the order of the source; no two of the 96 share 30 % of their residues"""
_ROWS: Final = 48
"""the best hits of each alignment, the chain itself first"""


def pack(source: Path) -> None:
    """Write `chains.npz` beside this module."""
    chains = np.load(source / "pdb_msa_chains.npz")
    ends = np.cumsum(chains["length"])
    chosen = [i for split, count in _CHAINS.items() for i in np.flatnonzero(chains["split"] == split)[:count]]
    residues = np.concatenate([range(ends[i] - chains["length"][i], ends[i]) for i in chosen])
    with tarfile.open(source / "pdb_msa_a3m.tar.gz") as archive:
        queries = [_alignment(archive, str(chains["ids"][i])) for i in chosen]
    np.savez_compressed(
        CHAINS,
        names=chains["ids"][chosen],
        split=chains["split"][chosen],
        sequences=np.array([query.sequence for query in queries]),
        rows=np.array([query.alignment.msa[:_ROWS].shape[0] for query in queries], np.int32),
        centiangstrom=chains["xyz"][residues],
        msa=np.concatenate([query.alignment.msa[:_ROWS].ravel() for query in queries]),
        deletions=np.concatenate([query.alignment.deletions[:_ROWS].ravel() for query in queries]).astype(np.uint16),
    )


def _alignment(archive: tarfile.TarFile, name: str) -> AlignedQuery:
    member = archive.extractfile(f"{name}.a3m")
    assert member is not None
    query = read_a3m(member.read().decode().splitlines(), Path(f"{name}.a3m"), Findings(strict=True))
    assert query is not None
    return query


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
