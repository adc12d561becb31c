"""Predicted structures as mmCIF and PDB, with the confidence of each residue in the B-factor column."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from biotite.sequence import ProteinSequence
from biotite.structure import AtomArray
from biotite.structure.io.pdb import PDBFile
from biotite.structure.io.pdbx import CIFFile, set_structure
from jaxtyping import Bool, Float

from elbowroom.datasets.proteins.atoms import ATOM37

PDB_RESIDUES, PDB_ATOMS = 9_999, 99_999
"""The most that the fixed columns of a PDB file can count"""
PDB_LOWEST, PDB_HIGHEST = -999.999, 9_999.999
"""Angstrom; coordinates that its columns can hold"""
UNKNOWN = "UNK"


class StructureError(ValueError):
    """A predicted structure that no file can hold."""


@dataclass(frozen=True, kw_only=True)
class PredictedStructure:
    """A chain as a model predicts it."""

    name: str
    sequence: str
    positions: Float[np.ndarray, "res 37 3"]
    """Angstrom"""
    exists: Bool[np.ndarray, "res 37"]
    """atoms that the residues have"""
    confidence: Float[np.ndarray, "res"]
    """predicted lDDT-Ca, 0 to 100"""


def write_structure(structure: PredictedStructure, stem: Path) -> list[Path]:
    """Write `stem`.cif and, unless there is a `pdb_obstacle`, `stem`.pdb; gives their paths.

    Raises `StructureError`, and writes nothing, for a structure without atoms or with numbers that are not finite.
    """
    atoms = atom_array(structure)
    _check(structure, atoms)
    cif = CIFFile()
    set_structure(cif, atoms, data_block=stem.name)
    # The dictionary that defines mmCIF asks for the author's own numbering too; biotite writes it from the same.
    written, pdb_path = [whole(stem.with_name(f"{stem.name}.cif"), cif.write)], stem.with_name(f"{stem.name}.pdb")
    if pdb_obstacle(structure) is None:
        pdb = PDBFile()
        pdb.set_structure(atoms)
        written.append(whole(pdb_path, pdb.write))
    else:
        pdb_path.unlink(missing_ok=True)  # of an earlier prediction: it would contradict the new one
    return written


def pdb_obstacle(structure: PredictedStructure) -> str | None:
    """Why the fixed columns of a PDB file cannot hold a structure; None where they can."""
    residues, places = len(structure.sequence), structure.positions[structure.exists]
    if residues > PDB_RESIDUES:
        return f"{residues:,} residues are more than the {PDB_RESIDUES:,} that a PDB file can number"
    if len(places) > PDB_ATOMS:
        return f"{len(places):,} atoms are more than the {PDB_ATOMS:,} that a PDB file can number"
    if places.min(initial=0) < PDB_LOWEST or places.max(initial=0) > PDB_HIGHEST:
        return f"coordinates from {places.min():.0f} to {places.max():.0f} Angstrom are too large for a PDB file"
    return None


def atom_array(structure: PredictedStructure) -> AtomArray:
    """The atoms as biotite holds them, chain A, residues numbered from 1."""
    residue, column = np.nonzero(structure.exists)
    names = np.array(ATOM37)[column]
    atoms = AtomArray(len(residue))
    atoms.coord = structure.positions[residue, column].astype(np.float32)
    atoms.chain_id = np.full(len(residue), "A")
    atoms.res_id = residue + 1
    atoms.res_name = np.array([_three_letters(letter) for letter in structure.sequence])[residue]
    atoms.atom_name = names
    atoms.element = np.array([name[0] for name in names])
    atoms.set_annotation("b_factor", structure.confidence[residue].round(2))
    atoms.set_annotation("occupancy", np.ones(len(residue)))
    return atoms


def whole(path: Path, write: Callable[[str], None]) -> Path:
    """Write a file beside its place and move it there, so that no half of one is ever found."""
    partial = path.with_name(f".{path.name}.partial")
    write(str(partial))
    os.replace(partial, path)
    return path


def _three_letters(letter: str) -> str:
    return ProteinSequence.convert_letter_1to3(letter) if letter in "ARNDCQEGHILKMFPSTWYV" else UNKNOWN


def _check(structure: PredictedStructure, atoms: AtomArray) -> None:
    if len(atoms) == 0:
        raise StructureError(f"{structure.name}: no residue is one of the 20 amino acids, so there is no atom to write")
    finite = np.isfinite(atoms.coord).all(axis=1) & np.isfinite(atoms.b_factor)
    if not finite.all():
        found = f"{(~finite).sum()} of {len(atoms)} atoms have no finite position or confidence"
        raise StructureError(f"{structure.name}: {found}; the parameters are damaged, or their training diverged")
