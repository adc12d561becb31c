"""One train step under a `Plan`: gradients example by example, clipped, averaged, applied."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import AxisType, PartitionSpec
from jaxtyping import Array, Float, Int, Key, PyTree

from elbowroom.memory.offload import beside, each, norm, update_of
from elbowroom.memory.plan import Plan

type Loss = Callable[[PyTree, PyTree, Array], tuple[Array, dict[str, Array]]]
"""(parameters, one example, random key) -> scalar loss and scalar metrics."""


class TrainState(NamedTuple):
    """Everything a run must keep to go on: the next step depends on nothing else."""

    step: Int[Array, ""]
    parameters: PyTree
    optimizer: PyTree
    key: Key[Array, ""]


def initial_state(parameters: PyTree, optimizer: optax.GradientTransformation, key: Key[Array, ""]) -> TrainState:
    return TrainState(jnp.zeros((), jnp.int32), parameters, optimizer.init(parameters), key)


def make_step(
    loss: Loss, optimizer: optax.GradientTransformation, plan: Plan, *, clip_norm: float | None = None
) -> Callable[[TrainState, PyTree], tuple[TrainState, dict[str, Array]]]:
    """A pure `step(state, batch) -> (state, metrics)`; jit it with `donate_argnums=0`.

    Every array of `batch` has the examples on its first axis. They are taken one after the other, so that memory
    does not grow with the batch; `plan.mesh.data` devices take a share each. `clip_norm` bounds the L2 norm of
    each example's own gradient before averaging (Jumper et al. 2021, Suppl. 1.11.3).
    """

    def example_gradient(
        parameters: PyTree, example: PyTree, key: Key[Array, ""]
    ) -> tuple[PyTree, dict[str, Float[Array, ""]]]:
        (value, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(parameters, example, key)
        length = norm(gradient)
        if clip_norm is not None:
            scale = jnp.minimum(1.0, clip_norm / jnp.maximum(length, 1e-12)).astype(length.dtype)
            gradient = each(lambda g: g * scale.astype(g.dtype), gradient)
        return gradient, {"loss": value, "gradient_norm": length, **metrics}

    def mean_gradient(parameters: PyTree, batch: PyTree, keys: Key[Array, "batch"]) -> tuple[PyTree, dict[str, Any]]:
        count = keys.shape[0]
        if count == 1:
            return example_gradient(parameters, jax.tree.map(lambda x: x[0], batch), keys[0])
        first = jax.eval_shape(example_gradient, parameters, jax.tree.map(lambda x: x[0], batch), keys[0])
        gradient, metrics = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), first)
        zeros = jax.tree.map(beside, gradient, parameters), metrics

        def add(total: PyTree, one: tuple[PyTree, Key[Array, ""]]) -> tuple[PyTree, None]:
            return each(jnp.add, total, example_gradient(parameters, *one)), None

        total, _ = jax.lax.scan(add, zeros, (batch, keys))
        return each(lambda x: x / count, total)

    update = update_of(optimizer)

    def step(state: TrainState, batch: PyTree) -> tuple[TrainState, dict[str, Array]]:
        count = jax.tree.leaves(batch)[0].shape[0]
        keys = jax.random.split(jax.random.fold_in(state.key, state.step), count)
        spread = _spread_over_devices(mean_gradient, plan)
        gradient, metrics = spread(state.parameters, batch, keys)
        parameters, optimizer_state = update(gradient, state.optimizer, state.parameters)
        return TrainState(state.step + 1, parameters, optimizer_state, state.key), metrics

    return step


def _spread_over_devices(mean_gradient: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    if plan.mesh.data == 1:
        return mean_gradient
    mesh = jax.make_mesh((plan.mesh.data,), ("data",), axis_types=(AxisType.Auto,))
    everywhere, share = PartitionSpec(), PartitionSpec("data")

    def local(parameters: PyTree, batch: PyTree, keys: Key[Array, "batch"]) -> Any:
        return jax.lax.pmean(mean_gradient(parameters, batch, keys), "data")

    return jax.shard_map(local, mesh=mesh, in_specs=(everywhere, share, share), out_specs=everywhere, check_vma=False)
