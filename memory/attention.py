"""Attention with a pair bias: plain, and in tiles whose logits never exist all at once.

Layout: `row` counts independent attentions (MSA sequences, or rows of the pair representation) that share one bias.
Masked logits are set to -1e9, not minus infinity: a row without any valid key attends evenly (as AlphaFold's does).
Softmax is float32 at least, whatever the dtype of the arguments.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from elbowroom.memory.chunk import accumulator, num_slices, put, slice_bounds, take, zeros_after
from elbowroom.memory.kernels import kernel_attention
from elbowroom.memory.precision import wide

MASKED = -1e9

type Query = Float[Array, "row q head c"]
type Keys = Float[Array, "row k head c"]
type Bias = Float[Array, "head q k"]


def attention(
    query: Float[Array, "row q head c"],
    key: Float[Array, "row k head c"],
    value: Float[Array, "row k head c"],
    mask: Bool[Array, "row k"],
    bias: Float[Array, "head q k"] | None,
    *,
    queries: int | None = None,
    keys: int | None = None,
    kernel: str = "portable",
) -> Float[Array, "row q head c"]:
    """What each query reads from the values: softmax(query . key / sqrt(c) + bias) over the valid keys.

    Plain attention holds row x head x q x k logits. With `queries` set, tiles of `queries` x `keys` are computed one
    after the other with an online softmax (Milakov & Gimelshein 2018; Rabe & Staats 2021), and the backward pass
    computes them again from the saved logarithm of the normaliser (Dao et al. 2022): memory grows with q + k.

    Args:
      mask: True where a key may be attended.
      bias: added to the logits of every row, its gradient summed over rows; None adds nothing.
      queries, keys: tile size; None takes that axis whole.
      kernel: another's code for it, one of `memory.kernels.KERNELS`.
    """
    query = query * jnp.asarray(query.shape[-1] ** -0.5, query.dtype)
    if kernel != "portable":
        return kernel_attention(kernel, query, key, value, mask, bias)
    if queries is None:
        return _plain(query, key, value, mask, bias)
    tile = (min(queries, query.shape[1]), min(keys or key.shape[1], key.shape[1]))
    return _tiled(tile, query, key, value, mask, bias)


def _logits(query: Query, key: Keys, mask: Bool[Array, "row k"], bias: Bias | None) -> Float[Array, "row head q k"]:
    statistics = wide(query.dtype)
    logits = jnp.einsum("rqhc,rkhc->rhqk", query, key, preferred_element_type=statistics)
    if bias is not None:
        logits = logits + bias[None].astype(statistics)
    return jnp.where(mask[:, None, None, :], logits, jnp.asarray(MASKED, statistics))


def _plain(query: Query, key: Keys, value: Keys, mask: Bool[Array, "row k"], bias: Bias | None) -> Query:
    weights = jax.nn.softmax(_logits(query, key, mask, bias), axis=-1).astype(value.dtype)
    return jnp.einsum("rhqk,rkhc->rqhc", weights, value)


type Tile = tuple[int, int]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _tiled(tile: Tile, query: Query, key: Keys, value: Keys, mask: Bool[Array, "row k"], bias: Bias | None) -> Query:
    return _tiled_forward(tile, query, key, value, mask, bias)[0]


def _tiled_forward(tile: Tile, query: Query, key: Keys, value: Keys, mask: Any, bias: Any) -> tuple[Query, Any]:
    (row, length, head, _), size = query.shape, tile[0]
    statistics = wide(query.dtype)

    def some_queries(carry: tuple[Array, Array, Array], index: Int[Array, ""]) -> tuple[Any, None]:
        out, highest, total = carry
        start, _ = slice_bounds(length, size, index)
        part, most, sums = _read(tile[1], take(query, start, size, 1), key, value, mask, _part(bias, start, size, 1))
        return (put(out, part, start, 1), put(highest, most, start, 2), put(total, sums, start, 2)), None

    statistic = jax.ShapeDtypeStruct((row, head, length), statistics)
    query, empty = zeros_after(query, (query, statistic, statistic))
    read, _ = jax.lax.scan(some_queries, empty, jnp.arange(num_slices(length, size)))
    out, highest, total = checkpoint_name(read, "attention")
    return out, (query, key, value, mask, bias, out, highest, total)


def _part(bias: Bias | None, start: Int[Array, ""], size: int, axis: int) -> Float[Array, "head part_q part_k"] | None:
    return None if bias is None else take(bias, start, size, axis)


def _read(
    size: int, query: Query, key: Keys, value: Keys, mask: Bool[Array, "row k"], bias: Bias | None
) -> tuple[Query, Float[Array, "row head q"], Float[Array, "row head q"]]:
    """Output, highest logit and sum of exponentials of these queries over all keys, `size` keys at a time."""
    (row, q, head, c), length = query.shape, key.shape[1]
    statistics = wide(query.dtype)

    def some_keys(carry: tuple[Array, Array, Array], index: Int[Array, ""]) -> tuple[Any, None]:
        highest, total, out = carry
        start, fresh = slice_bounds(length, size, index)
        logits = _tile_logits(query, key, mask, bias, start, fresh, size)
        new = jnp.maximum(highest, logits.max(-1))
        weights, shrink = jnp.exp(logits - new[..., None]), jnp.exp(highest - new)
        read = jnp.einsum("rhqk,rkhc->rhqc", weights.astype(value.dtype), take(value, start, size, 1))
        return (new, total * shrink + weights.sum(-1), out * shrink[..., None] + read.astype(statistics)), None

    lowest = jnp.full((row, head, q), -jnp.inf, statistics)
    empty = (lowest, jnp.zeros((row, head, q), statistics), jnp.zeros((row, head, q, c), statistics))
    (highest, total, out), _ = jax.lax.scan(some_keys, empty, jnp.arange(num_slices(length, size)))
    return (out / total[..., None]).swapaxes(1, 2).astype(query.dtype), highest, total


def _tile_logits(
    query: Query, key: Keys, mask: Any, bias: Any, start: Int[Array, ""], fresh: Bool[Array, "part"], size: int
) -> Float[Array, "row head q part"]:
    """Logits against one slice of keys; keys that an earlier slice covered count as absent."""
    logits = _logits(query, take(key, start, size, 1), take(mask, start, size, 1), _part(bias, start, size, 2))
    return jnp.where(fresh[None, None, None, :], logits, -jnp.inf)


def _tiled_backward(tile: Tile, saved: Any, cotangent: Query) -> tuple[Any, ...]:
    query, key, value, mask, bias, out, highest, total = saved
    length, size = query.shape[1], tile[0]
    statistics = wide(query.dtype)
    # Row sums of weights x their gradient: what the softmax's derivative subtracts.
    centre = jnp.einsum("rqhc,rqhc->rhq", cotangent.astype(statistics), out.astype(statistics))

    def some_queries(carry: Any, index: Int[Array, ""]) -> tuple[Any, None]:
        to_query, to_key, to_value, to_bias = carry
        start, fresh = slice_bounds(length, size, index)
        seen = jnp.where(fresh[None, :, None, None], take(cotangent, start, size, 1), 0)
        centred = jnp.where(fresh[None, None, :], take(centre, start, size, 2), 0)
        softmax = (take(highest, start, size, 2), take(total, start, size, 2), centred)
        of = (take(query, start, size, 1), softmax, seen, _part(bias, start, size, 1))
        part, to_key, to_value, part_bias = _unread(tile[1], key, value, mask, of, to_key, to_value)
        kept = jnp.where(fresh[None, :, None, None], part, take(to_query, start, size, 1).astype(part.dtype))
        to_query = put(to_query, kept, start, 1)
        if bias is not None:
            to_bias = put(to_bias, take(to_bias, start, size, 1) + part_bias, start, 1)
        return (to_query, to_key, to_value, to_bias), None

    zeros = (query, accumulator(key), accumulator(value), None if bias is None else accumulator(bias))
    cotangent, zeros = zeros_after(cotangent, zeros)
    (to_query, to_key, to_value, to_bias), _ = jax.lax.scan(some_queries, zeros, jnp.arange(num_slices(length, size)))
    to_bias = None if bias is None else to_bias.astype(bias.dtype)
    return to_query, to_key.astype(key.dtype), to_value.astype(value.dtype), None, to_bias


def _unread(size: int, key: Keys, value: Keys, mask: Any, of: Any, to_key: Array, to_value: Array) -> tuple[Any, ...]:
    """Gradients of some queries' output, adding to those of keys and values."""
    query, (highest, total, centre), cotangent, bias = of
    length, statistics = key.shape[1], wide(query.dtype)

    def some_keys(carry: Any, index: Int[Array, ""]) -> tuple[Any, None]:
        to_query, to_key, to_value, to_bias = carry
        start, fresh = slice_bounds(length, size, index)
        logits = _tile_logits(query, key, mask, bias, start, fresh, size)
        weights = jnp.exp(logits - highest[..., None]) / total[..., None]
        to_weights = jnp.einsum("rqhc,rkhc->rhqk", cotangent, take(value, start, size, 1)).astype(statistics)
        to_logits = weights * (to_weights - centre[..., None])
        to_logits = jnp.where(take(mask, start, size, 1)[:, None, None, :], to_logits, 0)
        narrow = to_logits.astype(query.dtype)
        to_query = to_query + jnp.einsum("rhqk,rkhc->rqhc", narrow, take(key, start, size, 1)).astype(statistics)
        to_key = _add(to_key, jnp.einsum("rhqk,rqhc->rkhc", narrow, query), start, 1)
        to_value = _add(to_value, jnp.einsum("rhqk,rqhc->rkhc", weights.astype(value.dtype), cotangent), start, 1)
        if bias is not None:
            to_bias = _add(to_bias, to_logits.sum(0), start, 2)
        return (to_query, to_key, to_value, to_bias), None

    zeros = (accumulator(query), None if bias is None else accumulator(bias))
    cotangent, (to_query, to_bias) = zeros_after(cotangent, zeros)
    (to_query, to_key, to_value, to_bias), _ = jax.lax.scan(
        some_keys, (to_query, to_key, to_value, to_bias), jnp.arange(num_slices(length, size))
    )
    return to_query, to_key, to_value, to_bias


def _add(total: Array, part: Array, start: Int[Array, ""], axis: int) -> Array:
    return put(total, take(total, start, part.shape[axis], axis) + part.astype(total.dtype), start, axis)


_tiled.defvjp(_tiled_forward, _tiled_backward)
