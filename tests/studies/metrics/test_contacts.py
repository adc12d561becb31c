"""Contact precision against a loop over its definition, for long and medium range."""

import numpy as np
import pytest

from elbowroom.datasets.demo.load import demo_proteins
from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.structure import pseudo_beta
from elbowroom.studies.metrics.contacts import LONG_RANGE, MEDIUM_RANGE, contact_precision


@pytest.fixture(scope="module")
def chain() -> tuple[np.ndarray, np.ndarray]:
    protein = demo_proteins("test")[1]
    beta, known = pseudo_beta(indices(protein.sequence).astype(np.int32), protein.structure)
    return beta, (known > 0) & (np.arange(len(beta)) % 11 != 0)


def by_loop(score: np.ndarray, beta: np.ndarray, known: np.ndarray, least: int, most: int) -> float:
    pairs = [
        (-score[i, j], i, j)
        for i in range(len(beta))
        for j in range(i + 1, len(beta))
        if least <= j - i <= most and known[i] and known[j]
    ]
    taken = sorted(pairs)[: known.sum() // 5]
    return float(np.mean([np.linalg.norm(beta[i] - beta[j]) < 8 for _, i, j in taken]))


@pytest.mark.parametrize("separation", [LONG_RANGE, MEDIUM_RANGE], ids=["long", "medium"])
def test_the_likeliest_fifth_is_counted_as_by_a_loop(chain, separation):
    """Scores rounded to a few values, so that most pairs tie with others."""
    beta, known = chain
    apart = np.linalg.norm(beta[:, None] - beta[None], axis=-1)
    noise = np.random.default_rng(0).standard_normal(apart.shape)
    score = np.round(-0.1 * apart + noise)
    found = contact_precision(score, beta, known, separation=separation)
    assert found == by_loop(score, beta, known, *separation)
    assert 0 < found < 1


def test_all_pairs_are_taken_where_there_are_fewer_than_a_fifth():
    """Of 30 residues six pairs would be taken; three are far enough apart."""
    beta = np.zeros((30, 3))
    beta[29] = 100.0
    known = np.ones(30, bool)
    assert contact_precision(np.zeros((30, 30)), beta, known, separation=(28, 99)) == pytest.approx(1 / 3)
