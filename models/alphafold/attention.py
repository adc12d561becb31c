"""Gated attention over an MSA or pair representation, each module giving the update to be added to it.

Attribute names are those of the published parameters. Every module is one function per row of the representation
it updates, run `plan.chunk.rows` rows at a time. Masks are True where there is something.
"""

import jax
import jax.numpy as jnp
from einops import rearrange
from flax import nnx
from jaxtyping import Array, Bool, Float

from elbowroom.memory.attention import MASKED, attention
from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import wide
from elbowroom.models.layers import LayerNorm, along_last, initial_weights


class AttentionWeights(nnx.Module):
    """Parameters of a multi-head attention whose output is gated by its input."""

    def __init__(self, channels: int, heads: int, *, shared_keys: bool, rngs: nnx.Rngs):
        width = channels // heads
        keys = (channels, width) if shared_keys else (channels, heads, width)
        self.query_w = nnx.Param(initial_weights("linear", rngs, (channels, heads, width), channels))
        self.key_w = nnx.Param(initial_weights("linear", rngs, keys, channels))
        self.value_w = nnx.Param(initial_weights("linear", rngs, keys, channels))
        self.gating_w = nnx.Param(jnp.zeros((channels, heads, width), jnp.float32))
        self.gating_b = nnx.Param(jnp.ones((heads, width), jnp.float32))
        self.output_w = nnx.Param(jnp.zeros((heads, width, channels), jnp.float32))
        self.output_b = nnx.Param(jnp.zeros((channels,), jnp.float32))

    def gated(self, read: Float[Array, "row #k head width"], act: Float[Array, "row k c"]) -> Float[Array, "row k c"]:
        gate = _heads(act, self.gating_w[...]) + self.gating_b[...].astype(act.dtype)[None, None]
        out = jnp.einsum("rkhd,hdc->rkc", read * jax.nn.sigmoid(gate), self.output_w[...].astype(act.dtype))
        return out + along_last(self.output_b[...], out)


class GatedAttention(AttentionWeights):
    """Multi-head self-attention over the positions of a row (Jumper et al. 2021, Suppl. Algorithm 7, l. 4-7)."""

    def __init__(self, channels: int, heads: int, *, rngs: nnx.Rngs):
        super().__init__(channels, heads, shared_keys=False, rngs=rngs)

    def __call__(
        self,
        act: Float[Array, "row k c"],
        mask: Bool[Array, "row k"],
        bias: Float[Array, "head k k"] | None,
        plan: Plan,
    ) -> Float[Array, "row k c"]:
        """`act` is layer-normed; `bias` is added to every row's logits."""
        query, key, value = (_heads(act, w[...]) for w in (self.query_w, self.key_w, self.value_w))
        chunk, kernel = plan.chunk, plan.kernels.attention
        read = attention(query, key, value, mask, bias, queries=chunk.queries, keys=chunk.keys, kernel=kernel)
        return self.gated(read, act)


class GlobalAttention(AttentionWeights):
    """One query per row, the mean of its valid positions; keys shared by all heads (Suppl. Algorithm 19, l. 2-7)."""

    def __init__(self, channels: int, heads: int, *, rngs: nnx.Rngs):
        super().__init__(channels, heads, shared_keys=True, rngs=rngs)

    def __call__(self, act: Float[Array, "row k c"], mask: Bool[Array, "row k"]) -> Float[Array, "row k c"]:
        statistics = wide(act.dtype)
        present = mask.astype(statistics)[..., None]
        mean = (present * act.astype(statistics)).sum(1) / (present.sum(1) + 1e-10)
        query = jnp.einsum("rc,chd->rhd", mean.astype(act.dtype), self.query_w[...].astype(act.dtype))
        query = query * jnp.asarray(query.shape[-1] ** -0.5, query.dtype)
        key, value = (act @ w[...].astype(act.dtype) for w in (self.key_w, self.value_w))
        logits = jnp.einsum("rhd,rkd->rhk", query, key, preferred_element_type=statistics)
        weights = jax.nn.softmax(jnp.where(mask[:, None], logits, jnp.asarray(MASKED, statistics)), axis=-1)
        read = jnp.einsum("rhk,rkd->rhd", weights.astype(value.dtype), value)
        return self.gated(read[:, None], act)


def _heads(act: Float[Array, "row k c"], weights: Float[Array, "c head width"]) -> Float[Array, "row k head width"]:
    return jnp.einsum("rkc,chd->rkhd", act, weights.astype(act.dtype))


