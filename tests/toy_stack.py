"""A small stack of attention blocks that obeys every plan: shared by tests of footprints, budgets and audits."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from elbowroom.memory.attention import attention
from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.recompute import name, recomputed_module, scan_blocks
from elbowroom.memory.step import TrainState, initial_state, make_step

BLOCKS, ROWS, LENGTH, CHANNELS, HEADS = 4, 24, 40, 32, 4
OPTIMIZER = optax.chain(optax.trace(0.9), optax.scale(-0.01))
AXES = {"rows": {"rows": ROWS}, "queries": {"length": LENGTH}, "keys": {"length": LENGTH}}


def parameters() -> dict[str, jax.Array]:
    width = CHANNELS // HEADS
    shapes = {
        "scale": (CHANNELS,),
        "query": (CHANNELS, HEADS, width),
        "key": (CHANNELS, HEADS, width),
        "value": (CHANNELS, HEADS, width),
        "gate": (CHANNELS, CHANNELS),
        "out": (CHANNELS, CHANNELS),
        "bias": (CHANNELS, HEADS),
        "up": (CHANNELS, 4 * CHANNELS),
        "down": (4 * CHANNELS, CHANNELS),
    }
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return {
        label: 0.1 * jax.random.normal(key, (BLOCKS, *shape))
        for key, (label, shape) in zip(keys, shapes.items(), strict=True)
    }


def batch() -> dict[str, jax.Array]:
    mask = jax.random.uniform(jax.random.key(1), (1, ROWS, LENGTH)) > 0.3
    return {"act": jax.random.normal(jax.random.key(2), (1, ROWS, LENGTH, CHANNELS)), "mask": mask}


def state() -> TrainState:
    return initial_state(parameters(), OPTIMIZER, jax.random.key(3))


def shapes() -> tuple[Any, Any]:
    """State and batch without their arrays."""
    return jax.eval_shape(state), jax.eval_shape(batch)


def loss(plan: Plan) -> Callable[..., Any]:
    def of(weights: Any, example: Any, key: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        act = scan_blocks(
            lambda act, layer: _block(act, layer, example["mask"], plan),
            example["act"].astype(plan.precision.compute),
            weights,
            plan,
        )
        return jnp.square(act.astype(jnp.float32)).mean(), {}

    return of


def step_of(plan: Plan) -> Callable[..., Any]:
    return make_step(loss(plan), OPTIMIZER, plan, clip_norm=1.0)


def _block(act: jax.Array, layer: Any, mask: jax.Array, plan: Plan) -> jax.Array:
    layer = jax.tree.map(lambda w: w.astype(act.dtype), layer)
    act = name(act, "block_in")
    attend = recomputed_module(lambda a: _attend(a, layer, mask, plan), plan.recompute)
    act = act + name(attend(act), "attention_out")
    transition = recomputed_module(lambda a: _transition(a, layer, plan), plan.recompute)
    return act + transition(act)


def _normed(act: jax.Array, scale: jax.Array) -> jax.Array:
    wide = act.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5)
    return (normal * (1 + scale.astype(jnp.float32))[None, None]).astype(act.dtype)


def _attend(act: jax.Array, layer: Any, mask: jax.Array, plan: Plan) -> jax.Array:
    mean = act.mean(0)
    bias = jnp.einsum("qc,kc,ch->hqk", mean, mean, layer["bias"])

    def rows(some: jax.Array, valid: jax.Array) -> jax.Array:
        normal = _normed(some, layer["scale"])
        query, key, value = (jnp.einsum("rkc,chd->rkhd", normal, layer[w]) for w in ("query", "key", "value"))
        read = attention(query, key, value, valid, bias, queries=plan.chunk.queries, keys=plan.chunk.keys)
        return (read.reshape(some.shape) * jax.nn.sigmoid(normal @ layer["gate"])) @ layer["out"]

    return map_rows(rows, act, mask, size=plan.chunk.rows)


def _transition(act: jax.Array, layer: Any, plan: Plan) -> jax.Array:
    def rows(some: jax.Array) -> jax.Array:
        return jax.nn.relu(_normed(some, layer["scale"]) @ layer["up"]) @ layer["down"]

    return map_rows(rows, act, size=plan.chunk.rows)
