"""Compute a function over slices of an axis, with memory that does not grow with the axis, forward and backward.

A plain loop over slices saves the inside of every slice for the backward pass, so nothing is won in training. Here
the backward pass loops as well: it computes one slice again, differentiates it, and adds to the sums it carries.
The last slice is moved back to end at the axis' end; rows it shares with its predecessor are counted once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout, with_layout_constraint
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun  # pyright: ignore[reportPrivateImportUsage]
from jaxtyping import Array, Bool, Int, PyTree, Shaped

from elbowroom.memory.precision import wide

type Rows = Callable[..., PyTree]
"""A function of slices: every argument and result has the rows on its first axis."""


def map_rows(function: Rows, *rows: PyTree, size: int | None, axes: tuple[int, ...] = (), out_axis: int = 0) -> PyTree:
    """Apply `function` to `size` rows of the arguments at a time; the result does not depend on `size`.

    Args:
      function: maps arrays `[row, ...]` to arrays `[row, ...]`, each row independent of the others. It may close
        over anything, parameters and traced arrays included: gradients reach those too.
      rows: arrays, or trees of arrays, with equally many rows.
      size: rows held at a time; None, or a size no smaller than the axis, is the plain call.
      axes: for each argument the axis along which its rows lie, 0 where left out. To go over the columns of an array
        this way takes no transposed copy of it.
      out_axis: the same for the results.
    """
    given, structure = jax.tree.flatten(rows)
    spread = [a for a, tree in zip(axes or (0,) * len(rows), rows, strict=True) for _ in jax.tree.leaves(tree)]
    length = given[0].shape[spread[0]]

    def on_rows(*slices: Array) -> PyTree:
        return function(*structure.unflatten(slices))

    if size is None or size >= length:
        whole = on_rows(*(jnp.moveaxis(x, axis, 0) for x, axis in zip(given, spread, strict=True)))
        return jax.tree.map(lambda x: jnp.moveaxis(x, 0, out_axis), whole)
    pure, shared = hoist(on_rows, *(_sliced(x, size, axis) for x, axis in zip(given, spread, strict=True)))
    return _mapped(pure, _Cut(size, tuple(spread), out_axis), given, shared)


class _Cut(NamedTuple):
    """How arrays are cut: rows at a time, and the axes along which the rows of arguments and results lie."""

    size: int
    axes: tuple[int, ...]
    out_axis: int

    def bounds(self, rows: list[Array], index: Int[Array, ""]) -> tuple[Int[Array, ""], Bool[Array, "row"]]:
        return slice_bounds(self.length(rows), self.size, index)

    def length(self, rows: list[Array]) -> int:
        return rows[0].shape[self.axes[0]]

    def indices(self, rows: list[Array]) -> Int[Array, "slice"]:
        return jnp.arange(num_slices(self.length(rows), self.size))


def _sliced(array: Array, size: int, axis: int) -> jax.ShapeDtypeStruct:
    """The shape of a slice, rows first."""
    rest = array.shape[:axis] + array.shape[axis + 1 :]
    return jax.ShapeDtypeStruct((size, *rest), array.dtype)


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


def cut_out(array: Shaped[Array, "..."], start: Int[Array, ""], size: int, axis: int) -> Shaped[Array, "row ..."]:
    """Some rows, and rows first.

    Left alone, a compiler gives the whole array the order of axes that the arithmetic on a slice prefers, which takes
    a second copy of the whole: so the slice is made to have the order in which arrays are written. On CPU arrays
    always have it, and its compiler is not to be asked: that of jax 0.12 crashes.
    """
    as_written = Layout(tuple(range(array.ndim)))
    part = jax.lax.platform_dependent(
        take(array, start, size, axis), cpu=lambda x: x, default=lambda x: with_layout_constraint(x, as_written)
    )
    return jnp.moveaxis(part, axis, 0)


def put_back(array: Shaped[Array, "..."], part: Shaped[Array, "row ..."], start: Int[Array, ""], axis: int) -> Array:
    return put(array, jnp.moveaxis(part, 0, axis), start, axis)


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


def added(totals: list[Array], parts: list[Array]) -> list[Array]:
    """Accumulators with one more part each."""
    return [total + part.astype(total.dtype) for total, part in zip(totals, parts, strict=True)]


def rounded(totals: list[Array], like: list[Array]) -> list[Array]:
    """What accumulators have added up, in the dtypes of what they stand for."""
    return [total.astype(own.dtype) for total, own in zip(totals, like, strict=True)]


def zeros_after[First](first: First, like: PyTree) -> tuple[First, PyTree]:
    """Zeros shaped as `like`, which come into being only once `first` has.

    The compiler schedules constants as early as it can, and shares equal ones: otherwise the zeros that every loop of
    a step starts from would all be alive at once, and be copied for each loop. So they are spread from a number that
    it cannot know to be zero.
    """
    first, zero = jax.lax.optimization_barrier((first, jnp.zeros((), jnp.float32)))
    return first, jax.tree.map(lambda x: jnp.broadcast_to(zero.astype(x.dtype), x.shape), like)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _mapped(pure: Callable[..., PyTree], cut: _Cut, rows: list[Array], shared: list[Array]) -> PyTree:
    def one(out: PyTree, index: Int[Array, ""]) -> tuple[PyTree, None]:
        start, _ = cut.bounds(rows, index)
        part = pure(shared, *(cut_out(x, start, cut.size, axis) for x, axis in zip(rows, cut.axes, strict=True)))
        return jax.tree.map(lambda whole, piece: put_back(whole, piece, start, cut.out_axis), out, part), None

    def whole(piece: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        shape = list(piece.shape[1:])
        shape.insert(cut.out_axis, cut.length(rows))
        return jax.ShapeDtypeStruct(tuple(shape), piece.dtype)

    pieces = (_sliced(x, cut.size, axis) for x, axis in zip(rows, cut.axes, strict=True))
    rows, empty = zeros_after(rows, jax.tree.map(whole, jax.eval_shape(pure, shared, *pieces)))
    return jax.lax.scan(one, empty, cut.indices(rows))[0]


def _mapped_forward(
    pure: Callable[..., PyTree], cut: _Cut, rows: list[Array], shared: list[Array]
) -> tuple[PyTree, tuple[Any, Any]]:
    return _mapped(pure, cut, rows, shared), (rows, shared)


def _mapped_backward(pure: Callable[..., PyTree], cut: _Cut, saved: Any, cotangent: PyTree) -> tuple[PyTree, PyTree]:
    rows, shared = saved
    row_leaves, put_rows = inexact(rows)
    axes = [axis for x, axis in zip(rows, cut.axes, strict=True) if jnp.issubdtype(x.dtype, jnp.inexact)]
    shared_leaves, put_shared = inexact(shared)

    def one(carry: tuple[list[Array], list[Array]], index: Int[Array, ""]) -> tuple[Any, None]:
        to_rows, to_shared = carry
        start, fresh = cut.bounds(rows, index)
        slices = [cut_out(x, start, cut.size, axis) for x, axis in zip(rows, cut.axes, strict=True)]
        sliced, replace = inexact(slices)

        def of_inexact(parts: list[Array], weights: list[Array]) -> PyTree:
            return pure(put_shared(weights), *replace(parts))

        _, pullback = jax.vjp(of_inexact, sliced, shared_leaves)
        seen = jax.tree.map(lambda x: _fresh_part(x, start, fresh, cut.out_axis), cotangent)
        part_rows, part_shared = pullback(seen)
        to_rows = [
            put_back(whole, jnp.where(_along(fresh, part), part, cut_out(whole, start, cut.size, axis)), start, axis)
            for whole, part, axis in zip(to_rows, part_rows, axes, strict=True)
        ]
        return (
            to_rows,
            added(to_shared, part_shared),
        ), None

    cotangent, zeros = zeros_after(cotangent, (row_leaves, [accumulator(x) for x in shared_leaves]))
    (to_rows, to_shared), _ = jax.lax.scan(one, zeros, cut.indices(rows))
    return put_rows(to_rows, lambda _: None), put_shared(rounded(to_shared, shared_leaves), lambda _: None)


def _fresh_part(cotangent: Any, start: Int[Array, ""], fresh: Bool[Array, "row"], axis: int) -> Any:
    """The cotangent of one slice's result, zero for rows that another slice counts; results like masks have none."""
    if cotangent.dtype == jax.dtypes.float0:
        rest = cotangent.shape[:axis] + cotangent.shape[axis + 1 :]
        return np.zeros((len(fresh), *rest), jax.dtypes.float0)
    return jnp.where(_along(fresh, cotangent), cut_out(cotangent, start, len(fresh), axis), 0)


def _along(fresh: Bool[Array, "row"], array: Array) -> Bool[Array, "..."]:
    return fresh.reshape(-1, *[1] * (array.ndim - 1))


_mapped.defvjp(_mapped_forward, _mapped_backward)
