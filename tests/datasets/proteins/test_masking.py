"""The corruption of masked-MSA training, by its frequencies."""

import numpy as np

from elbowroom.datasets.proteins.alphabet import MASKED
from elbowroom.datasets.proteins.masking import column_profile, corrupt

SHAPE = (400, 250)


def test_a_column_profile_is_the_share_of_each_residue():
    msa = np.random.default_rng(0).integers(0, 22, (7, 5)).astype(np.int8)
    profile = column_profile(msa)
    for column in range(5):
        for residue in range(22):
            want = np.mean([row[column] == residue for row in msa])
            np.testing.assert_allclose(profile[column, residue], want, rtol=1e-6)


def test_corruption_has_alphafolds_frequencies():
    # Every residue is X, which no uniform draw gives; the profile gives gaps only: each way leaves its own trace.
    msa = np.full(SHAPE, 20, np.int8)
    profile = np.zeros((SHAPE[1], 22), np.float32)
    profile[:, 21] = 1
    corrupted, touched = corrupt(msa, profile, np.random.default_rng(1))
    # 100,000 positions: the standard deviation of these shares is 0.001 and, within the touched, below 0.004.
    np.testing.assert_allclose(touched.mean(), 0.15, atol=0.005)
    np.testing.assert_array_equal(corrupted[~touched], 20)
    inside = corrupted[touched]
    shares = [(inside == MASKED).mean(), (inside == 21).mean(), (inside == 20).mean(), (inside < 20).mean()]
    np.testing.assert_allclose(shares, [0.7, 0.1, 0.1, 0.1], atol=0.015)
    amino_acids = np.bincount(inside[inside < 20], minlength=20) / (inside < 20).sum()
    np.testing.assert_allclose(amino_acids, 1 / 20, atol=0.025)


def test_draws_follow_the_profile_of_their_column():
    random = np.random.default_rng(2)
    profile = random.dirichlet(np.full(22, 0.5), SHAPE[1]).astype(np.float32)
    profile[:, 20] = 0  # so that X below is untouched or unchanged
    profile /= profile.sum(axis=1, keepdims=True)
    msa = np.full((4000, SHAPE[1]), 20, np.int8)
    corrupted, _ = corrupt(msa, profile, random)
    for column in (0, 100):
        drawn = np.bincount(corrupted[:, column], minlength=23)[[*range(20), 21]]
        want = 4000 * 0.15 * (0.1 * profile[column] + np.r_[np.full(20, 0.005), 0, 0])[[*range(20), 21]]
        # Poisson counts: within five standard deviations, and one for rounding.
        assert (np.abs(drawn - want) < 5 * np.sqrt(want) + 1).all()
