"""Arithmetic is counted as often as it is done."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbowroom.memory.footprint.flops import flops

ROWS, WIDTH, TRIPS = 6, 5, 7
X, W = jax.ShapeDtypeStruct((ROWS, WIDTH), jnp.float32), jax.ShapeDtypeStruct((WIDTH, WIDTH), jnp.float32)
PRODUCT = 2 * ROWS * WIDTH * WIDTH


def count(function, *arguments) -> int:
    return flops(jax.make_jaxpr(function)(*arguments))


def repeated(block):
    def run(x, w):
        return jax.lax.scan(lambda carry, _: (block(carry, w), None), x, None, length=TRIPS)[0]

    return run


def product(x, w):
    return x @ w


def test_a_loop_counts_as_often_as_it_runs():
    assert count(product, X, W) == PRODUCT
    assert count(repeated(product), X, W) == TRIPS * PRODUCT


def test_a_gradient_takes_two_products_more_and_a_recompute_one_more():
    def derivative(block):
        return jax.grad(lambda x, w: repeated(block)(x, w).sum(), argnums=(0, 1))

    def twice(x, w):
        return (x @ w) @ w

    plain, again = count(derivative(twice), X, W), count(derivative(jax.checkpoint(twice)), X, W)
    additions = TRIPS * 2 * WIDTH * WIDTH  # of the weight's gradients
    assert plain == pytest.approx(TRIPS * 6 * PRODUCT + additions, rel=0.02)
    assert again - plain == TRIPS * PRODUCT  # the second product is not needed to go backwards


def test_of_branches_the_dearest_counts():
    def either(x, w):
        return jax.lax.cond(x[0, 0] > 0, lambda: x @ w @ w, lambda: x @ w)

    assert count(either, X, W) == 2 * PRODUCT


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: jnp.einsum("rc,rd->cd", x, jnp.tanh(x @ w)),
        lambda x, w: jax.lax.conv(x[None, None], w[:4, None, None, :3], (1, 1), "VALID"),  # four channels
        lambda x, w: (x + x * x - x).sum(),
    ],
    ids=["products", "convolution", "elements"],
)
def test_without_loops_it_is_the_compilers_count(function):
    theirs = jax.jit(function).lower(np.ones(X.shape, np.float32), np.ones(W.shape, np.float32)).compile()
    assert count(function, X, W) == pytest.approx(theirs.cost_analysis()["flops"], rel=0.1)
