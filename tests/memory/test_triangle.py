"""Triangle multiplication in rows: the plain product's value and gradients, and none of its large gradients."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params  # pyright: ignore[reportPrivateImportUsage]

from elbowroom.memory.triangle import multiply_edges

RESIDUES, CHANNELS, INNER = 7, 3, 2


def inputs(dtype):
    rng = np.random.default_rng(0)
    shapes = {"pair": (RESIDUES, RESIDUES, CHANNELS), "left": (CHANNELS, INNER), "right": (CHANNELS, INNER)}
    shapes |= {"out": (INNER, CHANNELS), "gate": (CHANNELS, CHANNELS)}
    arrays = {name: jnp.asarray(rng.standard_normal(shape), dtype) for name, shape in shapes.items()}
    mask = jnp.asarray(rng.random((RESIDUES, RESIDUES)) > 0.3)
    assert (mask != mask.T).any()
    return arrays, mask, jnp.asarray(rng.standard_normal((RESIDUES, RESIDUES, CHANNELS)), dtype)


def by_rows(given, mask, size, axis):
    def side(weights):
        return lambda edges, present: jnp.where(present[..., None], jnp.sin(edges @ weights), 0)

    def finish(product, rows):
        return jnp.tanh(product @ given["out"]) * jax.nn.sigmoid(rows @ given["gate"])

    return multiply_edges(side(given["left"]), side(given["right"]), finish, given["pair"], mask, size=size, axis=axis)


def by_definition(given, mask, axis):
    """One sum over all three vertices, with the edges of a residue on either axis."""
    left, right = (jnp.where(mask[..., None], jnp.sin(given["pair"] @ given[w]), 0) for w in ("left", "right"))
    edges = "ikc,jkc->ijc" if axis == 0 else "kic,kjc->ijc"
    product = jnp.einsum(edges, left, right)
    return jnp.tanh(product @ given["out"]) * jax.nn.sigmoid(given["pair"] @ given["gate"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, None])
def test_rows_change_neither_the_product_nor_a_gradient(size, axis, dtype):
    with jax.enable_x64(dtype == "float64"):
        given, mask, weight = inputs(dtype)
        got, pull_got = jax.vjp(lambda given: by_rows(given, mask, size, axis), given)
        want, pull_want = jax.vjp(lambda given: by_definition(given, mask, axis), given)
        pairs = [(got, want)] + [(pull_got(weight)[0][name], pull_want(weight)[0][name]) for name in given]
    # Sums are taken in another order.
    for g, w in pairs:
        np.testing.assert_allclose(g, w, rtol=0, atol=32 * np.finfo(dtype).eps * np.abs(np.asarray(w)).max())


def test_no_gradient_is_as_large_as_the_pair_representation_in_float32():
    """The other side's gradient, added up over slices, would be."""
    given, mask, weight = inputs("bfloat16")
    traced = jax.make_jaxpr(jax.grad(lambda given: (by_rows(given, mask, 2, 0) * weight).sum()))(given)
    carried: list[Any] = [var.aval for loop in loops(traced.jaxpr) for var in loop.outvars]
    large = {aval.dtype for aval in carried if aval.size >= RESIDUES * RESIDUES * INNER}
    assert large == {jnp.dtype("bfloat16")}


def loops(jaxpr):
    """Every scan of a program, those inside other equations included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from loops(inner)
