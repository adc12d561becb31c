"""The 37 heavy atoms that amino acids have, in AlphaFold's order."""

from typing import Final

ATOM37: Final = (
    *("N", "CA", "C", "CB", "O", "CG", "CG1", "CG2", "OG", "OG1", "SG", "CD", "CD1", "CD2", "ND1", "ND2", "OD1", "OD2"),
    *("SD", "CE", "CE1", "CE2", "CE3", "NE", "NE1", "NE2", "OE1", "OE2", "CH2", "NH1", "NH2", "OH", "CZ", "CZ2"),
    *("CZ3", "NZ", "OXT"),
)
ATOM_INDEX: Final = {name: index for index, name in enumerate(ATOM37)}
CA: Final = ATOM_INDEX["CA"]
CB: Final = ATOM_INDEX["CB"]
