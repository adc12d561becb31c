"""Attention between the levels above one patch and a few learned ones, and back (Jaegle et al. 2021)."""

import jax
import jax.numpy as jnp
from einops import rearrange
from flax import nnx
from jaxtyping import Array, Float

from elbowroom.memory.precision import wide
from elbowroom.models.aurora.layers import MLP, LayerNorm, Linear


class PerceiverAttention(nnx.Module):
    """Queries from one set of levels, keys and values from another."""

    def __init__(self, channels: int, heads: int, *, stabilised: bool, rngs: nnx.Rngs):
        self.heads, self.stabilised = heads, stabilised
        self.to_q = Linear(channels, channels, rngs=rngs, bias=False)
        self.to_kv = Linear(channels, 2 * channels, rngs=rngs, bias=False)
        self.to_out = Linear(channels, channels, rngs=rngs, bias=False)
        if stabilised:
            self.ln_q, self.ln_k = LayerNorm(channels), LayerNorm(channels)

    def __call__(
        self, latents: Float[Array, "*any q c"], context: Float[Array, "*any k c"]
    ) -> Float[Array, "*any q c"]:
        query, (key, value) = self.to_q(latents), jnp.split(self.to_kv(context), 2, axis=-1)
        if self.stabilised:
            query, key = self.ln_q(query), self.ln_k(key)
        query, key, value = (
            rearrange(x, "... level (head c) -> ... head level c", head=self.heads) for x in (query, key, value)
        )
        query = query * jnp.asarray(query.shape[-1] ** -0.5, query.dtype)
        logits = jnp.einsum("...qc,...kc->...qk", query, key, preferred_element_type=wide(query.dtype))
        read = jnp.einsum("...qk,...kc->...qc", jax.nn.softmax(logits, axis=-1).astype(value.dtype), value)
        return self.to_out(rearrange(read, "... head level c -> ... level (head c)"))


class PerceiverLayer(nnx.List):
    """Attention and a small network, each normalised and then added: `0`, `1`, `2` and `3` in the checkpoints."""

    def __init__(self, channels: int, heads: int, hidden: int, *, stabilised: bool, rngs: nnx.Rngs):
        attention = PerceiverAttention(channels, heads, stabilised=stabilised, rngs=rngs)
        super().__init__([attention, MLP(channels, hidden, rngs=rngs), LayerNorm(channels), LayerNorm(channels)])

    def __call__(
        self, latents: Float[Array, "*any q c"], context: Float[Array, "*any k c"]
    ) -> Float[Array, "*any q c"]:
        attention, mlp, norm_attention, norm_mlp = self
        latents = norm_attention(attention(latents, context)) + latents
        return norm_mlp(mlp(latents)) + latents


class Perceiver(nnx.Module):
    """Layers after one another, all reading the same context."""

    def __init__(self, channels: int, heads: int, hidden: int, depth: int, *, stabilised: bool = False, rngs: nnx.Rngs):
        layers = [PerceiverLayer(channels, heads, hidden, stabilised=stabilised, rngs=rngs) for _ in range(depth)]
        self.layers = nnx.List(layers)

    def __call__(
        self, latents: Float[Array, "*any q c"], context: Float[Array, "*any k c"]
    ) -> Float[Array, "*any q c"]:
        for layer in self.layers:
            latents = layer(latents, context)
        return latents
