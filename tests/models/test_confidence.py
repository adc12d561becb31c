"""What the confidence heads' logits are read as."""

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from elbowroom.memory.plan import Chunk, Plan
from elbowroom.models.alphafold.confidence import AlignedErrorHead, LDDTHead
from elbowroom.models.alphafold.config import monomer, tiny
from elbowroom.models.alphafold.heads import DistogramHead

RES = 5


def certain_of(head, chosen: int) -> None:
    """Weights that put all probability into one bin, whatever the input."""
    head.logits.weights[...] = jnp.zeros_like(head.logits.weights[...])
    head.logits.bias[...] = jnp.where(jnp.arange(head.bins) == chosen, 0.0, -1e4)


def test_a_certain_lddt_bin_is_read_as_its_centre():
    head = LDDTHead(monomer(), rngs=nnx.Rngs(0))
    certain_of(head, 44)
    np.testing.assert_allclose(head.expected(jnp.ones((RES, 384))), 89.0, rtol=1e-6)


@pytest.mark.parametrize("rows", [None, 2])
def test_a_certain_aligned_error_is_read_as_its_centre_and_its_tm_score(rows):
    """Bins are half an Angstrom wide; for chains below 19 residues the scale is that of 19."""
    head = AlignedErrorHead(monomer("model_1_ptm"), rngs=nnx.Rngs(0))
    certain_of(head, 2)
    mask = jnp.arange(RES) < RES - 1
    error, score = head.expected(jnp.ones((RES, RES, 128)), mask, Plan(chunk=Chunk(rows=rows)))
    np.testing.assert_allclose(error, 1.25, rtol=1e-6)
    assert float(score) == pytest.approx(1 / (1 + (1.25 / (1.24 * 4 ** (1 / 3) - 1.8)) ** 2), rel=1e-5)
    assert head.centres()[-1] == pytest.approx(31.75 - 0.5 + 0.5)


def test_chunks_do_not_change_the_expected_error():
    head = AlignedErrorHead(tiny(), rngs=nnx.Rngs(0))
    rng = np.random.default_rng(0)
    head.logits.weights[...] = jnp.asarray(rng.standard_normal((8, 8)), "float32")
    pair, mask = jnp.asarray(rng.standard_normal((RES, RES, 8)), "float32"), jnp.ones(RES, bool)
    (whole, score), (cut, other) = (head.expected(pair, mask, Plan(chunk=Chunk(rows=r))) for r in (None, 3))
    np.testing.assert_allclose(whole, cut, rtol=1e-6)
    assert float(score) == pytest.approx(float(other), rel=1e-6)


@pytest.mark.parametrize("rows", [None, 2])
def test_contact_probability_adds_the_bins_that_end_below_eight_angstrom(rows):
    head = DistogramHead(tiny(), rngs=nnx.Rngs(0))
    rng = np.random.default_rng(0)
    head.half_logits.weights[...] = jnp.asarray(rng.standard_normal((8, 64)), "float32")
    pair = jnp.asarray(rng.standard_normal((RES, RES, 8)), "float32")
    logits = np.asarray(head(pair, pair.swapaxes(0, 1)), np.float64)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    below = [b for b, edge in enumerate(np.linspace(2.3125, 21.6875, 63)) if edge <= 8.0]
    found = head.contacts(pair, Plan(chunk=Chunk(rows=rows)))
    np.testing.assert_allclose(found, weights[..., below].sum(-1), rtol=1e-5)
