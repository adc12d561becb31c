"""A protein chain of a structure file, and its placement on a sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from biotite.sequence import ProteinSequence
from biotite.sequence.align import SubstitutionMatrix, align_optimal
from jaxtyping import Int8, Int32

from elbowroom.datasets.proteins.alphabet import UNKNOWN, indices, letters
from elbowroom.datasets.proteins.atoms import ATOM_INDEX
from elbowroom.datasets.proteins.residues import Residue, component_letter, on_atom37, rising_index
from elbowroom.datasets.proteins.structure import Structure, centred

LEAST_IDENTITY: Final = 0.9
"""with which a structure is taken to be that of a sequence"""
_GAPS: Final = (-11, -1)
"""to open and to extend, with BLOSUM62"""
_SHARED_ATOMS: Final = [ATOM_INDEX[name] for name in ("N", "CA", "C", "O", "CB")]


@dataclass(frozen=True, kw_only=True)
class Chain:
    """A sequence, resolved where it is, and the two names by which files call a chain."""

    label: str
    author: str
    sequence: str
    structure: Structure
    path: Path


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where residues stand on a sequence."""

    position: Int32[np.ndarray, "residue"]
    """-1 where a residue has no place."""
    differences: tuple[str, ...]
    """Such as `A12G`: letter of the sequence, position from 1, letter of the structure."""
    identity: float
    """Equal pairs, over the length of the shorter side: neither a tag nor a fragment lowers it."""


def place(sequence: str, residues: str, numbers: Sequence[int] | np.ndarray) -> Placement:
    """Find resolved residues on their sequence: by their numbers if these explain all of them, else by alignment."""
    wanted, found = indices(sequence), indices(residues)
    position = _by_number(wanted, found, numbers)
    if position is None:
        position = aligned_positions(wanted, found)
    placed = position >= 0
    differing = placed & (wanted[position] != found) & (wanted[position] != UNKNOWN) & (found != UNKNOWN)
    differences = tuple(f"{sequence[position[i]]}{position[i] + 1}{residues[i]}" for i in np.flatnonzero(differing))
    identity = (placed.sum() - differing.sum()) / min(len(sequence), len(residues))
    return Placement(position=position, differences=differences, identity=float(identity))


def chain_from_residues(
    residues: Sequence[Residue], *, label: str, author: str, path: Path, resolution: float | None
) -> Chain:
    """The chain as far as atoms show it: numbering gaps stay in `residue_index`, missing letters are unknown."""
    positions, mask = on_atom37(residues)
    structure = Structure(
        residue_index=rising_index(residues),
        atom_positions=centred(positions, mask),
        atom_mask=mask,
        resolution=resolution,
    )
    sequence = "".join(component_letter(residue.component) for residue in residues)
    return Chain(label=label, author=author, sequence=sequence, structure=structure, path=path)


def aligned_positions(
    query: Int8[np.ndarray, "res"], other: Int8[np.ndarray, "residue"]
) -> Int32[np.ndarray, "residue"]:
    """Where each residue of another sequence stands on the query, -1 if nowhere.

    The best alignment by BLOSUM62 with affine gaps, of which those at the ends cost nothing.
    """
    matrix = SubstitutionMatrix.std_protein_matrix()
    whole, part = ProteinSequence(letters(query)), ProteinSequence(letters(other))
    trace = align_optimal(whole, part, matrix, gap_penalty=_GAPS, terminal_penalty=False, max_number=1)[0].trace
    position = np.full(len(other), -1, np.int32)
    matched = trace[(trace >= 0).all(axis=1)]
    position[matched[:, 1]] = matched[:, 0]
    return position


def moved_onto(structure: Structure, placement: Placement, sequence: str, residues: str) -> Structure:
    """The structure on the positions of a sequence. Where letters differ only the atoms that residues share stay."""
    placed = placement.position >= 0
    target = placement.position[placed]
    positions, mask = np.zeros((len(sequence), 37, 3), np.float32), np.zeros((len(sequence), 37), bool)
    positions[target], mask[target] = structure.atom_positions[placed], structure.atom_mask[placed]
    other = np.array([sequence[j] != residues[i] for i, j in zip(np.flatnonzero(placed), target, strict=True)], bool)
    own_atoms = np.ones(37, bool)
    own_atoms[_SHARED_ATOMS] = False
    mask[np.ix_(target[other], np.flatnonzero(own_atoms))] = False
    return Structure(
        residue_index=np.arange(len(sequence), dtype=np.int32),
        atom_positions=centred(positions, mask),
        atom_mask=mask,
        resolution=structure.resolution,
    )


def _by_number(
    wanted: np.ndarray, found: np.ndarray, numbers: Sequence[int] | np.ndarray
) -> Int32[np.ndarray, "residue"] | None:
    steps = np.asarray(numbers) - numbers[0]
    if (np.diff(steps) < 1).any():
        return None
    for start in range(len(wanted) - int(steps[-1])):
        there = wanted[start + steps]
        if ((there == found) | (found == UNKNOWN) | (there == UNKNOWN)).all():
            return (start + steps).astype(np.int32)
    return None
