"""Attention by the kernels that a device's maker or JAX maintains: cuDNN's on NVIDIA's cards, Pallas' on TPUs.

They are told of absent keys by one more channel, which is 1 in every query and in a key what the mask adds to its
logits. A mask for every row handed to them as a bias would be row x head x q x k numbers.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jaxtyping import Array, Bool, Float

from elbowroom.memory.plan import Plan, PlanError
from elbowroom.memory.precision import wide

ABSENT = -1e9
"""Added to the logits of an absent key, whose weight then underflows to zero"""
CHANNELS = 8
"""Kernels take channels in multiples of this."""

type Query = Float[Array, "row q head c"]
type Keys = Float[Array, "row k head c"]
type Bias = Float[Array, "head q k"]


def kernel_attention(
    name: str,
    query: Float[Array, "row q head c"],
    key: Float[Array, "row k head c"],
    value: Float[Array, "row k head c"],
    mask: Bool[Array, "row k"],
    bias: Float[Array, "head q k"] | None,
) -> Float[Array, "row q head c"]:
    """`memory.attention.attention` of queries that are scaled already, by the kernel of that name.

    Rows without any valid key, which attend evenly, are the mean of their values.
    """
    kernel, (queries, channels) = KERNELS[name], (query.shape[1], query.shape[3])
    more_queries, more_keys = -queries % kernel.positions, -key.shape[1] % kernel.positions
    there = jnp.pad(mask, ((0, 0), (0, more_keys)))[..., None, None]
    logit = jnp.where(there, 0, jnp.asarray(ABSENT, key.dtype))

    def padded(array: Array, more: int, last: Array | float) -> Array:
        """More positions of zeros, one more channel, and zeros up to a number of channels that kernels take."""
        array = jnp.pad(array, ((0, 0), (0, more), (0, 0), (0, 0)))
        last = jnp.broadcast_to(jnp.asarray(last, array.dtype), (*array.shape[:3], 1))
        return jnp.pad(jnp.concatenate([array, last], axis=3), ((0, 0),) * 3 + ((0, -(channels + 1) % CHANNELS),))

    if bias is not None:
        bias = jnp.pad(bias.astype(query.dtype), ((0, 0), (0, more_queries), (0, more_keys)))
    read = kernel.call(
        padded(query, more_queries, 1.0), padded(key, more_keys, logit), padded(value, more_keys, 0.0), bias
    )
    even = value.mean(1, keepdims=True, dtype=wide(value.dtype)).astype(value.dtype)
    return jnp.where(mask.any(1)[:, None, None, None], read[:, :queries, :, :channels], even)


def _cudnn(query: Query, key: Keys, value: Keys, bias: Bias | None) -> Query:
    bias = None if bias is None else bias[None]
    try:
        return jax.nn.dot_product_attention(query, key, value, bias=bias, scale=1.0, implementation="cudnn")
    except RuntimeError as error:
        raise PlanError(
            f"kernels.attention = 'cudnn': {error} Install it, `pip install nvidia-cudnn-cu13`, or remove the choice"
        ) from None


def _pallas(query: Query, key: Keys, value: Keys, bias: Bias | None) -> Query:
    """Takes the bias of every row: keep the rows of a chunk few."""
    if bias is not None:
        bias = jnp.broadcast_to(bias, (query.shape[0], *bias.shape))
    return flash_attention(*(array.swapaxes(1, 2) for array in (query, key, value)), ab=bias).swapaxes(1, 2)


class _Kernel(NamedTuple):
    call: Callable[[Query, Keys, Keys, Bias | None], Query]
    positions: int
    """Queries and keys come in multiples of this."""
    platform: str
    """Of the devices that run it, in jax's words"""
    precision: tuple[str, ...]
    """In which of a plan's precisions it computes"""


KERNELS = {
    "cudnn": _Kernel(_cudnn, 2, "cuda", ("bfloat16",)),
    "pallas": _Kernel(_pallas, 128, "tpu", ("bfloat16", "float32")),
}


def check_kernel(plan: Plan, platform: str) -> None:
    """Raise `PlanError` where the plan's kernel does not run on devices of this platform, or not in its precision."""
    name = plan.kernels.attention
    if name == "portable":
        return
    kernel, remove = KERNELS[name], "remove it to use the portable code"
    if platform != kernel.platform:
        raise PlanError(
            f"kernels.attention = {name!r} runs on {kernel.platform}, not on {platform or 'this device'}; {remove}"
        )
    if plan.precision.compute not in kernel.precision:
        raise PlanError(
            f"kernels.attention = {name!r} computes in {' or '.join(kernel.precision)}, not in "
            f"{plan.precision.compute}; set precision.compute, or {remove}"
        )
