"""How the embedded data were chosen and packed: `python -m elbowroom.datasets.demo.pack SOURCE`.

SOURCE holds `pdb_msa_chains.npz`, `pdb_msa_a3m.tar.gz` and `held_suarez_T21.npz`, which LICENSES.md describes.
"""

import io
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from elbowroom.datasets.demo.load import CHAINS, WEATHER
from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.a3m import read_a3m
from elbowroom.datasets.proteins.query import AlignedQuery

_CHAINS: Final = {"train": 72, "test": 24}
"""the first of each split in the order of the source; no two of the 96 share 30 % of their residues"""
_ROWS: Final = 48
"""the best hits of each alignment, the chain itself first"""
_TIMES: Final = 180
"""the first 90 days of 120"""
_QUANTUM: Final = 0.05
"""what is rounded to, in standard deviations of a variable's change over 12 hours"""


def pack(source: Path) -> None:
    """Write `chains.npz` and `weather.npz` beside this module."""
    _pack_chains(source)
    with np.load(source / "held_suarez_T21.npz") as stored:
        _save_small(WEATHER, _season(dict(stored)))


def _pack_chains(source: Path) -> None:
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


def _season(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The first times, more coarsely rounded: they take a third of the bytes."""
    packed = {name: stored[name] for name in ("lon", "lat", "sigma", "step_hours")}
    for name in ("u", "v", "t", "ps"):
        values = stored[name][:_TIMES] * stored[f"{name}_scale"] + stored[f"{name}_offset"]
        quantum, least = _QUANTUM * np.diff(values, axis=0).std(), values.min()
        packed[name] = np.rint((values - least) / quantum).astype(np.uint16)
        packed |= {f"{name}_scale": np.array(quantum), f"{name}_offset": np.array(least)}
    return packed


def _save_small(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """What `numpy.load` reads, compressed by bzip2: a third smaller here than by `numpy.savez_compressed`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        for name, array in arrays.items():
            written = io.BytesIO()
            np.save(written, array)
            # A date of its own would make other bytes of the same data.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), written.getvalue(), zipfile.ZIP_BZIP2)


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
