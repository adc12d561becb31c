"""Train state that waits in host memory and visits the device one layer at a time.

Moving the whole optimizer state to the device before the update would lower nothing: all of it would be there at once.
Arrays that stack the layers of a model are therefore updated in a loop over the layers, which fetches one layer's
parameters and moments, updates them, and sends them back.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Sharding
from jaxtyping import Array, Float, Int, PyTree

from elbowroom.memory.plan import Plan

SMALLEST_BYTES = 2**20
"""Smaller arrays stay on the device: a transfer has its own cost, and together they hold next to nothing."""
MOST_LAYERS = 128
"""An array whose first axis is longer is no stack of layers."""

type Update = Callable[[PyTree, PyTree, PyTree], tuple[PyTree, PyTree]]
"""(gradient, moments, parameters) -> (parameters, moments)."""


def waits_in_host(leaf: Any) -> bool:
    """Whether an array is a stack of layers worth sending to the host."""
    return leaf.ndim > 1 and leaf.shape[0] <= MOST_LAYERS and leaf.size * leaf.dtype.itemsize >= SMALLEST_BYTES


def fetched(tree: PyTree) -> PyTree:
    """The arrays on the device; those that are there already stay as they are."""
    return jax.tree.map(lambda leaf: jax.device_put(leaf, jax.memory.Space.Device) if in_host(leaf) else leaf, tree)


def in_host(leaf: Array) -> bool:
    return jax.typeof(leaf).memory_space == jax.memory.Space.Host


def beside(leaf: Array, like: Array) -> Array:
    """`leaf` in host memory if `like` is there."""
    return jax.device_put(leaf, jax.memory.Space.Host) if in_host(like) else leaf


def norm(tree: PyTree) -> Float[Array, ""]:
    """The L2 norm of all arrays together, of those in host memory layer by layer."""
    return jnp.sqrt(jnp.stack([_squares(leaf) for leaf in jax.tree.leaves(tree)]).sum())


def _squares(leaf: Array) -> Float[Array, ""]:
    if not in_host(leaf):
        return jnp.square(leaf).sum()

    def layer(total: Array, index: Array) -> tuple[Array, None]:
        return total + jnp.square(_layer(leaf, index)).sum(), None

    return jax.lax.scan(layer, jnp.zeros((), leaf.dtype), jnp.arange(leaf.shape[0]))[0]


def each(function: Callable[..., Array], *trees: PyTree) -> PyTree:
    """Combine trees number by number; what is in host memory in the first is computed layer by layer, and stays there.

    Of the other trees, the same arrays must be there.
    """

    def leaf(first: Array, *others: Array) -> Array:
        if not in_host(first):
            return function(first, *others)

        def layer(stack: Array, index: Array) -> tuple[Array, None]:
            new = function(*(_layer(x, index) for x in (stack, *others)))
            return _with_layer(stack, new, index), None

        return jax.lax.scan(layer, first, jnp.arange(first.shape[0]))[0]

    return jax.tree.map(leaf, *trees)


def shardings(state: Any, optimizer: optax.GradientTransformation, plan: Plan, sharding: Sharding) -> Any:
    """Where every array of a train state belongs: as `sharding` says, in the device's memory or in the host's.

    Args:
      state: a `TrainState` of arrays or of their shapes.
      sharding: over a mesh if anything is offloaded; tracing for shapes, jax forgets the memory of one without.
    """

    def place(leaf: Any, offloaded: bool) -> Sharding:
        return sharding.with_memory_kind("pinned_host") if offloaded and waits_in_host(leaf) else sharding

    moments = optax.tree.map_params(
        optimizer,
        lambda moment: place(moment, plan.offload.optimizer),
        state.optimizer,
        transform_non_params=lambda leaf: sharding,
    )
    parameters = jax.tree.map(lambda leaf: place(leaf, plan.offload.parameters), state.parameters)
    return jax.tree.map(lambda leaf: sharding, state)._replace(parameters=parameters, optimizer=moments)


def update_of(optimizer: optax.GradientTransformation) -> Update:
    """One step of the optimizer; arrays that wait in host memory pass through the device layer by layer.

    Then its rule must treat every number alike, whatever the others are, as Adam does.
    """

    def update(gradient: PyTree, moments: PyTree, parameters: PyTree) -> tuple[PyTree, PyTree]:
        if any(in_host(leaf) for leaf in jax.tree.leaves((moments, parameters))):
            return _streamed(optimizer, gradient, moments, parameters)
        updates, moments = optimizer.update(gradient, moments, parameters)
        return optax.apply_updates(parameters, updates), moments

    return update


def _streamed(
    optimizer: optax.GradientTransformation, gradient: PyTree, moments: PyTree, parameters: PyTree
) -> tuple[PyTree, PyTree]:
    """Every stack of layers in a loop of its own, and the rest at once.

    An optimizer's state holds trees shaped as the parameters, and numbers such as its count of steps. The state for
    some of the parameters is the same without the others' leaves, in the same order.
    """
    leaves, structure = jax.tree.flatten(parameters)
    held, held_structure = jax.tree.flatten(moments)
    gradients, owners = structure.flatten_up_to(gradient), _owners(optimizer, structure, moments)
    new, new_held = list(leaves), list(held)
    for layers, members in _stacks(leaves).items():
        kept = [i for i, owner in enumerate(owners) if owner is None or owner in members]
        part = [gradients[m] for m in members], [held[i] for i in kept], [leaves[m] for m in members]
        numbers = {i for i in kept if owners[i] is None}
        if layers:
            found = _over_layers(optimizer, layers, *part, [i in numbers for i in kept])
        else:
            found = _of_part(optimizer, *part)
        for place, value in zip(members, found[0], strict=True):
            new[place] = value
        for place, value in zip(kept, found[1], strict=True):
            if not layers or place not in numbers:
                new_held[place] = value
    return structure.unflatten(new), held_structure.unflatten(new_held)


def _owners(optimizer: optax.GradientTransformation, structure: Any, moments: PyTree) -> list[int | None]:
    """For every leaf of the optimizer's state the number of the parameter that it belongs to, if to any."""
    numbered = structure.unflatten(list(range(structure.num_leaves)))
    owners = optax.tree.map_params(
        optimizer, lambda moment, number: number, moments, numbered, transform_non_params=lambda leaf: None
    )
    return jax.tree.leaves(owners, is_leaf=lambda leaf: leaf is None)


