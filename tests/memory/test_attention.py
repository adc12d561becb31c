"""Attention against a loop over queries in numpy float64, plain and tiled, values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbowroom.memory.attention import attention

ROW, Q, K, HEAD, C = 4, 7, 9, 2, 3
TILES = [(None, None), (3, 4), (2, None), (7, 9), (5, 1), (100, 100)]


def inputs(dtype="float64"):
    rng = np.random.default_rng(0)
    shapes = [(ROW, Q, HEAD, C), (ROW, K, HEAD, C), (ROW, K, HEAD, C), (HEAD, Q, K)]
    query, key, value, bias = (rng.standard_normal(shape) for shape in shapes)
    mask = rng.random((ROW, K)) > 0.4
    mask[2] = False
    assert mask.any(1).sum() == ROW - 1, "one row must have no valid key and the others some"
    assert not mask.all(1).any()
    return [jnp.asarray(x, dtype) for x in (query, key, value)], jnp.asarray(mask), jnp.asarray(bias, dtype)


def by_loop(query, key, value, mask, bias):
    out = np.zeros((ROW, Q, HEAD, C))
    for r, q, h in np.ndindex(ROW, Q, HEAD):
        logits = np.array([query[r, q, h] @ key[r, k, h] / np.sqrt(C) + bias[h, q, k] for k in range(K)])
        valid = mask[r] if mask[r].any() else np.ones(K)
        if not mask[r].any():
            logits = np.zeros(K)
        weights = np.exp(logits) * valid
        out[r, q, h] = weights @ value[r, :, h] / weights.sum()
    return out


@pytest.mark.parametrize("tile", TILES)
def test_attention_equals_a_loop_over_queries_and_reads_evenly_where_no_key_is_valid(tile):
    with jax.enable_x64(True):
        (query, key, value), mask, bias = inputs()
        got = attention(query, key, value, mask, bias, queries=tile[0], keys=tile[1])
        want = by_loop(*(np.asarray(x) for x in (query, key, value, mask, bias)))
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("tile", TILES[1:])
def test_tiles_change_no_gradient(tile, biased, dtype):
    def loss(tile, query, key, value, bias, mask):
        out = attention(query, key, value, mask, bias if biased else None, queries=tile[0], keys=tile[1])
        return jnp.sin(out).sum()

    with jax.enable_x64(dtype == "float64"):
        (query, key, value), mask, bias = inputs(dtype)
        gradients = jax.jit(jax.grad(loss, (1, 2, 3, 4)), static_argnums=0)
        got, want = (gradients(t, query, key, value, bias, mask) for t in (tile, (None, None)))
    # Sums in another order: a few tens of roundings of the largest value.
    tolerance = 32 * np.finfo(dtype).eps
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=tolerance * max(np.abs(np.asarray(w)).max(), 1.0))


def test_tiled_attention_never_holds_all_logits():
    row, length, head, c = 8, 128, 4, 8
    like = jax.ShapeDtypeStruct((row, length, head, c), jnp.float32)
    mask = jax.ShapeDtypeStruct((row, length), jnp.bool_)
    bias = jax.ShapeDtypeStruct((head, length, length), jnp.float32)

    def temporaries(tile):
        def loss(query, key, value, bias, mask):
            return attention(query, key, value, mask, bias, queries=tile, keys=tile).sum()

        compiled = jax.jit(jax.grad(loss, (0, 1, 2, 3))).lower(like, like, like, bias, mask).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    logits = 4 * row * head * length * length
    assert temporaries(None) > logits
    assert temporaries(16) < logits / 2
