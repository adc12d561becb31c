"""A tiny Stormer with random parameters everywhere, and one state with gaps: shared by tests of plans."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from elbowroom.memory.plan import Plan
from elbowroom.models.stormer.config import tiny
from elbowroom.models.stormer.losses import weighted_square_error
from elbowroom.models.stormer.model import Stormer

SIZES = tiny()
GRID = SIZES.channels, SIZES.latitudes, SIZES.longitudes


def example(dtype: str = "float32") -> dict[str, jax.Array]:
    """A state and what it changes by; NaN where they are not known, at different points. Lead time in hours."""
    rng = np.random.default_rng(7)
    masks = {"mask": rng.random(GRID) > 0.2, "true_mask": rng.random(GRID) > 0.3}
    assert all(0 < m.sum() < m.size for m in masks.values()), "a mask without both values would test nothing"
    floats = {
        "state": np.where(masks["mask"], rng.standard_normal(GRID), np.nan),
        "true": np.where(masks["true_mask"], rng.standard_normal(GRID), np.nan),
        "lead_hours": np.array(12.0),
        "latitude_weights": rng.random(SIZES.latitudes),
        "channel_weights": rng.random(SIZES.channels),
    }
    return {**{k: jnp.asarray(v, dtype) for k, v in floats.items()}, **{k: jnp.asarray(v) for k, v in masks.items()}}


@cache
def graph_and_arrays() -> tuple[Any, Any]:
    """The model, and a random value for every parameter: a fresh model's blocks and head give zero."""
    graph, parameters = nnx.split(nnx.eval_shape(lambda: Stormer(SIZES, rngs=nnx.Rngs(0))), nnx.Param)
    rng = np.random.default_rng(1)
    return graph, jax.tree.map(lambda leaf: np.float32(0.4) * rng.standard_normal(leaf.shape, np.float32), parameters)


def tiny_model() -> Stormer:
    """The model with those values."""
    graph, parameters = graph_and_arrays()
    return nnx.merge(graph, jax.tree.map(jnp.asarray, parameters))


def _forecast(plan: Plan, parameters: Any, given: dict[str, jax.Array]) -> jax.Array:
    model = nnx.merge(graph_and_arrays()[0], parameters)
    return model(given["state"], given["mask"], given["lead_hours"], plan)


@cache
def forecast_of(plan: Plan) -> Callable[..., jax.Array]:
    """The compiled model. Parameters are arguments: the compiler would spend its time folding constants."""
    return jax.jit(lambda parameters, given: _forecast(plan, parameters, given))


def arrays(dtype: str = "float32") -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), graph_and_arrays()[1])


def forecast(plan: Plan, given: dict[str, jax.Array], dtype: str = "float32") -> jax.Array:
    return forecast_of(plan)(arrays(dtype), given)


def loss_of(plan: Plan) -> Callable[..., jax.Array]:
    def loss(parameters: Any, given: dict[str, jax.Array]) -> jax.Array:
        weights = given["latitude_weights"], given["channel_weights"]
        return weighted_square_error(_forecast(plan, parameters, given), given["true"], given["true_mask"], *weights)

    return loss


def in_their_memories(parameters: Any, plan: Plan) -> Any:
    """Stacks of parameters in host memory where the plan offloads them, as at the published size."""
    here = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("device",)), PartitionSpec())
    if not plan.offload.parameters:
        return parameters

    def place(path: Any, leaf: jax.Array) -> jax.Array:
        stacked = any(stack in jax.tree_util.keystr(path) for stack in ("blocks", "token_embeds"))
        return jax.device_put(leaf, here.with_memory_kind("pinned_host") if stacked else here)

    return jax.tree_util.tree_map_with_path(place, parameters)


@cache
def loss_and_gradient(plan: Plan, dtype: str = "float32") -> tuple[float, dict[str, np.ndarray]]:
    """The loss and the gradient of every parameter by its path, in `dtype` throughout."""
    parameters = in_their_memories(arrays(dtype), plan)
    value, gradient = jax.jit(jax.value_and_grad(loss_of(plan)))(parameters, example(dtype))
    flat, _ = jax.tree_util.tree_flatten_with_path(gradient)
    return float(value), {jax.tree_util.keystr(path): np.asarray(array) for path, array in flat}
