"""Equal data have equal fingerprints; any change shows."""

from dataclasses import replace

import numpy as np

from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.fingerprint import fingerprint


def test_a_fingerprint_changes_with_every_part_of_a_protein(family, template):
    protein = family()
    deletions = protein.alignment.deletions.copy()
    deletions[1, 1] += 1
    moved = protein.structure.atom_positions + np.float32(1)
    one = template()
    changed = [
        [protein, protein],
        [replace(protein, name="other")],
        [replace(protein, sequence="A" * 20)],
        [replace(protein, alignment=None)],
        [replace(protein, structure=None)],
        [replace(protein, alignment=Alignment(msa=protein.alignment.msa, deletions=deletions))],
        [replace(protein, structure=replace(protein.structure, atom_positions=moved))],
        [replace(protein, structure=replace(protein.structure, resolution=1.5))],
        [replace(protein, templates=(one,))],
        [replace(protein, templates=(one, one))],
        [replace(protein, templates=(replace(one, aatype=one.aatype + np.int32(1)),))],
        [replace(protein, templates=(replace(one, atom_positions=moved),))],
    ]
    assert fingerprint([protein]) == fingerprint([family()])
    assert len({fingerprint(one) for one in [[protein], *changed]}) == 1 + len(changed)
