"""The train step against the same arithmetic written out in numpy."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from elbowroom.memory.plan import Plan
from elbowroom.memory.step import initial_state, make_step


def loss(parameters, example, key):
    error = example["x"] @ parameters["w"] - example["y"]
    return error**2, {"error": error}


def batch(count=4):
    rng = np.random.default_rng(0)
    return {
        "x": jnp.asarray(rng.standard_normal((count, 3)), jnp.float32),
        "y": jnp.asarray(5 * rng.standard_normal(count), jnp.float32),
    }


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("clip", [None, 0.1])
def test_each_example_is_clipped_alone_before_averaging(count, clip):
    state = initial_state({"w": jnp.ones(3)}, optax.sgd(1.0), jax.random.key(0))
    examples = batch(count)
    new, metrics = jax.jit(make_step(loss, optax.sgd(1.0), Plan(), clip_norm=clip))(state, examples)
    x, y = np.asarray(examples["x"], float), np.asarray(examples["y"], float)
    gradients = 2 * (x.sum(1) - y)[:, None] * x
    norms = np.linalg.norm(gradients, axis=1)
    if clip is not None:
        gradients *= np.minimum(1, clip / norms)[:, None]
    np.testing.assert_allclose(new.parameters["w"], 1 - gradients.mean(0), rtol=1e-5)
    np.testing.assert_allclose(metrics["loss"], ((x.sum(1) - y) ** 2).mean(), rtol=1e-5)
    np.testing.assert_allclose(metrics["gradient_norm"], norms.mean(), rtol=1e-5)
    assert new.step == 1


def test_two_devices_take_a_share_each_and_give_the_step_of_one():
    """In a process of its own: the number of CPU devices is fixed when jax starts."""
    code = (
        "import jax, jax.numpy as jnp, numpy as np, optax\n"
        "from elbowroom.memory.plan import Mesh, Plan\n"
        "from elbowroom.memory.step import initial_state, make_step\n"
        "loss = lambda p, e, k: ((e['x'] @ p['w'] - e['y']) ** 2, {})\n"
        "rng = np.random.default_rng(0)\n"
        "batch = {'x': jnp.asarray(rng.standard_normal((4, 3))), 'y': jnp.asarray(rng.standard_normal(4))}\n"
        "run = lambda plan: jax.jit(make_step(loss, optax.sgd(0.1), plan, clip_norm=1.0))(\n"
        "    initial_state({'w': jnp.ones(3)}, optax.sgd(0.1), jax.random.key(0)), batch)[0].parameters['w']\n"
        "np.testing.assert_allclose(run(Plan()), run(Plan(mesh=Mesh(data=2))), rtol=1e-6)\n"
        "print(len(jax.devices()))\n"
    )
    flags = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", code], env=flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2"
