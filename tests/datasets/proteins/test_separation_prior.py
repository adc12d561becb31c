"""The baseline that knows only sequence separation, against loops."""

from dataclasses import replace

import numpy as np
import pytest

from elbowroom.datasets.demo.load import demo_proteins
from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.features import FeatureSizes, evaluation_features
from elbowroom.datasets.proteins.separation_prior import distance_bins, prior_loss, separation_prior
from elbowroom.datasets.proteins.structure import pseudo_beta


def bin_of(distance_squared: float) -> int:
    edges = np.linspace(2.3125, 21.6875, 63)
    return int(sum(distance_squared > edge**2 for edge in edges))


def test_bins_count_the_edges_that_a_distance_exceeds():
    positions = np.random.default_rng(0).normal(0, 9, (12, 3)).astype(np.float32)
    bins = distance_bins(positions)
    assert bins.min() == 0
    assert bins.max() == 63
    for i in range(12):
        for j in range(12):
            assert bins[i, j] == bin_of(float(((positions[i] - positions[j]) ** 2).sum()))


def test_the_prior_is_the_smoothed_histogram_of_each_separation(family):
    proteins = [family(f"p{i}", res=9 + i, seed=i) for i in range(3)] + [family(structure=False)]
    counts = np.ones((11, 64))
    for protein in proteins[:3]:
        beta, known = pseudo_beta(indices(protein.sequence).astype(np.int32), protein.structure)
        for i in np.flatnonzero(known):
            for j in np.flatnonzero(known):
                counts[abs(i - j), bin_of(float(((beta[i] - beta[j]) ** 2).sum()))] += 1
    prior = separation_prior(proteins)
    counts = counts[: len(prior)]
    np.testing.assert_allclose(np.exp(prior), counts / counts.sum(axis=1, keepdims=True), rtol=1e-12)


def test_separations_beyond_the_largest_share_its_row(family):
    prior = separation_prior([family(res=5)])
    protein = family(res=12, seed=7)
    sizes = FeatureSizes(res=12, seq=1, extra_seq=0)
    features = evaluation_features(protein, sizes)
    known = np.flatnonzero(features["pseudo_beta_mask"])
    beta = features["pseudo_beta"]
    terms = [
        -prior[min(abs(i - j), len(prior) - 1), bin_of(float(((beta[i] - beta[j]) ** 2).sum()))]
        for i in known
        for j in known
    ]
    assert prior_loss(prior, features) == pytest.approx(np.mean(terms), rel=1e-12)


def test_an_unresolved_example_costs_nothing_and_no_structure_is_refused(family):
    prior = separation_prior([family()])
    unresolved = replace(family(), structure=None)
    assert prior_loss(prior, evaluation_features(unresolved, FeatureSizes(res=8, seq=1, extra_seq=1))) == 0
    with pytest.raises(ValueError, match="no structure to learn distances from"):
        separation_prior([unresolved])


def test_on_held_out_chains_the_prior_beats_a_uniform_guess():
    prior = separation_prior(demo_proteins("train"))
    sizes = FeatureSizes(res=64, seq=1, extra_seq=0)
    losses = [prior_loss(prior, evaluation_features(protein, sizes)) for protein in demo_proteins("test")]
    assert 1.5 < np.mean(losses) < np.log(64) - 1
