"""The amino acids as tables, one row for each residue type in AlphaFold's order and a last one for the unknown.

Made from `residues.toml`. Atoms stand in two layouts: 37 columns, one for each heavy atom that any residue has, and
14 columns, only those which the residue itself can have.
"""

import tomllib
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float32, Int32

RESIDUES: Final[dict[str, dict[str, Any]]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
TYPES, UNKNOWN = len(RESIDUES) + 1, len(RESIDUES)
PROLINE: Final = list(RESIDUES).index("PRO")
GLYCINE: Final = list(RESIDUES).index("GLY")
ATOM37: Final = (
    *("N", "CA", "C", "CB", "O", "CG", "CG1", "CG2", "OG", "OG1", "SG", "CD", "CD1", "CD2", "ND1", "ND2", "OD1", "OD2"),
    *("SD", "CE", "CE1", "CE2", "CE3", "NE", "NE1", "NE2", "OE1", "OE2", "CH2", "NH1", "NH2", "OH", "CZ", "CZ2"),
    *("CZ3", "NZ", "OXT"),
)
N, CA, C, CB, OXYGEN = 0, 1, 2, 3, 4
"""Columns of the backbone and CB among the 37."""
N14, CA14, C14, SULFUR14 = 0, 1, 2, 5
"""Columns among the 14; the last is cysteine's."""
RADII: Final = {"C": 1.7, "N": 1.55, "O": 1.52, "S": 1.8}
"""Van der Waals radii in Angstrom"""
PSI, CHI = 3, 4
"""Rigid groups: 0 backbone, 1 omega and 2 phi (no heavy atoms), 3 psi, 4 to 7 the side-chain torsions."""


def _atom_tables() -> tuple[np.ndarray, ...]:
    to37, to14 = np.zeros((TYPES, 14), np.int32), np.zeros((TYPES, 37), np.int32)
    has14, has37 = np.zeros((TYPES, 14), bool), np.zeros((TYPES, 37), bool)
    group, place = np.zeros((TYPES, 14), np.int32), np.zeros((TYPES, 14, 3), np.float32)
    for row, residue in enumerate(RESIDUES.values()):
        for column, (atom, (number, *position)) in enumerate(residue["atoms"].items()):
            wide = ATOM37.index(atom)
            to37[row, column], to14[row, wide] = wide, column
            has14[row, column] = has37[row, wide] = True
            group[row, column], place[row, column] = number, position
    return to37, to14, has14, has37, group, place


ATOM14_TO_37: Int32[np.ndarray, "21 14"]
ATOM37_TO_14: Int32[np.ndarray, "21 37"]
ATOM14_EXISTS: Bool[np.ndarray, "21 14"]
ATOM37_EXISTS: Bool[np.ndarray, "21 37"]
ATOM14_GROUP: Int32[np.ndarray, "21 14"]
ATOM14_PLACE: Float32[np.ndarray, "21 14 3"]
ATOM14_TO_37, ATOM37_TO_14, ATOM14_EXISTS, ATOM37_EXISTS, ATOM14_GROUP, ATOM14_PLACE = _atom_tables()

ATOM14_RADIUS: Final[Float32[np.ndarray, "21 14"]] = np.where(
    ATOM14_EXISTS, np.array([RADII[atom[0]] for atom in ATOM37], np.float32)[ATOM14_TO_37], np.float32(0)
)


def _torsions(chi: list[str]) -> list[list[str]]:
    return [chi[i : i + 4] for i in range(len(chi) - 3)]


def _chi_tables() -> tuple[np.ndarray, ...]:
    atoms, exists = np.zeros((TYPES, 4, 4), np.int32), np.zeros((TYPES, 4), bool)
    symmetric = np.zeros((TYPES, 4), bool)
    for row, residue in enumerate(RESIDUES.values()):
        torsions = _torsions(residue["chi"])
        for number, names in enumerate(torsions):
            atoms[row, number] = [ATOM37.index(atom) for atom in names]
            exists[row, number] = True
        if residue["ambiguous"]:
            symmetric[row, len(torsions) - 1] = True
    return atoms, exists, symmetric


CHI_ATOMS: Int32[np.ndarray, "21 4 4"]
"""Columns, among the 37, of the atoms that define each side-chain torsion"""
CHI_EXISTS: Bool[np.ndarray, "21 4"]
CHI_SYMMETRIC: Bool[np.ndarray, "21 4"]
"""True where turning by 180 degrees changes nothing but the names"""
CHI_ATOMS, CHI_EXISTS, CHI_SYMMETRIC = _chi_tables()


def _group_atoms() -> Int32[np.ndarray, "21 8 3"]:
    """Columns of three atoms that define each group's frame: on the negative x axis, origin, in the xy plane."""
    atoms = np.zeros((TYPES, 8, 3), np.int32)
    atoms[:UNKNOWN, 0], atoms[:UNKNOWN, PSI] = (C, CA, N), (CA, C, OXYGEN)
    atoms[:, CHI:] = CHI_ATOMS[:, :, 1:]
    return atoms


GROUP_ATOMS: Final = _group_atoms()
GROUP_EXISTS: Final[Bool[np.ndarray, "21 8"]] = np.concatenate(
    [np.tile([True, False, False, True], (TYPES, 1)) & (np.arange(TYPES) < UNKNOWN)[:, None], CHI_EXISTS], axis=1
)
GROUP_SYMMETRIC: Final[Bool[np.ndarray, "21 8"]] = np.pad(CHI_SYMMETRIC, ((0, 0), (CHI, 0)))


def _default_frames() -> tuple[Float32[np.ndarray, "21 8 3 3"], Float32[np.ndarray, "21 8 3"]]:
    """Each group's frame in that of the group before it, all torsions at zero (Suppl. Algorithm 24)."""
    rotation, translation = np.zeros((TYPES, 8, 3, 3), np.float32), np.zeros((TYPES, 8, 3), np.float32)
    for row, residue in enumerate(RESIDUES.values()):
        at = {atom: np.array(place) for atom, (_, *place) in residue["atoms"].items()}
        rotation[row, :2] = np.eye(3)
        parts = {
            2: (at["N"] - at["CA"], np.array([1.0, 0.0, 0.0]), at["N"]),
            PSI: (at["C"] - at["CA"], at["CA"] - at["N"], at["C"]),
        }
        for number, (first, second, third, _) in enumerate(_torsions(residue["chi"])):
            # The axis of every further side-chain torsion starts at the origin of the group before it.
            later = (at[third], np.array([-1.0, 0.0, 0.0]), at[third])
            parts[CHI + number] = (at[third] - at[second], at[first] - at[second], at[third]) if number == 0 else later
        for group, (along, near, origin) in parts.items():
            rotation[row, group], translation[row, group] = _axes(along, near), origin
    return rotation, translation


def _axes(along: np.ndarray, near: np.ndarray) -> np.ndarray:
    x = along / np.linalg.norm(along)
    y = near - near @ x * x
    y = y / np.linalg.norm(y)
    return np.stack([x, y, np.cross(x, y)], axis=1)


DEFAULT_ROTATION, DEFAULT_TRANSLATION = _default_frames()


def _alternative_columns() -> Int32[np.ndarray, "21 14"]:
    """The column, among the 14, under whose name each atom may stand as well."""
    columns = np.tile(np.arange(14, dtype=np.int32), (TYPES, 1))
    for row, residue in enumerate(RESIDUES.values()):
        names = list(residue["atoms"])
        for pair in residue["ambiguous"]:
            one, other = (names.index(atom) for atom in pair)
            columns[row, [one, other]] = other, one
    return columns


ALTERNATIVE14: Final = _alternative_columns()
AMBIGUOUS14: Final[Bool[np.ndarray, "21 14"]] = np.arange(14) != ALTERNATIVE14
