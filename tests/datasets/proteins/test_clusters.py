"""Block deletion, cluster assignment and cluster summaries, against loops over the definitions."""

import numpy as np
import pytest

from elbowroom.datasets.proteins.alphabet import GAP, MASKED
from elbowroom.datasets.proteins.clusters import nearest_centre, summarise, without_blocks


@pytest.fixture
def centres_and_rows():
    random = np.random.default_rng(3)
    centres = random.integers(0, 23, (4, 9)).astype(np.int32)
    rows = random.integers(0, 22, (11, 9)).astype(np.int8)
    centres[0, 0] = centres[2, 5] = MASKED
    centres[1, :3] = rows[4, :3] = GAP
    assert ((centres[:, None] == GAP) & (rows[None] == GAP)).any()
    return centres, rows


def brute_force_nearest(centres, rows) -> list[int]:
    nearest = []
    for row in rows:
        scores = [sum(a == b and a < GAP for a, b in zip(centre, row, strict=True)) for centre in centres]
        nearest.append(scores.index(max(scores)))
    return nearest


def test_rows_join_the_centre_they_agree_with_most_gaps_and_masks_aside(centres_and_rows):
    np.testing.assert_array_equal(nearest_centre(*centres_and_rows), brute_force_nearest(*centres_and_rows))


def test_cluster_profile_and_mean_deletions_include_the_centre(centres_and_rows):
    centres, rows = centres_and_rows
    random = np.random.default_rng(4)
    deletions = random.integers(0, 5, (15, 9)).astype(np.int32)
    clusters = summarise(centres, deletions[:4], rows, deletions[4:])
    nearest = brute_force_nearest(centres, rows)
    for s in range(4):
        members = [centres[s], *(row for row, at in zip(rows, nearest, strict=True) if at == s)]
        counts = [deletions[s], *(d for d, at in zip(deletions[4:], nearest, strict=True) if at == s)]
        for r in range(9):
            share = [sum(member[r] == residue for member in members) / len(members) for residue in range(23)]
            np.testing.assert_allclose(clusters.profile[s, r], share, rtol=1e-6)  # float32 rounding of one division
        np.testing.assert_allclose(clusters.deletion_mean[s], np.mean(counts, axis=0), rtol=1e-6)


def test_centres_without_other_rows_summarise_themselves(centres_and_rows):
    centres, rows = centres_and_rows
    deletions = np.arange(36, dtype=np.int32).reshape(4, 9)
    clusters = summarise(centres, deletions, rows[:0], np.zeros((0, 9), np.int32))
    np.testing.assert_array_equal(clusters.profile.argmax(-1), centres)
    np.testing.assert_array_equal(clusters.deletion_mean, deletions)


def test_block_deletion_keeps_the_query_and_removes_runs_of_rows(family):
    alignment = family(seq=100).alignment
    left = []
    for seed in range(30):
        kept = without_blocks(alignment, np.random.default_rng(seed))
        np.testing.assert_array_equal(kept.msa[0], alignment.msa[0])
        left.append(kept.num_rows)
        rows = [int(np.flatnonzero((alignment.msa == row).all(axis=1))[0]) for row in kept.msa]
        removed = np.setdiff1d(np.arange(100), rows)
        runs = np.split(removed, np.flatnonzero(np.diff(removed) > 1) + 1)
        # A block is cut short at the end of the alignment, and at row 0, which always stays.
        assert all(len(run) >= 29 or run[-1] == 99 for run in runs)
    assert len(runs) <= 5
    assert 5 < np.mean(left) < 50


def test_block_deletion_leaves_an_alignment_of_one_row_alone(family):
    alignment = family(seq=1).alignment
    assert without_blocks(alignment, np.random.default_rng(0)).num_rows == 1


@pytest.mark.parametrize("rows", [2, 24, 25, 48])
def test_block_deletion_leaves_the_rows_that_are_asked_for(family, rows):
    alignment = family(seq=rows).alignment
    left = [without_blocks(alignment, np.random.default_rng(seed), least=24).num_rows for seed in range(30)]
    assert min(left) >= min(rows, 24)
    assert min(left) < rows or rows < 48
