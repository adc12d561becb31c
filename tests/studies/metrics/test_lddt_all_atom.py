"""lDDT over the heavy atoms of real chains, against biotite."""

import numpy as np
import pytest
from biotite.structure import Atom, AtomArray, array
from biotite.structure import lddt as biotite_lddt

from elbowroom.datasets.demo.load import demo_proteins
from elbowroom.studies.metrics import lddt as module
from elbowroom.studies.metrics.lddt import lddt, lddt_all_atom, lddt_of_residues


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A noisy copy, a real structure, and its atoms; every seventh residue and some other atoms are unresolved."""
    structure = demo_proteins("test")[0].structure
    rng = np.random.default_rng(0)
    true = structure.atom_positions.astype(float)
    known = structure.atom_mask & (rng.random(structure.atom_mask.shape) < 0.9)
    known[::7] = False
    assert known.any()
    assert not known[structure.atom_mask].all()
    return true + rng.standard_normal(true.shape), true, known


def as_atoms(positions: np.ndarray, known: np.ndarray) -> AtomArray:
    return array(
        [
            Atom(positions[residue, column], res_id=residue + 1, atom_name=f"A{column}", element="C", chain_id="A")
            for residue, column in zip(*np.nonzero(known), strict=True)
        ]
    )


def test_residues_and_the_whole_equal_biotite(pair):
    predicted, true, known = pair
    atoms = as_atoms(true, known), as_atoms(predicted, known)
    other = biotite_lddt(*atoms, aggregation="residue", exclude_same_residue=True)
    own = lddt_of_residues(predicted, true, known)
    np.testing.assert_allclose(own[known.any(axis=1)], other, atol=1e-4)  # biotite keeps positions in float32
    assert np.isnan(own[~known.any(axis=1)]).all()
    whole = biotite_lddt(*atoms, aggregation="all", exclude_same_residue=True)
    assert lddt_all_atom(predicted, true, known) == pytest.approx(float(whole), abs=1e-4)


def test_turning_shifting_and_mirroring_change_nothing(pair):
    predicted, true, known = pair
    matrix, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))
    for moved in (predicted @ matrix + 20.0, predicted @ -matrix - 20.0):
        np.testing.assert_allclose(lddt_of_residues(moved, true, known), lddt_of_residues(predicted, true, known))


def test_the_order_of_atoms_changes_nothing(pair):
    predicted, true, known = pair
    residue, column = np.nonzero(known)
    order = np.random.default_rng(2).permutation(len(residue))
    points, places = predicted[residue, column], true[residue, column]
    there = np.ones(len(residue), bool)
    shuffled = lddt(points[order], places[order], there, residue[order])
    np.testing.assert_allclose(shuffled, lddt(points, places, there, residue)[order])


def test_the_distances_held_at_once_do_not_change_the_score(pair, monkeypatch):
    whole = lddt_of_residues(*pair)
    monkeypatch.setattr(module, "HELD", 1000)
    np.testing.assert_array_equal(lddt_of_residues(*pair), whole)


def test_equal_structures_score_one_and_unresolved_ones_nothing(pair):
    _, true, known = pair
    assert lddt_all_atom(true, true, known) == 1.0
    assert np.isnan(lddt_all_atom(true, true, np.zeros_like(known)))


def test_predicted_positions_that_are_not_finite_keep_no_distance(pair):
    _, true, known = pair
    predicted = true.copy()
    predicted[5] = np.nan
    assert known[5].any()
    assert lddt_of_residues(predicted, true, known)[5] == 0.0
