"""The Transformer block whose layer norms are steered by the lead time: adaLN-Zero (Peebles & Xie 2023)."""

import jax
import jax.numpy as jnp
from einops import rearrange
from flax import nnx
from jaxtyping import Array, Float

from elbowroom.memory.attention import attention
from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.recompute import name, recomputed_module
from elbowroom.models.layers import Linear, along_last, normalised
from elbowroom.models.stormer.config import StormerConfig

EPSILON = 1e-6
"""Added to the variance of a token by the layer norms of blocks"""

type Tokens = Float[Array, "token c"]
type Modulation = Float[Array, "c"]


class SelfAttention(nnx.Module):
    """All patches of the globe attend to each other."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs):
        self.heads = heads
        self.qkv = Linear(width, 3 * width, rngs=rngs, start="narrow")
        self.proj = Linear(width, width, rngs=rngs, start="narrow")

    def __call__(self, tokens: Tokens, shift: Modulation, scale: Modulation, plan: Plan) -> Tokens:
        def project(some: Float[Array, "row c"]) -> tuple[Float[Array, "row head d"], ...]:
            parts = jnp.split(self.qkv(modulated(some, shift, scale)), 3, axis=-1)
            return tuple(rearrange(part, "r (h d) -> r h d", h=self.heads) for part in parts)

        def merge(some: Float[Array, "row head d"]) -> Float[Array, "row c"]:
            return self.proj(rearrange(some, "r h d -> r (h d)"))

        chunk, everywhere = plan.chunk, jnp.ones((1, tokens.shape[0]), bool)
        query, key, value = (x[None] for x in map_rows(project, tokens, size=chunk.rows))
        kernel = plan.kernels.attention
        read = attention(query, key, value, everywhere, None, queries=chunk.queries, keys=chunk.keys, kernel=kernel)
        return map_rows(merge, read[0], size=chunk.rows)


class Mlp(nnx.Module):
    """Two-layer perceptron at every token."""

    def __init__(self, width: int, factor: int, *, rngs: nnx.Rngs):
        self.fc1 = Linear(width, factor * width, rngs=rngs, start="narrow")
        self.fc2 = Linear(factor * width, width, rngs=rngs, start="narrow")

    def __call__(self, tokens: Tokens, shift: Modulation, scale: Modulation, plan: Plan) -> Tokens:
        def rows(some: Float[Array, "row c"]) -> Float[Array, "row c"]:
            return self.fc2(jax.nn.gelu(self.fc1(modulated(some, shift, scale)), approximate=True))

        return map_rows(rows, tokens, size=plan.chunk.rows)


class Block(nnx.Module):
    """Attention, then a perceptron; attribute names are those of the published parameters."""

    def __init__(self, config: StormerConfig, *, rngs: nnx.Rngs):
        self.attn = SelfAttention(config.width, config.heads, rngs=rngs)
        self.mlp = Mlp(config.width, config.mlp_factor, rngs=rngs)
        self.adaLN_modulation = Linear(config.width, 6 * config.width, rngs=rngs, start="zero")

    def __call__(self, tokens: Tokens, lead: Float[Array, "c"], plan: Plan) -> Tokens:
        """Updated tokens; `lead` is the embedded lead time after its SiLU. A fresh block changes nothing."""
        tokens = name(tokens, "tokens_in")
        modulations = jnp.split(self.adaLN_modulation(lead), 6)
        for label, (shift, scale, gate) in (("attn", modulations[:3]), ("mlp", modulations[3:])):
            update = self._update(label, plan, tokens, shift, scale)
            tokens = tokens + along_last(gate, update) * update
        return tokens

    def _update(self, label: str, plan: Plan, *inputs: Array) -> Tokens:
        """What the module called `label` gives, recomputed where the plan says so, and named after it."""
        module = getattr(self, label)
        return name(recomputed_module(lambda *arrays: module(*arrays, plan), plan.recompute)(*inputs), label)


def modulated(tokens: Float[Array, "row c"], shift: Modulation, scale: Modulation) -> Float[Array, "row c"]:
    """Layer-normed tokens, scaled and shifted as the lead time asks."""
    normal = normalised(tokens, EPSILON)
    return (normal * (1 + along_last(scale, normal)) + along_last(shift, normal)).astype(tokens.dtype)
