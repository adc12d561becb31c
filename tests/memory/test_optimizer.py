"""Moments in 8 bits, against brute force over the 256 values, optax's Adam, and the sizes that were published."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from elbowroom.memory.footprint.footprint import tree_bytes
from elbowroom.memory.optimizer import BLOCK, SMALLEST, dynamic_values, quantise, restore, scale_by_adam_8bit


@pytest.fixture
def numbers():
    """Eight decades of magnitudes of both signs, a number of them that fills no block."""
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.choice([-1, 1], 3001) * 10 ** rng.uniform(-6, 2, 3001), jnp.float32)


@pytest.mark.parametrize(("signed", "fractions"), [(True, 64), (False, 128)])
def test_the_highest_decade_has_half_of_the_values(signed, fractions):
    values = dynamic_values(signed=signed)
    assert len(set(values.tolist())) == 256
    assert (values[-1], values.min() < 0, 0 in values) == (1, signed, True)
    top = values[(values > 0.1) & (values < 1)]
    # The middles of equal steps from 0.1 to 1: the tree of Dettmers et al. 2022, Figure 2.
    np.testing.assert_allclose(top, 0.1 + 0.9 * (np.arange(fractions) + 0.5) / fractions, rtol=1e-6)
    assert values[values > 0].min() == pytest.approx((0.55 if signed else 0.325) * 1e-6)


def test_every_number_becomes_the_nearest_value_of_its_block(numbers):
    values = dynamic_values(signed=True)
    got = np.asarray(restore(quantise(numbers, signed=True), numbers, signed=True))
    for start in range(0, len(numbers), BLOCK):
        block = np.asarray(numbers[start : start + BLOCK])
        scale = np.abs(block).max()
        nearest = values[np.abs(block[:, None] / scale - values).argmin(1)] * scale
        np.testing.assert_allclose(got[start : start + BLOCK], nearest, rtol=1e-6)


def test_a_positive_second_moment_never_becomes_zero(numbers):
    squares = jnp.square(numbers).at[7].set(0)
    kept = restore(quantise(squares, signed=False), squares, signed=False)
    assert kept[7] == 0
    assert (jnp.delete(kept, 7) > 0).all()


def test_zeros_stay_zeros():
    zeros = jnp.zeros(BLOCK + 3)
    for signed in (True, False):
        np.testing.assert_array_equal(restore(quantise(zeros, signed=signed), zeros, signed=signed), zeros)


def test_the_state_takes_a_quarter_of_adams():
    parameters = {"large": jnp.zeros((64, 4 * BLOCK)), "small": jnp.zeros(SMALLEST - 1)}
    state = scale_by_adam_8bit(0.9, 0.999, 1e-6).init(parameters)
    large = parameters["large"].size
    # Two moments, each a byte a number and four bytes a block; a count of four bytes.
    assert tree_bytes(state) == 2 * (large + 4 * large // BLOCK) + 8 * (SMALLEST - 1) + 4


def test_the_first_step_is_adams_and_small_parameters_always_are():
    rng = np.random.default_rng(1)
    parameters = {"large": jnp.zeros(2 * SMALLEST), "small": jnp.zeros(5)}
    ours, theirs = scale_by_adam_8bit(0.9, 0.999, 1e-6), optax.scale_by_adam(0.9, 0.999, 1e-6)
    state, expected = ours.init(parameters), theirs.init(parameters)
    for number in range(3):
        gradient = jax.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape), jnp.float32), parameters)
        got, state = ours.update(gradient, state)
        with jax.numpy_dtype_promotion("standard"):
            want, expected = theirs.update(gradient, expected)
        for name in parameters if number == 0 else ("small",):
            np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6)


def test_training_converges_as_with_adam():
    """Logistic regression on gradients of very different scales; losses of the two rules end within 2 %."""
    rng = np.random.default_rng(2)
    inputs = jnp.asarray(rng.normal(size=(256, SMALLEST)) * 10 ** rng.uniform(-2, 0, SMALLEST), jnp.float32)
    labels = jnp.asarray(rng.random(256) < 0.5, jnp.float32)

    def loss(weights):
        return optax.losses.sigmoid_binary_cross_entropy(inputs @ weights, labels).mean()

    def trained(rule):
        @jax.jit
        def step(weights, state):
            with jax.numpy_dtype_promotion("standard"):
                update, state = rule.update(jax.grad(loss)(weights), state)
            return weights - 1e-3 * update, state

        weights, state = jnp.zeros(SMALLEST), rule.init(jnp.zeros(SMALLEST))
        for _ in range(40):
            weights, state = step(weights, state)
        return float(loss(weights))

    adam = trained(optax.scale_by_adam(0.9, 0.999, 1e-6))
    assert adam < 0.5 * float(loss(jnp.zeros(SMALLEST)))
    assert trained(scale_by_adam_8bit(0.9, 0.999, 1e-6)) == pytest.approx(adam, rel=0.02)
