"""AlphaFold's optimizer, against its formula written out in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

from elbowroom.memory.plan import OptimizerState, Plan
from elbowroom.studies.optimizer import OptimizerSettings, learning_rate, make_optimizer


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 1e-6), (499, 5e-4), (999, 1e-3), (1000, 1e-3), (49_999, 1e-3), (50_000, 0.95e-3)]
)
def test_the_learning_rate_rises_over_a_thousand_steps_and_falls_once(step, rate):
    assert float(learning_rate(OptimizerSettings(), jnp.asarray(step))) == pytest.approx(rate, rel=1e-6)


def test_updates_are_adams():
    settings = OptimizerSettings(warmup_steps=2)
    optimizer = make_optimizer(settings, Plan())
    gradients = np.random.default_rng(0).normal(size=(3, 4))
    parameters = jnp.ones(4)
    state = optimizer.init(parameters)
    first, second, expected = np.zeros(4), np.zeros(4), np.ones(4)
    for step, gradient in enumerate(gradients, start=1):
        update, state = optimizer.update(jnp.asarray(gradient, jnp.float32), state, parameters)
        parameters = parameters + update
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        rate = 1e-3 * min(1, step / 2)
        expected -= rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-6)
    np.testing.assert_allclose(parameters, expected, rtol=1e-6)  # float32 against float64


def test_the_plan_says_how_the_first_moment_waits():
    optimizer = make_optimizer(OptimizerSettings(), Plan(optimizer=OptimizerState(first_moment="bfloat16")))
    adam = optimizer.init(jnp.ones(4))[0]
    assert (adam.mu.dtype, adam.nu.dtype) == (jnp.bfloat16, jnp.float32)
