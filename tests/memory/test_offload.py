"""State that waits in host memory: the same training, and arrays where the plan says."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from elbowroom.memory import offload
from elbowroom.memory.footprint.compiled import compile_step
from elbowroom.memory.offload_check import OFFLOADED, require_sound_offload
from elbowroom.memory.plan import Offload, OptimizerState, Plan, PlanError
from elbowroom.memory.recompute import scan_blocks
from elbowroom.memory.step import initial_state, make_step
from elbowroom.studies.optimizer import OptimizerSettings, make_optimizer

SETTINGS = OptimizerSettings(warmup_steps=2)
RULES = {"adam": OptimizerState(), "lion": OptimizerState(rule="lion")}
WAITING = {
    "optimizer": Offload(optimizer=True),
    "parameters": Offload(parameters=True),
    "both": Offload(optimizer=True, parameters=True),
}


@pytest.fixture(autouse=True)
def even_small_arrays_wait(monkeypatch):
    monkeypatch.setattr(offload, "SMALLEST_BYTES", 0)


def parameters():
    rng = np.random.default_rng(0)
    shapes = {"weight": (6, 8, 8), "bias": (6, 8), "other": (3, 8, 8), "out": (8,)}
    return {name: jnp.asarray(rng.normal(size=shape) / 3, jnp.float32) for name, shape in shapes.items()}


def loss_under(plan):
    def loss(parameters, x, key):
        def deep(x, layer):
            return x + jnp.tanh(x @ layer["weight"] + layer["bias"][None])

        x = scan_blocks(deep, x, {name: parameters[name] for name in ("weight", "bias")}, plan)
        x = scan_blocks(lambda x, weight: x + jnp.sin(x @ weight), x, parameters["other"], plan)
        return jnp.square(x @ parameters["out"]).sum(), {}

    return loss


def trained(plan, examples):
    optimizer = make_optimizer(SETTINGS, plan)
    state = initial_state(parameters(), optimizer, jax.random.key(0))
    here = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("device",)), PartitionSpec())
    state = jax.device_put(state, offload.shardings(state, optimizer, plan, here))
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), state)
    batch = jnp.asarray(np.random.default_rng(1).normal(size=(examples, 5, 8)), jnp.float32)
    # Compiled for shapes, as a run does it.
    step = compile_step(make_step(loss_under(plan), optimizer, plan, clip_norm=0.1), shapes, batch).executable
    for _ in range(3):
        state, _ = step(state, batch)
    return state


plainly_trained = cache(lambda rule, examples: trained(Plan(optimizer=RULES[rule]), examples))


@pytest.mark.parametrize("examples", [1, 2])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_training_is_the_same_wherever_the_state_waits(waiting, rule, examples):
    got, want = trained(Plan(offload=waiting, optimizer=RULES[rule]), examples), plainly_trained(rule, examples)
    for g, w in zip(
        jax.tree.leaves((got.parameters, got.optimizer)),
        jax.tree.leaves((want.parameters, want.optimizer)),
        strict=True,
    ):
        # The same arithmetic, fused differently: a few roundings of the largest value.
        np.testing.assert_allclose(g, w, rtol=0, atol=1e-5 * float(jnp.abs(w).max()))


@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_stacks_of_layers_wait_in_host_memory_before_and_after_a_step(waiting):
    state = trained(Plan(offload=waiting), 1)
    kinds = {name: leaf.sharding.memory_kind for name, leaf in state.parameters.items()}
    moments = {name: leaf.sharding.memory_kind for name, leaf in optax.tree.get(state.optimizer, "mu").items()}
    for where, waits in ((kinds, waiting.parameters), (moments, waiting.optimizer)):
        stacks = "pinned_host" if waits else "device"
        assert where == {"weight": stacks, "bias": stacks, "other": stacks, "out": "device"}


def test_the_offload_of_this_machine_is_sound():
    require_sound_offload()


@pytest.mark.parametrize("wrong", ["reversed", "not a number"])
def test_wrong_offloaded_gradients_are_refused(wrong):
    def gradient_of(plan, x, weights):
        right = jnp.arange(weights.size, dtype=jnp.float32).reshape(weights.shape)
        if plan != OFFLOADED:
            return right
        return right[::-1] if wrong == "reversed" else right.at[0, 0, 0].set(jnp.nan)

    with pytest.raises(PlanError, match=r"offload\.activations: .*wrong by .*remove it from the plan"):
        require_sound_offload(gradient_of)