class PairBias(nnx.Module):
    """Logit biases from the pair representation, one per head."""

    def __init__(self, pair_channels: int, heads: int, *, rngs: nnx.Rngs):
        self.feat_2d_weights = nnx.Param(initial_weights("linear", rngs, (pair_channels, heads), pair_channels))

    def bias(self, pair: Float[Array, "res res c_z"], norm: LayerNorm, plan: Plan) -> Float[Array, "head res res"]:
        def rows(some: Float[Array, "row res c_z"]) -> Float[Array, "row res head"]:
            return norm(some) @ self.feat_2d_weights[...].astype(some.dtype)

        return rearrange(map_rows(rows, pair, size=plan.chunk.rows), "q k h -> h q k")


class MSARowAttentionWithPairBias(PairBias):
    """Residues of one sequence attend to each other, biased by the pair representation (Suppl. Algorithm 7)."""

    def __init__(self, channels: int, pair_channels: int, heads: int, *, rngs: nnx.Rngs):
        super().__init__(pair_channels, heads, rngs=rngs)
        self.query_norm = LayerNorm(channels)
        self.feat_2d_norm = LayerNorm(pair_channels)
        self.attention = GatedAttention(channels, heads, rngs=rngs)

    def __call__(
        self,
        msa: Float[Array, "seq res c_m"],
        pair: Float[Array, "res res c_z"],
        mask: Bool[Array, "seq res"],
        plan: Plan,
    ) -> Float[Array, "seq res c_m"]:
        bias = self.bias(pair, self.feat_2d_norm, plan)

        def rows(some: Float[Array, "row res c_m"], valid: Bool[Array, "row res"]) -> Float[Array, "row res c_m"]:
            return self.attention(self.query_norm(some), valid, bias, plan)

        return map_rows(rows, msa, mask, size=plan.chunk.rows)


class MSAColumnAttention(nnx.Module):
    """Sequences attend to each other at one residue (Suppl. Algorithm 8)."""

    def __init__(self, channels: int, heads: int, *, rngs: nnx.Rngs):
        self.query_norm = LayerNorm(channels)
        self.attention = GatedAttention(channels, heads, rngs=rngs)

    def __call__(
        self, msa: Float[Array, "seq res c_m"], mask: Bool[Array, "seq res"], plan: Plan
    ) -> Float[Array, "seq res c_m"]:
        def columns(some: Float[Array, "row seq c_m"], valid: Bool[Array, "row seq"]) -> Float[Array, "row seq c_m"]:
            return self.attention(self.query_norm(some), valid, None, plan)

        return map_rows(columns, msa, mask, size=plan.chunk.rows, axes=(1, 1), out_axis=1)


class MSAColumnGlobalAttention(nnx.Module):
    """Column attention with one mean query, affordable for thousands of sequences (Suppl. Algorithm 19)."""

    def __init__(self, channels: int, heads: int, *, rngs: nnx.Rngs):
        self.query_norm = LayerNorm(channels)
        self.attention = GlobalAttention(channels, heads, rngs=rngs)

    def __call__(
        self, msa: Float[Array, "seq res c_e"], mask: Bool[Array, "seq res"], plan: Plan
    ) -> Float[Array, "seq res c_e"]:
        def columns(some: Float[Array, "row seq c_e"], valid: Bool[Array, "row seq"]) -> Float[Array, "row seq c_e"]:
            return self.attention(self.query_norm(some), valid)

        return map_rows(columns, msa, mask, size=plan.chunk.rows, axes=(1, 1), out_axis=1)


class TriangleAttention(PairBias):
    """Edges that leave one residue attend to each other, biased by the third edge (Suppl. Algorithms 13 and 14)."""

    def __init__(self, pair_channels: int, heads: int, *, ending: bool, rngs: nnx.Rngs):
        super().__init__(pair_channels, heads, rngs=rngs)
        self.ending = ending
        self.query_norm = LayerNorm(pair_channels)
        self.attention = GatedAttention(pair_channels, heads, rngs=rngs)

    def __call__(
        self, pair: Float[Array, "res res c_z"], mask: Bool[Array, "res res"], plan: Plan
    ) -> Float[Array, "res res c_z"]:
        axis = 1 if self.ending else 0
        bias = self.bias(pair, self.query_norm, plan)
        if self.ending:
            bias = bias.swapaxes(1, 2)

        def rows(some: Float[Array, "row res c_z"], valid: Bool[Array, "row res"]) -> Float[Array, "row res c_z"]:
            return self.attention(self.query_norm(some), valid, bias, plan)

        return map_rows(rows, pair, mask, size=plan.chunk.rows, axes=(axis, axis), out_axis=axis)
