"""The search for the best superposition, on models so wrong that it is hard, and on chains so short that all is tried.

tmtools aligns structures by itself unless an alignment is given; it is given everywhere here, residue to residue.
"""

import itertools

import numpy as np
import pytest
import tmtools
from biotite.structure import Atom, AtomArray, array
from biotite.structure import tm_score as biotite_tm_score

from elbowroom.datasets.demo.load import demo_proteins
from elbowroom.datasets.proteins.atoms import CA
from elbowroom.studies.metrics import search
from elbowroom.studies.metrics.similarity import GDT_DISTANCES, distance_scale, gdt_ts, tm_score
from elbowroom.studies.metrics.superposition import rmsd, superpose


@pytest.fixture(scope="module")
def chains() -> list[np.ndarray]:
    """CA of real proteins."""
    return [p.structure.atom_positions[:, CA].astype(float) for p in demo_proteins("test")[:4]]


def rotation(rng: np.random.Generator) -> np.ndarray:
    matrix, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    return matrix * np.sign(np.linalg.det(matrix))


def as_atoms(points: np.ndarray) -> AtomArray:
    return array([Atom(p, res_id=i, res_name="GLY", atom_name="CA", element="C") for i, p in enumerate(points)])


def middle_turned(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    third = len(true) // 3
    moved = true.copy()
    moved[third : 2 * third] = (true[third : 2 * third] - true[third]) @ rotation(rng) + true[third]
    return moved + 0.5 * rng.standard_normal(true.shape)


def drifting(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Errors that add up along the chain, as those of a wrongly bent model do."""
    return true + 0.6 * np.cumsum(rng.standard_normal(true.shape), axis=0)


def blurred(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return true + 5.0 * rng.standard_normal(true.shape)


def random_walk(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    steps = rng.standard_normal(true.shape)
    return np.cumsum(3.8 * steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)


def mirrored(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return true * np.array([1.0, 1.0, -1.0])


@pytest.mark.parametrize("wrong", [middle_turned, drifting, blurred, random_walk, mirrored])
def test_wrong_models_score_as_in_tmtools_and_their_superposition_as_in_biotite(chains, wrong):
    rng = np.random.default_rng(0)
    for true in chains:
        predicted = wrong(true, rng) @ rotation(rng) + 10.0
        letters, own = "A" * len(true), tm_score(predicted, true)
        other = tmtools.tm_align(predicted, true, letters, letters, alignment=[letters, letters])
        assert own == pytest.approx(other.tm_norm_chain2, abs=1e-3)  # searches alike, not the same
        everyone = np.arange(len(true))
        placed = predicted @ other.u.T + other.t
        assert own == pytest.approx(biotite_tm_score(as_atoms(true), as_atoms(placed), everyone, everyone), abs=1e-3)


def test_no_subset_of_a_short_chain_gives_a_better_superposition(chains):
    """All 466 subsets of three or more of nine residues are superposed on."""
    rng = np.random.default_rng(1)
    true = chains[0][:9]
    length = 100  # of the whole reference; the scale of nine residues, 0.5 Angstrom, asks for three exact ones alone
    scale = distance_scale(length)
    for noise in (0.5, 2.0, 4.0):
        predicted = true + noise * rng.standard_normal(true.shape)
        best, within = 0.0, np.zeros(4)
        for size in range(3, 10):
            for subset in map(list, itertools.combinations(range(9), size)):
                apart = np.linalg.norm(superpose(predicted[subset], true[subset])(predicted) - true, axis=1)
                best = max(best, (1 / (1 + (apart / scale) ** 2)).sum() / length)
                within = np.maximum(within, [(apart <= distance).mean() for distance in GDT_DISTANCES])
        # Fragments miss some subsets that are scattered along the chain.
        assert 0.85 * best <= tm_score(predicted, true, length=length) <= best + 1e-9
        assert within.mean() - 1 / 9 <= gdt_ts(predicted, true) <= within.mean() + 1e-9


@pytest.mark.parametrize("metric", [tm_score, gdt_ts, rmsd], ids=["TM-score", "GDT-TS", "RMSD"])
def test_turning_and_shifting_changes_nothing(chains, metric):
    rng = np.random.default_rng(2)
    true = chains[1]
    predicted = middle_turned(true, rng)
    moved = (predicted @ rotation(rng) + 1000.0, true @ rotation(rng) - 500.0)
    assert metric(*moved) == pytest.approx(metric(predicted, true), rel=1e-6)


@pytest.mark.parametrize("metric", [tm_score, gdt_ts], ids=["TM-score", "GDT-TS"])
def test_a_prediction_scores_higher_than_its_mirror_image(chains, metric):
    rng = np.random.default_rng(3)
    for true in chains:
        predicted = true + rng.standard_normal(true.shape)
        assert metric(predicted, true) > metric(mirrored(predicted, rng), true) + 0.2


def test_the_distances_held_at_once_do_not_change_the_score(chains, monkeypatch):
    rng = np.random.default_rng(4)
    true = chains[2]
    predicted = drifting(true, rng)
    whole = tm_score(predicted, true), gdt_ts(predicted, true)
    monkeypatch.setattr(search, "HELD", 7 * len(true))
    assert (tm_score(predicted, true), gdt_ts(predicted, true)) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_chains_of_a_few_residues_have_scores(chains, count):
    true = chains[0][:count]
    moved = true @ rotation(np.random.default_rng(5)) + 3.0
    assert tm_score(moved, true) == pytest.approx(1.0)
    assert gdt_ts(moved, true) == 1.0


@pytest.mark.parametrize("metric", [tm_score, gdt_ts, rmsd], ids=["TM-score", "GDT-TS", "RMSD"])
def test_positions_that_are_not_finite_are_counted_in_the_refusal(chains, metric):
    predicted = chains[0].copy()
    predicted[3:5] = np.nan
    with pytest.raises(ValueError, match=rf"2 of {len(predicted)} predicted points are not finite"):
        metric(predicted, chains[0])


def test_points_on_a_line_or_in_a_plane_are_superposed_without_reflection(chains):
    rng = np.random.default_rng(6)
    line = np.outer(np.arange(6.0), [1.0, 2.0, -1.0])
    plane = np.append(rng.standard_normal((8, 2)), np.zeros((8, 1)), axis=1)
    for points in (line, plane, -line, plane * [-1, 1, 1], np.zeros((4, 3))):
        moved = points @ rotation(rng) + 7.0
        motion = superpose(moved, points)
        np.testing.assert_allclose(motion(moved), points, atol=1e-9)
        assert np.linalg.det(motion.rotation) == pytest.approx(1.0)
