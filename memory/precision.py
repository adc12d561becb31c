"""Which dtype computes what: fast arithmetic in the plan's dtype, statistics in float32 at least."""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from elbowroom.memory.plan import Precision


def wide(dtype: DTypeLike) -> jnp.dtype:
    """The dtype for sums, softmax and normalisation statistics of arrays of `dtype`: float32 at least."""
    narrow = jnp.dtype(dtype)
    return narrow if narrow.itemsize >= 4 else jnp.dtype(jnp.float32)


def to_compute(array: Float[Array, "*any"], precision: Precision) -> Float[Array, "*any"]:
    """Cast an activation to the dtype in which the plan computes."""
    return array.astype(precision.compute)


def as_it_is(leaf: Array) -> Array:
    """The same array; the compiler can convert it no earlier than here.

    TPU's compiler moves the conversion of weights to bfloat16 out of a loop over layers, where it holds all of them
    once more at the same time; it looks through an optimization barrier, and not through a rounding.
    """
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return leaf
    kind = jnp.finfo(leaf.dtype)
    return jax.lax.reduce_precision(leaf, kind.nexp, kind.nmant)
