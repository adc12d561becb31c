"""Triangle multiplication: every edge's product over the third vertex, in rows, forward and backward.

Row i of sum_k left[i, k] right[j, k] needs one side's edges at i and all edges of the other side. Differentiated as it
stands, each slice of rows would have a gradient for all of the other side, to be added up in float32 as large as the
pair representation twice over. Here the product's own gradient is kept instead, once; it is written by rows and read
again by columns, which give the other side's gradient a slice at a time.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from einops import rearrange
from jaxtyping import Array, Bool, Float, Int

from elbowroom.memory.chunk import (
    accumulator,
    added,
    cut_out,
    hoist,
    inexact,
    map_rows,
    num_slices,
    put_back,
    rounded,
    slice_bounds,
    take,
    zeros_after,
)
from elbowroom.memory.recompute import name

type Pair = Float[Array, "res res c_z"]
type Mask = Bool[Array, "res res"]
type Edges = Float[Array, "row res c_z"]
type Side = Callable[[Edges, Bool[Array, "row res"]], Float[Array, "row res c"]]
"""What some residues' edges bring to the product."""
type Finish = Callable[[Float[Array, "row res c"], Edges], Float[Array, "row res c_z"]]
"""(rows of the product, the same rows of the pair representation) -> rows of the result."""


def multiply_edges(
    mine: Side, others: Side, finish: Finish, pair: Pair, mask: Mask, *, size: int | None, axis: int
) -> Pair:
    """Rows i of `finish(sum_k mine[i, k] * others[j, k])`, `size` rows at a time; the result does not depend on it.

    Args:
      mine, others, finish: may close over anything, parameters included: gradients reach those too.
      mask: True where both residues of an edge are there.
      size: None, or a size no smaller than the axis, is the plain product. Only that can be saved, as
        `triangle_product`: in rows it never exists whole.
      axis: along which a residue's edges lie in `pair` for both sides; `finish` and the result have them on the first.
    """
    if size is None or size >= len(pair):
        return _product(_Steps(mine, others, finish), None, axis, pair, mask)
    edges, present = (jax.ShapeDtypeStruct((size, *x.shape[1:]), x.dtype) for x in (pair, mask))
    product = jax.eval_shape(mine, edges, present)
    hoisted = hoist(mine, edges, present), hoist(others, edges, present), hoist(finish, product, edges)
    pure, shared = zip(*hoisted, strict=True)
    return _multiplied(_Steps(*pure), size, axis, pair, mask, _Steps(*shared))


class _Steps(NamedTuple):
    """The three functions of a product, or what each of them closes over."""

    mine: Any
    others: Any
    finish: Any

    def bound(self, shared: "_Steps") -> "_Steps":
        return _Steps(*(partial(step, own) for step, own in zip(self, shared, strict=True)))


def _product(steps: _Steps, size: int | None, axis: int, pair: Pair, mask: Mask) -> Pair:
    other = _whole(steps.others, size, axis, pair, mask)

    def rows(some: Edges, edges: Edges, present: Bool[Array, "row res"]) -> Edges:
        product = jnp.einsum("ikc,cjk->ijc", steps.mine(edges, present), other)
        return steps.finish(name(product, "triangle_product"), some)

    return map_rows(rows, pair, pair, mask, size=size, axes=(0, axis, axis))


def _whole(side: Side, size: int | None, axis: int, pair: Pair, mask: Mask) -> Float[Array, "c res res"]:
    """One side of all edges, in the order in which a product for each channel reads it."""
    return rearrange(map_rows(side, pair, mask, size=size, axes=(axis, axis)), "i k c -> c i k")


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _multiplied(steps: _Steps, size: int, axis: int, pair: Pair, mask: Mask, shared: _Steps) -> Pair:
    return _product(steps.bound(shared), size, axis, pair, mask)


