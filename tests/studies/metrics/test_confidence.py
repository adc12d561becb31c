"""What a model says of its own accuracy, against the definitions in float64."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from elbowroom.memory.plan import Plan
from elbowroom.models.alphafold.confidence import AlignedErrorHead, LDDTHead
from elbowroom.models.alphafold.config import monomer

RES = 23


def probabilities(logits: jax.Array) -> np.ndarray:
    weights = np.exp(np.asarray(logits, np.float64))
    return weights / weights.sum(axis=-1, keepdims=True)


def with_random_weights(head: LDDTHead | AlignedErrorHead, rng: np.random.Generator) -> None:
    head.logits.weights[...] = jnp.asarray(rng.standard_normal(head.logits.weights[...].shape), "float32")


def test_predicted_lddt_is_the_mean_over_fifty_bins_of_two():
    rng = np.random.default_rng(0)
    head = LDDTHead(monomer(), rngs=nnx.Rngs(0))
    with_random_weights(head, rng)
    act = jnp.asarray(rng.standard_normal((RES, 384)), "float32")
    centres = [2 * bin + 1 for bin in range(50)]
    expected = head.expected(act)
    np.testing.assert_allclose(expected, probabilities(head(act)) @ centres, rtol=1e-5)  # float32
    assert np.ptp(expected) > 1


def test_aligned_error_and_tm_score_are_those_of_their_definitions():
    """Rows are frames: the predicted TM-score is the best row's, not the best column's (Suppl. 1.9.7)."""
    rng = np.random.default_rng(1)
    head = AlignedErrorHead(monomer("model_1_ptm"), rngs=nnx.Rngs(0))
    head.logits.weights[...] = jnp.eye(128, 64)
    error_of_frame, error_of_scored = rng.uniform(0, 10, RES), rng.uniform(0, 2, RES)
    likely = error_of_frame[:, None] + error_of_scored[None]
    pair = jnp.asarray(-np.abs(likely[..., None] - 0.5 * np.arange(128)), "float32")
    mask = np.arange(RES) % 5 != 0
    probability = probabilities(head(pair))
    step = 31 / 62
    centres = np.append(np.linspace(0, 31, 63) + step / 2, 31 + 3 * step / 2)
    scale = 1.24 * (max(mask.sum(), 19) - 15) ** (1 / 3) - 1.8
    kept = probability @ (1 / (1 + (centres / scale) ** 2))
    rows, columns = kept[:, mask].mean(axis=1)[mask], kept[mask].mean(axis=0)[mask]
    assert abs(rows.max() - columns.max()) > 0.01  # else the test could not tell them apart

    error, score = head.expected(pair, jnp.asarray(mask), Plan())
    np.testing.assert_allclose(error, probability @ centres, rtol=1e-5)  # float32
    np.testing.assert_allclose(score, rows.max(), rtol=1e-5)
