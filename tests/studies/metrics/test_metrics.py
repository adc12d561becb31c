"""Metrics of structures against other programs, brute force and what must hold for any of them."""

import numpy as np
import pytest
import tmtools
from biotite.structure import Atom, array, superimpose
from biotite.structure import lddt as biotite_lddt
from biotite.structure import rmsd as biotite_rmsd

from elbowroom.datasets.demo.load import demo_proteins
from elbowroom.datasets.proteins.atoms import CA
from elbowroom.studies.metrics.calibration import calibration
from elbowroom.studies.metrics.contacts import contact_precision
from elbowroom.studies.metrics.lddt import lddt, lddt_ca
from elbowroom.studies.metrics.similarity import gdt_ts, tm_score
from elbowroom.studies.metrics.superposition import rmsd, superpose

MIRROR = np.array([1.0, 1.0, -1.0])


def chains(count: int) -> list[np.ndarray]:
    """CA of real proteins."""
    proteins = [p for p in demo_proteins("test") if p.structure is not None][:count]
    return [p.structure.atom_positions[:, CA].astype(float) for p in proteins]


def turned(points: np.ndarray) -> np.ndarray:
    rotation, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))
    return points @ (rotation * np.sign(np.linalg.det(rotation))) + np.array([3.0, -20.0, 7.0])


def remodelled(points: np.ndarray, noise: float, seed: int = 0) -> np.ndarray:
    """A model whose second half is turned away as a whole, with noise everywhere."""
    rng = np.random.default_rng(seed)
    half = len(points) // 2
    angle = 0.6
    bend = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
    moved = points.copy()
    moved[half:] = (points[half:] - points[half]) @ bend + points[half]
    return turned(moved + noise * rng.standard_normal(points.shape))


def everywhere(points: np.ndarray) -> np.ndarray:
    return np.ones(len(points), bool)


@pytest.mark.parametrize("noise", [0.3, 1.0, 2.5])
def test_tm_score_equals_tmtools_for_the_same_alignment(noise):
    for true in chains(6):
        predicted, letters = remodelled(true, noise), "A" * len(true)
        other = tmtools.tm_align(predicted, true, letters, letters, alignment=[letters, letters])
        assert tm_score(predicted, true) == pytest.approx(other.tm_norm_chain2, abs=1e-3)


def test_rmsd_and_superposition_equal_biotite():
    for true in chains(2):
        predicted = remodelled(true, 1.0)
        fitted = superimpose(true, predicted).apply(predicted)
        np.testing.assert_allclose(superpose(predicted, true)(predicted), fitted, atol=1e-4)
        assert rmsd(predicted, true) == pytest.approx(float(biotite_rmsd(true, fitted)), rel=1e-5)


def test_lddt_equals_biotite():
    for true in chains(2):
        predicted = remodelled(true, 0.7)
        atoms = [
            array([Atom(p, res_id=i + 1, atom_name="CA", element="C", chain_id="A") for i, p in enumerate(points)])
            for points in (true, predicted)
        ]
        other = biotite_lddt(*atoms, aggregation="atom", exclude_same_residue=True)
        np.testing.assert_allclose(lddt(predicted, true, everywhere(true)), other, atol=1e-4)


def test_lddt_equals_a_loop_over_the_definition():
    true = chains(1)[0][:25]
    predicted, known = remodelled(true, 1.5), np.arange(25) % 4 != 0
    residue = np.arange(25) // 2
    for i, score in enumerate(lddt(predicted, true, known, residue)):
        kept = []
        for j in range(25):
            apart = np.linalg.norm(true[i] - true[j])
            if known[i] and known[j] and residue[i] != residue[j] and apart < 15:
                error = abs(apart - np.linalg.norm(predicted[i] - predicted[j]))
                kept.append(np.mean([error < t for t in (0.5, 1, 2, 4)]))
        assert score == pytest.approx(np.mean(kept)) if kept else np.isnan(score)


@pytest.mark.parametrize("metric", [tm_score, gdt_ts], ids=["TM-score", "GDT-TS"])
def test_similarity_is_one_for_equal_structures_and_lower_for_mirror_images(metric):
    for true in chains(2):
        assert metric(turned(true), true) == pytest.approx(1.0)
        assert metric(true * MIRROR, true) < 0.7


def test_lddt_cannot_tell_a_mirror_image_but_superposition_can():
    true = chains(1)[0]
    assert lddt_ca(true * MIRROR, true, everywhere(true)) == 1.0
    assert rmsd(true * MIRROR, true) > 5.0
    assert rmsd(turned(true), true) < 1e-5


def test_gdt_counts_residues_within_each_distance_of_the_best_superposition():
    """Half of the residues exact, half far away: every cutoff can bring exactly half together."""
    true = chains(1)[0][:60]
    predicted = true.copy()
    predicted[30:] += np.array([500.0, 0, 0]) * (1 + np.arange(30))[:, None]
    assert gdt_ts(turned(predicted), true) == pytest.approx(0.5)


def test_unresolved_residues_lower_the_score_by_their_share():
    true = chains(1)[0]
    assert tm_score(true[:50], true[:50], length=100) == pytest.approx(0.5)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_points_can_be_superposed(count):
    points = chains(1)[0][:count]
    np.testing.assert_allclose(superpose(turned(points), points)(turned(points)), points, atol=1e-5)


def test_nothing_to_compare_is_said():
    with pytest.raises(ValueError, match="share no resolved"):
        tm_score(np.zeros((0, 3)), np.zeros((0, 3)))
    assert np.isnan(lddt_ca(np.zeros((1, 3)), np.zeros((1, 3)), np.ones(1, bool)))


def test_contact_precision_is_one_for_true_distances_and_chance_for_constant_scores():
    beta = chains(1)[0]
    apart = np.linalg.norm(beta[:, None] - beta[None], axis=-1)
    assert contact_precision(-apart, beta, everywhere(beta)) == 1.0
    assert contact_precision(apart, beta, everywhere(beta)) == 0.0
    assert np.isnan(contact_precision(apart[:20, :20], beta[:20], everywhere(beta[:20])))


def test_calibration_is_perfect_for_true_predictions():
    scores = np.random.default_rng(0).random(200) * 100
    found = calibration(scores, np.append(scores[:-1], np.nan))
    assert found.correlation == pytest.approx(1.0)
    assert found.error == 0.0
    assert sum(count for *_, count in found.bins) == 199
