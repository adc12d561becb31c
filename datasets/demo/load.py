"""Data that come with the package: 96 real protein chains with alignments, and a season of simulated weather."""

from pathlib import Path
from typing import Final, Literal

import numpy as np
import xarray as xr
from jaxtyping import Int16

from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.atoms import ATOM_INDEX, CB
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.structure import Structure, centred
from elbowroom.datasets.weather.normal import open_weather

CHAINS: Final = Path(__file__).with_name("chains.npz")
RAW_FILES: Final = Path(__file__).with_name("proteins")
"""A folder as a user would have it: an alignment, sequences and structures in their own formats."""
WEATHER: Final = Path(__file__).with_name("weather.npz")
_TEST_TIMES: Final = 36
"""of the 180, the last"""
_ATOMS: Final = ("N", "CA", "C", "O", "CB")


def demo_proteins(split: Literal["train", "test"]) -> list[Protein]:
    """72 chains to train on, or 24 held-out ones, all below 30 % sequence identity to each other.

    50 to 160 residues with N, CA, C, O and CB, and up to 48 alignment rows.
    """
    with np.load(CHAINS) as packed:
        chains = {name: packed[name] for name in packed.files}
    lengths = np.array([len(sequence) for sequence in chains["sequences"]])
    residue_ends = np.cumsum(lengths)
    cell_ends = np.cumsum(lengths * chains["rows"])
    found = []
    for i in np.flatnonzero(chains["split"] == split):
        residues = slice(residue_ends[i] - lengths[i], residue_ends[i])
        cells = slice(cell_ends[i] - lengths[i] * chains["rows"][i], cell_ends[i])
        shape = (chains["rows"][i], lengths[i])
        alignment = Alignment(
            msa=chains["msa"][cells].reshape(shape),
            deletions=chains["deletions"][cells].reshape(shape).astype(np.int32),
        )
        found.append(
            Protein(
                name=str(chains["names"][i]),
                sequence=str(chains["sequences"][i]),
                alignment=alignment,
                structure=_structure(str(chains["sequences"][i]), chains["centiangstrom"][residues]),
            )
        )
    return found


def demo_weather(split: Literal["train", "test"]) -> xr.Dataset:
    """SIMULATED weather of one season, 12 hours apart, in normal form: 72 days to train on, or the 18 after them.

    Wind and temperature at two levels and surface pressure of a dry planet without continents (Held & Suarez 1994) on
    32 x 64 points. Its levels are shares of the surface pressure, times 1000.
    """
    dataset = open_weather(WEATHER)
    return dataset.isel(time=slice(-_TEST_TIMES) if split == "train" else slice(-_TEST_TIMES, None))


def _structure(sequence: str, centiangstrom: Int16[np.ndarray, "res 5 3"]) -> Structure:
    length = len(centiangstrom)
    positions, mask = np.zeros((length, 37, 3), np.float32), np.zeros((length, 37), bool)
    for source, name in enumerate(_ATOMS):
        positions[:, ATOM_INDEX[name]] = centiangstrom[:, source] / np.float32(100)
        mask[:, ATOM_INDEX[name]] = True
    mask[[letter == "G" for letter in sequence], CB] = False  # the source built one for glycine too
    return Structure(
        residue_index=np.arange(length, dtype=np.int32), atom_positions=centred(positions, mask), atom_mask=mask
    )