def _forward(steps: _Steps, size: int, axis: int, pair: Pair, mask: Mask, shared: _Steps) -> tuple[Pair, Any]:
    return _multiplied(steps, size, axis, pair, mask, shared), (pair, mask, shared)


def _backward(steps: _Steps, size: int, axis: int, saved: Any, cotangent: Pair) -> tuple[Pair, None, _Steps]:
    pair, mask, shared = saved
    leaves, replace = zip(*(inexact(own) for own in shared), strict=True)
    weights, put_weights = _Steps(*leaves), _Steps(*replace)
    mine, others, finish = (_of_weights(step, put) for step, put in zip(steps, put_weights, strict=True))
    indices = jnp.arange(num_slices(len(pair), size))

    def of_rows(carry: Any, index: Int[Array, ""]) -> tuple[Any, None]:
        to_pair, to_product, to_mine, to_finish = carry
        start, fresh = slice_bounds(len(pair), size, index)
        edges, present = (cut_out(x, start, size, axis) for x in (pair, mask))
        side, mine_back = jax.vjp(lambda own, edges: mine(own, edges, present), weights.mine, edges)
        product = jnp.einsum("ikc,cjk->ijc", side, other)
        _, finish_back = jax.vjp(finish, weights.finish, product, take(pair, start, size))
        seen = jnp.where(fresh[:, None, None], take(cotangent, start, size), 0)
        by_finish, d_product, d_rows = finish_back(seen)
        by_mine, d_edges = mine_back(jnp.einsum("ijc,cjk->ikc", d_product, other))
        to_pair = _add(_add(to_pair, d_rows, start, 0), d_edges, start, axis)
        # Rows that the slice before has counted are zero here.
        to_product = _add(to_product, d_product, start, 0)
        return (to_pair, to_product, added(to_mine, by_mine), added(to_finish, by_finish)), None

    def of_columns(carry: Any, index: Int[Array, ""]) -> tuple[Any, None]:
        to_pair, to_others = carry
        start, fresh = slice_bounds(len(pair), size, index)
        edges, present = (cut_out(x, start, size, axis) for x in (pair, mask))
        d_side = jnp.einsum("jic,cik->jkc", cut_out(to_product, start, size, 1), own)
        _, back = jax.vjp(lambda own, edges: others(own, edges, present), weights.others, edges)
        by_others, d_edges = back(jnp.where(fresh[:, None, None], d_side, 0))
        return (_add(to_pair, d_edges, start, axis), added(to_others, by_others)), None

    bound = steps.bound(shared)
    other = _whole(bound.others, size, axis, pair, mask)
    like = pair, jax.ShapeDtypeStruct((*pair.shape[:2], len(other)), other.dtype)
    totals = [[accumulator(x) for x in own] for own in weights]
    cotangent, (zeros, of_mine, of_others, of_finish) = zeros_after(cotangent, (like, *totals))
    (to_pair, to_product, of_mine, of_finish), _ = jax.lax.scan(of_rows, (*zeros, of_mine, of_finish), indices)
    # This side comes into being when the other is no longer needed.
    pair, to_product = jax.lax.optimization_barrier((pair, to_product))
    own = _whole(bound.mine, size, axis, pair, mask)
    (to_pair, of_others), _ = jax.lax.scan(of_columns, (to_pair, of_others), indices)
    found = (
        put(rounded(sums, some), lambda _: None)
        for put, sums, some in zip(put_weights, (of_mine, of_others, of_finish), weights, strict=True)
    )
    return to_pair, None, _Steps(*found)


def _of_weights(step: Callable[..., Array], put: Callable[..., list[Array]]) -> Callable[..., Array]:
    """`step` as a function of those of its shared arrays that have gradients."""
    return lambda weights, *rows: step(put(weights), *rows)


def _add(total: Array, part: Array, start: Int[Array, ""], axis: int) -> Array:
    return put_back(total, cut_out(total, start, len(part), axis) + part, start, axis)


_multiplied.defvjp(_forward, _backward)
