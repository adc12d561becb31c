"""Layers with AlphaFold's parameter names and shapes, which other models share.

Parameters stay in their own dtype and are cast to that of the activations where they are used.
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Key

from elbowroom.memory.precision import wide

type Start = Literal["linear", "relu", "narrow", "zero", "gate"]


def initial_weights(start: Start, rngs: nnx.Rngs, shape: tuple[int, ...], fan_in: int) -> Float[Array, "..."]:
    """Truncated normal of variance 1 / fan_in, 2 / fan_in before a ReLU, or zeros (Jumper et al., Suppl. 1.11.4).

    "narrow" has the standard deviation 0.02 at any width, as in vision Transformers.
    """
    if start in ("zero", "gate"):
        return jnp.zeros(shape, jnp.float32)
    scale = 0.02**2 if start == "narrow" else (2.0 if start == "relu" else 1.0) / fan_in
    return _truncated_normal(rngs.params(), math.prod(shape)).reshape(shape) * scale**0.5


def _truncated_normal(key: Key[Array, ""], count: int) -> Float[Array, "count"]:
    """Normal numbers cut off at two standard deviations, rescaled to variance 1.

    Drawn by the next power of two: a sampler is compiled for every length, and a model has dozens.
    """
    length = 1 << (count - 1).bit_length()
    return jax.random.truncated_normal(key, -2.0, 2.0, (length,), jnp.float32)[:count] / 0.87962566103423978


class Linear(nnx.Module):
    """y = x W + b over the last axis; `weights` is (inputs, outputs)."""

    def __init__(self, inputs: int, outputs: int, *, rngs: nnx.Rngs, start: Start = "linear"):
        self.weights = nnx.Param(initial_weights(start, rngs, (inputs, outputs), inputs))
        self.bias = nnx.Param(jnp.full((outputs,), 1.0 if start == "gate" else 0.0, jnp.float32))

    def __call__(self, x: Float[Array, "*any inputs"]) -> Float[Array, "*any outputs"]:
        y = x @ self.weights[...].astype(x.dtype)
        return y + along_last(self.bias[...], y)


class LayerNorm(nnx.Module):
    """Normalise the last axis to mean 0 and variance 1, then scale and shift. Statistics in float32 at least."""

    def __init__(self, channels: int):
        self.scale = nnx.Param(jnp.ones((channels,), jnp.float32))
        self.offset = nnx.Param(jnp.zeros((channels,), jnp.float32))

    def __call__(self, x: Float[Array, "*any c"]) -> Float[Array, "*any c"]:
        normal = normalised(x, 1e-5)
        return (normal * along_last(self.scale[...], normal) + along_last(self.offset[...], normal)).astype(x.dtype)


def normalised(x: Float[Array, "*any c"], epsilon: float) -> Float[Array, "*any c"]:
    """The last axis with mean 0 and variance 1, in float32 at least."""
    precise = x.astype(wide(x.dtype))
    centred = precise - precise.mean(-1, keepdims=True)
    variance = jnp.square(centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + epsilon)


def along_last(vector: Float[Array, "c"], like: Float[Array, "*any c"]) -> Float[Array, "*ones c"]:
    """A parameter vector in the dtype and rank of the activations it meets."""
    return vector.astype(like.dtype).reshape(*[1] * (like.ndim - 1), -1)


def dropout(
    update: Float[Array, "*any"], key: Key[Array, ""] | None, *, rate: float, shared_axis: int | None = None
) -> Float[Array, "*any"]:
    """Dropout, with one mask for all positions of `shared_axis` (Jumper et al. 2021, Suppl. 1.11.6); no key, none."""
    if key is None or rate == 0.0:
        return update
    shape = tuple(1 if a == shared_axis else n for a, n in enumerate(update.shape))
    # A factor of the mask's own, small shape: a choice between the update and zeros would hold zeros of full shape.
    factor = jax.random.bernoulli(key, 1.0 - rate, shape).astype(update.dtype) / jnp.asarray(1.0 - rate, update.dtype)
    return update * factor
