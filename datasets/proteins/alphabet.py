"""One map from letters to AlphaFold's residue indices, for queries, alignments and structures alike."""

from typing import Final

import numpy as np
from jaxtyping import Int8, Integer

AMINO_ACIDS: Final = "ARNDCQEGHILKMFPSTWYV"
"""The twenty, in the order of AlphaFold's `aatype`."""
UNKNOWN: Final = 20
GAP: Final = 21
MASKED: Final = 22
"""The token that hides a residue in masked-MSA training."""
GLYCINE: Final = AMINO_ACIDS.index("G")

LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""Every letter has a meaning: the twenty; B (D or N), Z (E or Q), J (I or L), O (Pyl), U (Sec), X (any)."""

_INDEX_OF_BYTE: Final = np.full(256, -1, np.int8)
_INDEX_OF_BYTE[[ord(letter) for letter in "BZJOUX"]] = UNKNOWN
_INDEX_OF_BYTE[[ord(letter) for letter in AMINO_ACIDS]] = np.arange(20)
_INDEX_OF_BYTE[ord("-")] = GAP


def indices(sequence: str) -> Int8[np.ndarray, "res"]:
    """Residue index of every letter: 0-19 the amino acids, 20 for B, Z, J, O, U and X, 21 for the gap `-`.

    AlphaFold's own tables turn B into D, Z into E and U into C in alignments only; here they are X everywhere.
    The letters must have been checked with `first_unknown_letter`.
    """
    found = _INDEX_OF_BYTE[np.frombuffer(sequence.encode("ascii"), np.uint8)]
    assert (found >= 0).all(), f"unchecked letters in {sequence!r}"
    return found


def letters(residues: Integer[np.ndarray, "res"]) -> str:
    """Residue indices 0 to 21 as letters, X for unknown and `-` for a gap."""
    return "".join(f"{AMINO_ACIDS}X-"[index] for index in residues)


def first_unknown_letter(text: str, allowed: str = "") -> int | None:
    """Position of the first sign that is neither a capital letter nor one of `allowed`."""
    return next((i for i, letter in enumerate(text) if letter not in LETTERS and letter not in allowed), None)
