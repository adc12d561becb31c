"""Layers whose parameters have the names and shapes of PyTorch's, as the published checkpoints hold them."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from elbowroom.models.layers import along_last, initial_weights, normalised

EPSILON = 1e-5
"""Of layer norms, beside the variance"""


class Linear(nnx.Module):
    """y = W x + b over the last axis; `weight` is (outputs, inputs)."""

    def __init__(self, inputs: int, outputs: int, *, rngs: nnx.Rngs, bias: bool = True, zero: bool = False):
        self.weight = nnx.Param(initial_weights("zero" if zero else "linear", rngs, (outputs, inputs), inputs))
        if bias:
            self.bias = nnx.Param(jnp.zeros((outputs,), jnp.float32))

    def __call__(self, x: Float[Array, "*any inputs"]) -> Float[Array, "*any outputs"]:
        y = jnp.einsum("...i,oi->...o", x, self.weight[...].astype(x.dtype))
        return y + along_last(self.bias[...], y) if hasattr(self, "bias") else y


class LayerNorm(nnx.Module):
    """Normalise the last axis, then scale by `weight` and add `bias`. Statistics in float32 at least."""

    def __init__(self, channels: int):
        self.weight = nnx.Param(jnp.ones((channels,), jnp.float32))
        self.bias = nnx.Param(jnp.zeros((channels,), jnp.float32))

    def __call__(self, x: Float[Array, "*any c"]) -> Float[Array, "*any c"]:
        normal = normalised(x, EPSILON)
        return (normal * along_last(self.weight[...], normal) + along_last(self.bias[...], normal)).astype(x.dtype)


class MLP(nnx.Module):
    """Two linear layers with an exact GELU between them; `net.0` and `net.2` in the checkpoints."""

    def __init__(self, channels: int, hidden: int, *, rngs: nnx.Rngs):
        self.net = nnx.Dict(
            {"0": Linear(channels, hidden, rngs=rngs), "2": Linear(hidden, channels, rngs=rngs)},
        )

    def __call__(self, x: Float[Array, "*any c"]) -> Float[Array, "*any c"]:
        return self.net["2"](gelu(self.net["0"](x)))


def gelu(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """x times the normal distribution function of x, not its tanh approximation."""
    return jax.nn.gelu(x, approximate=False)
