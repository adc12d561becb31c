"""From the atoms of a file to one residue at each position of its chains."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import biotite.structure.info as components
import numpy as np
from jaxtyping import Bool, Float32, Int32

from elbowroom.datasets.proteins.alphabet import LETTERS
from elbowroom.datasets.proteins.atoms import ATOM_INDEX

_PEPTIDE_BOND: Final = 2.0
"""Angstrom; the bond is 1.33, and the next nearest C and N are 2.4 apart"""
_CD, _NH1, _NH2 = (ATOM_INDEX[name] for name in ("CD", "NH1", "NH2"))
_WATERS: Final = frozenset({"HOH", "DOD", "WAT"})


@dataclass(frozen=True, kw_only=True)
class AtomTable:
    """Columns of a structure file, first model only."""

    chain: Sequence[str]
    author_chain: Sequence[str]
    number: Sequence[int]
    insertion: Sequence[str]
    component: Sequence[str]
    """Three-letter code of the monomer."""
    atom: Sequence[str]
    alternate: Sequence[str]
    """Label of the alternate location, empty if there is one location."""
    occupancy: Float32[np.ndarray, "atom"]
    hetero: Sequence[bool]
    position: Float32[np.ndarray, "atom 3"]
    """Angstrom"""


@dataclass(frozen=True, kw_only=True)
class Residue:
    """The one conformer that is kept of a position."""

    number: int
    insertion: str
    component: str
    hetero: bool
    atoms: dict[str, np.ndarray]


def chain_residues(table: AtomTable, rows: Iterable[int]) -> list[Residue]:
    """Residues in file order. Of several monomers or conformers at one position the most occupied stays."""
    positions: dict[tuple[int, str], list[int]] = {}
    for row in rows:
        if table.component[row] not in _WATERS:
            positions.setdefault((table.number[row], table.insertion[row]), []).append(row)
    residues = []
    for (number, insertion), atoms in positions.items():
        kept = _one_conformer(table, atoms)
        residues.append(
            Residue(
                number=number,
                insertion=insertion,
                component=table.component[kept[0]],
                hetero=table.hetero[kept[0]],
                atoms={table.atom[row]: table.position[row] for row in reversed(kept)},
            )
        )
    return residues


def polymer(residues: Sequence[Residue]) -> list[Residue]:
    """Amino acids of the chain itself: HETATM ones stand before its last ATOM residue, or are bonded to it."""
    acids = [residue for residue in residues if _amino_acid(residue)]
    last = max((i for i, residue in enumerate(acids) if not residue.hetero), default=-1)
    chain = acids[: last + 1]
    for residue in acids[last + 1 :]:
        if not chain or not _bonded(chain[-1], residue):
            break
        chain.append(residue)
    return chain


@cache
def component_letter(component: str) -> str:
    """One-letter code of a monomer; a modified one has its parent's (selenomethionine M), others X."""
    letter = components.one_letter_code(component)
    return letter if letter in LETTERS else "X"


def on_atom37(residues: Sequence[Residue]) -> tuple[Float32[np.ndarray, "res 37 3"], Bool[np.ndarray, "res 37"]]:
    """Positions and presence of the atoms that AlphaFold knows, with the two corrections of its own readers.

    The selenium of selenomethionine is its sulphur, and NH1 of an arginine is the one that is nearer to CD
    (Jumper et al. 2021, Suppl. 1.2.1).
    """
    positions, mask = np.zeros((len(residues), 37, 3), np.float32), np.zeros((len(residues), 37), bool)
    for i, residue in enumerate(residues):
        for name, position in residue.atoms.items():
            atom = ATOM_INDEX.get("SD" if residue.component == "MSE" and name == "SE" else name)
            if atom is not None:
                positions[i, atom], mask[i, atom] = position, True
    arginine = np.array([residue.component == "ARG" for residue in residues], bool)
    complete = arginine & mask[:, [_CD, _NH1, _NH2]].all(axis=1)
    first, second = (np.linalg.norm(positions[:, atom] - positions[:, _CD], axis=-1) for atom in (_NH1, _NH2))
    misnamed = np.flatnonzero(complete & (first > second))[:, None]
    positions[misnamed, [_NH1, _NH2]] = positions[misnamed, [_NH2, _NH1]]
    return positions, mask


def rising_index(residues: Sequence[Residue]) -> Int32[np.ndarray, "res"]:
    """From 0, by the steps of the residues' numbers; by one where the number stays (insertion codes) or falls."""
    numbers = np.array([residue.number for residue in residues], np.int32)
    steps = np.maximum(np.diff(numbers, prepend=numbers[:1] - 1), 1)
    return (np.cumsum(steps) - 1).astype(np.int32)


def _one_conformer(table: AtomTable, rows: Sequence[int]) -> list[int]:
    by_component: dict[str, list[int]] = {}
    for row in rows:
        by_component.setdefault(table.component[row], []).append(row)
    kept = max(by_component.values(), key=lambda group: table.occupancy[group].mean())
    by_label: dict[str, list[int]] = {}
    for row in kept:
        by_label.setdefault(table.alternate[row], []).append(row)
    labels = sorted(label for label in by_label if label)
    if not labels:
        return kept
    chosen = max(labels, key=lambda label: table.occupancy[by_label[label]].mean())
    return [row for row in kept if table.alternate[row] in ("", chosen)]


def _amino_acid(residue: Residue) -> bool:
    return residue.component in _amino_acids() or {"N", "CA", "C"} <= residue.atoms.keys()


@cache
def _amino_acids() -> frozenset[str]:
    return frozenset(components.amino_acid_names())


def _bonded(residue: Residue, following: Residue) -> bool:
    if "C" not in residue.atoms or "N" not in following.atoms:
        return False
    return bool(np.linalg.norm(residue.atoms["C"] - following.atoms["N"]) < _PEPTIDE_BOND)