def _stacks(leaves: list[Array]) -> dict[int, list[int]]:
    """The numbers of the parameters by their layers; 0 for those that are no stack, or too small."""
    stacks: dict[int, list[int]] = {0: []}
    for number, leaf in enumerate(leaves):
        stacks.setdefault(leaf.shape[0] if waits_in_host(leaf) else 0, []).append(number)
    return stacks


def _of_part(
    optimizer: optax.GradientTransformation, gradients: list[Array], held: list[Array], parameters: list[Array]
) -> tuple[list[Array], list[Array]]:
    structure = jax.tree.structure(jax.eval_shape(optimizer.init, parameters))
    updates, state = optimizer.update(gradients, structure.unflatten(held), parameters)
    new: Any = optax.apply_updates(parameters, updates)
    return new, jax.tree.leaves(state)


def _over_layers(
    optimizer: optax.GradientTransformation,
    layers: int,
    gradients: list[Array],
    held: list[Array],
    parameters: list[Array],
    shared: list[bool],
) -> tuple[list[Array], list[Array]]:
    """The update of stacked arrays in place, one layer on the device at a time; `shared` state is not stacked.

    The arrays are carried through the loop: as its inputs and outputs they would be in host memory twice.
    """

    def layer(carry: tuple[list[Array], list[Array]], given: Any) -> tuple[Any, None]:
        (wholes, stacks), (index, gradient) = carry, given
        own = [whole if same else _layer(whole, index) for whole, same in zip(wholes, shared, strict=True)]
        found, state = _of_part(optimizer, fetched(gradient), own, [_layer(stack, index) for stack in stacks])
        wholes = [
            whole if same else _with_layer(whole, new, index)
            for whole, new, same in zip(wholes, state, shared, strict=True)
        ]
        return (wholes, [_with_layer(stack, new, index) for stack, new in zip(stacks, found, strict=True)]), None

    (held, parameters), _ = jax.lax.scan(layer, (held, parameters), (jnp.arange(layers), gradients))
    return parameters, held


def _layer(stack: Array, index: Int[Array, ""]) -> Array:
    return fetched(jax.lax.dynamic_index_in_dim(stack, index))[0]


def _with_layer(stack: Array, layer: Array, index: Int[Array, ""]) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(stack, beside(layer[None], stack), index, 0)
