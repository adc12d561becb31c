"""Mapping over rows: the plain call's value and gradients, in memory that does not grow with the axis."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbowroom.memory.chunk import map_rows

ROWS = 7


def inputs(dtype):
    rng = np.random.default_rng(0)
    rows = {"x": jnp.asarray(rng.standard_normal((ROWS, 3)), dtype), "keep": jnp.asarray(rng.random(ROWS) > 0.4)}
    assert 0 < rows["keep"].sum() < ROWS
    return rows, jnp.asarray(rng.standard_normal((3, 4)), dtype), jnp.arange(4)


def loss(rows, weights, powers, size):
    """Uses a row mask, a closed-over weight, a closed-over integer, and gives a tree."""

    def function(rows):
        y = jnp.where(rows["keep"][:, None], rows["x"] @ weights, 0)
        return {"a": jnp.sin(y) * jnp.where(powers > 1, 1, 2).astype(y.dtype)[None], "b": y.sum(1)}

    out = map_rows(function, rows, size=size)
    return (out["a"] * jnp.cos(jnp.arange(ROWS, dtype=weights.dtype))[:, None]).sum() + (out["b"] ** 2).sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 100])
def test_chunks_change_neither_value_nor_gradient(size, dtype):
    with jax.enable_x64(dtype == "float64"):
        rows, weights, powers = inputs(dtype)

        def run(size):
            def of(x, weights):
                return loss({**rows, "x": x}, weights, powers, size)

            return jax.jit(jax.value_and_grad(of, (0, 1)))(rows["x"], weights)

        got, want = run(size), run(None)
    # Weight gradients are summed in another order.
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=32 * np.finfo(dtype).eps * np.abs(np.asarray(w)).max())


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("out_axis", [0, 1])
def test_columns_are_the_rows_of_the_transposed_array(size, out_axis):
    rng = np.random.default_rng(1)
    table, other = (jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in ((5, ROWS, 2), (ROWS, 5, 2)))
    factor = jnp.asarray(rng.standard_normal((ROWS, 5)), jnp.float32)
    factor = factor if out_axis == 0 else factor.T

    def function(column, row):
        return jnp.sin((column * row).sum(-1))

    def chunked(table, other):
        return (factor * map_rows(function, table, other, size=size, axes=(1, 0), out_axis=out_axis)).sum()

    def by_hand(table, other):
        rows = jnp.stack([function(table[:, i], other[i]) for i in range(ROWS)])
        return (factor * (rows if out_axis == 0 else rows.T)).sum()

    got, want = (jax.jit(jax.value_and_grad(f, (0, 1)))(table, other) for f in (chunked, by_hand))
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=32 * np.finfo("float32").eps * np.abs(np.asarray(w)).max())


def test_chunks_work_inside_a_checkpointed_scan():
    rows, weights, powers = inputs("float32")

    def total(size):
        def body(carry, _):
            return carry + loss({**rows, "x": rows["x"] + carry}, weights, powers, size) / 100, None

        return jax.jit(jax.value_and_grad(lambda c: jax.lax.scan(jax.checkpoint(body), c, None, length=3)[0]))(
            jnp.float32(0.5)
        )

    np.testing.assert_allclose(total(3), total(None), rtol=1e-6)


def test_memory_of_the_backward_pass_does_not_grow_with_the_axis():
    weights = jax.ShapeDtypeStruct((16, 512), jnp.float32)

    def temporaries(length, size):
        def of(x, weights):
            return map_rows(lambda some: jnp.tanh(jnp.sin(some @ weights)).sum(1), x, size=size).sum()

        rows = jax.ShapeDtypeStruct((length, 16), jnp.float32)
        return jax.jit(jax.grad(of, (0, 1))).lower(rows, weights).compile().memory_analysis().temp_size_in_bytes

    inside = 4 * 512
    assert temporaries(4096, None) >= 4096 * inside
    assert temporaries(4096, 32) - temporaries(1024, 32) < 3072 * inside / 10


def test_every_loop_brings_its_own_zeros_and_no_sooner():
    """The compiler would make the accumulators of all loops before the first, and hold them until the last."""
    length, width = 512, 64

    def units(maps):
        def of(x, weights):
            for weight in weights:
                table = jnp.tanh(x @ weight)  # read by every row: its gradient adds up in a float32 array of its own
                x = x + map_rows(lambda some, table=table: jnp.sin(some @ table.T) @ table, x, size=8)
            return jnp.square(x).sum()

        x, weights = jnp.ones((length, width)), [jnp.ones((width, width))] * maps
        return jax.jit(jax.grad(of, (0, 1))).lower(x, weights).compile().memory_analysis().temp_size_in_bytes / x.nbytes

    # What a map keeps for the backward pass: the rows it starts from and the table. Two accumulators would add two.
    assert (units(6) - units(3)) / 3 < 2.5
