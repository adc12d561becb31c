"""Compute a function over slices of an axis, with memory that does not grow with the axis, forward and backward.

A plain loop over slices saves the inside of every slice for the backward pass, so nothing is won in training. Here
the backward pass loops as well: it computes one slice again, differentiates it, and adds to the sums it carries.
The last slice is moved back to end at the axis' end; rows it shares with its predecessor are counted once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun  # pyright: ignore[reportPrivateImportUsage]
from jaxtyping import Array, Bool, Int, PyTree, Shaped

from elbowroom.memory.precision import wide

type Rows = Callable[..., PyTree]
"""A function of slices: every argument and result has the rows on its first axis."""


def map_rows(function: Rows, *rows: PyTree, size: int | None) -> PyTree:
    """Apply `function` to `size` rows of the arguments at a time; the result does not depend on `size`.

    Args:
      function: maps arrays `[row, ...]` to arrays `[row, ...]`, each row independent of the others. It may close
        over anything, parameters and traced arrays included: gradients reach those too.
      rows: arrays, or trees of arrays, with equal first axes.
      size: rows held at a time; None, or a size no smaller than the axis, is the plain call.
    """
    length = jax.tree.leaves(rows)[0].shape[0]
    if size is None or size >= length:
        return function(*rows)
    pure, shared = hoist(function, *jax.tree.map(lambda x: jax.ShapeDtypeStruct((size, *x.shape[1:]), x.dtype), rows))
    return _mapped(pure, size, rows, shared)


def hoist(function: Callable[..., PyTree], *like: PyTree) -> tuple[Callable[..., PyTree], list[Array]]:
    """Turn what `function` closes over into explicit arguments: `pure(shared, *args)` and `shared`.

    A custom derivative may not close over values that are being differentiated or traced.
    """
    closed, out = jax.make_jaxpr(function, return_shape=True)(*like)
    structure = jax.tree.structure(out)

    def pure(shared: list[Array], *args: PyTree) -> PyTree:
        flat = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, shared))(*jax.tree.leaves(args))
        return jax.tree.unflatten(structure, flat)

    return pure, list(closed.consts)


def slice_bounds(length: int, size: int, index: Int[Array, ""]) -> tuple[Int[Array, ""], Bool[Array, "{size}"]]:
    """Start of slice `index`, moved back where it would pass the end, and which of its rows are not yet covered."""
    start = jnp.minimum(index * size, length - size)
    return start, start + jnp.arange(size) >= index * size


def num_slices(length: int, size: int) -> int:
    return -(-length // size)


def take(array: Shaped[Array, "..."], start: Int[Array, ""], size: int, axis: int = 0) -> Shaped[Array, "..."]:
    return jax.lax.dynamic_slice_in_dim(array, start, size, axis)


def put(array: Shaped[Array, "..."], part: Shaped[Array, "..."], start: Int[Array, ""], axis: int = 0) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(array, part.astype(array.dtype), start, axis)


def inexact(tree: PyTree) -> tuple[list[Array], Callable[..., PyTree]]:
    """The leaves that have gradients, and how to put others in their place (None elsewhere keeps the leaf)."""
    leaves, structure = jax.tree.flatten(tree)
    chosen = [jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in leaves]

    def replace(new: list[Any], others: Callable[[Array], Any] = lambda leaf: leaf) -> PyTree:
        supply = iter(new)
        return jax.tree.unflatten(
            structure, [next(supply) if c else others(leaf) for c, leaf in zip(chosen, leaves, strict=True)]
        )

    return [leaf for c, leaf in zip(chosen, leaves, strict=True) if c], replace


def accumulator(like: Array) -> jax.ShapeDtypeStruct:
    """Shape and dtype of what adds up many small parts of `like`: float32 at least."""
    return jax.ShapeDtypeStruct(like.shape, wide(like.dtype))


def zeros_after[First](first: First, like: PyTree) -> tuple[First, PyTree]:
    """Zeros shaped as `like`, which come into being only once `first` has.

    The compiler schedules constants as early as it can, and shares equal ones: otherwise the zeros that every loop of
    a step starts from would all be alive at once, and be copied for each loop. So they are spread from a number that
    it cannot know to be zero.
    """
    first, zero = jax.lax.optimization_barrier((first, jnp.zeros((), jnp.float32)))
    return first, jax.tree.map(lambda x: jnp.broadcast_to(zero.astype(x.dtype), x.shape), like)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _mapped(pure: Callable[..., PyTree], size: int, rows: tuple[PyTree, ...], shared: list[Array]) -> PyTree:
    length = jax.tree.leaves(rows)[0].shape[0]

    def one(out: PyTree, index: Int[Array, ""]) -> tuple[PyTree, None]:
        start, _ = slice_bounds(length, size, index)
        part = pure(shared, *jax.tree.map(lambda x: take(x, start, size), rows))
        return jax.tree.map(lambda whole, piece: put(whole, piece, start), out, part), None

    piece = jax.eval_shape(pure, shared, *jax.tree.map(lambda x: x[:size], rows))
    whole = jax.tree.map(lambda x: jax.ShapeDtypeStruct((length, *x.shape[1:]), x.dtype), piece)
    rows, empty = zeros_after(rows, whole)
    return jax.lax.scan(one, empty, jnp.arange(num_slices(length, size)))[0]


def _mapped_forward(pure: Callable[..., PyTree], size: int, rows: Any, shared: Any) -> tuple[PyTree, tuple[Any, Any]]:
    return _mapped(pure, size, rows, shared), (rows, shared)


def _mapped_backward(pure: Callable[..., PyTree], size: int, saved: Any, cotangent: PyTree) -> tuple[PyTree, PyTree]:
    rows, shared = saved
    length = jax.tree.leaves(rows)[0].shape[0]
    row_leaves, put_rows = inexact(rows)
    shared_leaves, put_shared = inexact(shared)

    def one(carry: tuple[list[Array], list[Array]], index: Int[Array, ""]) -> tuple[Any, None]:
        to_rows, to_shared = carry
        start, fresh = slice_bounds(length, size, index)
        sliced = [take(x, start, size) for x in row_leaves]
        whole = put_rows(sliced, lambda leaf: take(leaf, start, size))
        _, replace = inexact(whole)

        def of_inexact(parts: list[Array], weights: list[Array]) -> PyTree:
            return pure(put_shared(weights), *replace(parts))

        _, pullback = jax.vjp(of_inexact, sliced, shared_leaves)
        seen = jax.tree.map(lambda x: _fresh_part(x, start, fresh), cotangent)
        part_rows, part_shared = pullback(seen)
        to_rows = [
            put(whole, jnp.where(_along(fresh, part), part, take(whole, start, size)), start)
            for whole, part in zip(to_rows, part_rows, strict=True)
        ]
        return (
            to_rows,
            [total + part.astype(total.dtype) for total, part in zip(to_shared, part_shared, strict=True)],
        ), None

    cotangent, zeros = zeros_after(cotangent, (row_leaves, [accumulator(x) for x in shared_leaves]))
    (to_rows, to_shared), _ = jax.lax.scan(one, zeros, jnp.arange(num_slices(length, size)))
    to_shared = [total.astype(like.dtype) for total, like in zip(to_shared, shared_leaves, strict=True)]
    return put_rows(to_rows, lambda _: None), put_shared(to_shared, lambda _: None)


def _fresh_part(cotangent: Any, start: Int[Array, ""], fresh: Bool[Array, "row"]) -> Any:
    """The cotangent of one slice's result, zero for rows that another slice counts; results like masks have none."""
    if cotangent.dtype == jax.dtypes.float0:
        return np.zeros((len(fresh), *cotangent.shape[1:]), jax.dtypes.float0)
    return jnp.where(_along(fresh, cotangent), take(cotangent, start, len(fresh)), 0)


def _along(fresh: Bool[Array, "row"], array: Array) -> Bool[Array, "..."]:
    return fresh.reshape(-1, *[1] * (array.ndim - 1))


_mapped.defvjp(_mapped_forward, _mapped_backward)
