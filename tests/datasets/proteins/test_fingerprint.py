"""Equal data have equal fingerprints; any change shows."""

from dataclasses import replace

import numpy as np

from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.fingerprint import fingerprint


def test_a_fingerprint_changes_with_every_part_of_a_protein(family):
    protein = family()
    deletions = protein.alignment.deletions.copy()
    deletions[1, 1] += 1
    moved = protein.structure.atom_positions + np.float32(1)
    changed = [
        [protein, protein],
        [replace(protein, name="other")],
        [replace(protein, sequence="A" * 20)],
        [replace(protein, alignment=None)],
        [replace(protein, structure=None)],
        [replace(protein, alignment=Alignment(msa=protein.alignment.msa, deletions=deletions))],
        [replace(protein, structure=replace(protein.structure, atom_positions=moved))],
    ]
    assert fingerprint([protein]) == fingerprint([family()])
    assert len({fingerprint(one) for one in [[protein], *changed]}) == 1 + len(changed)
