"""The Evoformer block and its variant for extra sequences, in the published order (Suppl. Algorithms 6 and 18)."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import wide
from elbowroom.memory.recompute import name, recomputed_module
from elbowroom.memory.triangle import multiply_edges
from elbowroom.models.alphafold.attention import (
    MSAColumnAttention,
    MSAColumnGlobalAttention,
    MSARowAttentionWithPairBias,
    TriangleAttention,
)
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.layers import LayerNorm, Linear, along_last, dropout, initial_weights

type Msa = Float[Array, "seq res c_m"]
type Pair = Float[Array, "res res c_z"]
type PairRows = Float[Array, "row res c_z"]


class Transition(nnx.Module):
    """Two-layer perceptron at every position (Suppl. Algorithms 9 and 15)."""

    def __init__(self, channels: int, factor: int, *, rngs: nnx.Rngs):
        self.input_layer_norm = LayerNorm(channels)
        self.transition1 = Linear(channels, factor * channels, rngs=rngs, start="relu")
        self.transition2 = Linear(factor * channels, channels, rngs=rngs, start="zero")

    def __call__(self, act: Float[Array, "row column c"], plan: Plan) -> Float[Array, "row column c"]:
        def rows(some: Float[Array, "row column c"]) -> Float[Array, "row column c"]:
            return self.transition2(jax.nn.relu(self.transition1(self.input_layer_norm(some))))

        return map_rows(rows, act, size=plan.chunk.rows)


class OuterProductMean(nnx.Module):
    """What two residues' columns of the MSA have to do with each other (Suppl. Algorithm 10).

    The sum over sequences is divided by 1e-3 + the number that hold both residues, bias included.
    """

    def __init__(self, msa_channels: int, outer_channels: int, pair_channels: int, *, rngs: nnx.Rngs):
        self.layer_norm_input = LayerNorm(msa_channels)
        self.left_projection = Linear(msa_channels, outer_channels, rngs=rngs)
        self.right_projection = Linear(msa_channels, outer_channels, rngs=rngs)
        shape = (outer_channels, outer_channels, pair_channels)
        self.output_w = nnx.Param(initial_weights("zero", rngs, shape, outer_channels**2))
        self.output_b = nnx.Param(jnp.zeros((pair_channels,), jnp.float32))

    def __call__(self, msa: Msa, mask: Bool[Array, "seq res"], plan: Plan) -> Pair:
        def project(some: Float[Array, "row res c_m"], valid: Bool[Array, "row res"]) -> tuple[Array, Array]:
            normed = self.layer_norm_input(some)
            present = valid[..., None]
            left, right = self.left_projection(normed), self.right_projection(normed)
            return jnp.where(present, left, 0), jnp.where(present, right, 0)

        left, right = map_rows(project, msa, mask, size=plan.chunk.rows)
        statistics = wide(msa.dtype)
        present = mask.astype(statistics)
        count = present.T @ present
        weights = self.output_w[...].astype(msa.dtype)

        def rows(some: Float[Array, "row seq c"], together: Float[Array, "row res"]) -> Float[Array, "row res c_z"]:
            outer = jnp.einsum("isc,sjd->ijcd", some, right, preferred_element_type=statistics).astype(msa.dtype)
            total = jnp.einsum("ijcd,cdz->ijz", outer, weights, preferred_element_type=statistics)
            total = total + along_last(self.output_b[...], total)
            return (total / (1e-3 + together[..., None])).astype(msa.dtype)

        return map_rows(rows, left, count, size=plan.chunk.rows, axes=(1, 0))


class TriangleMultiplication(nnx.Module):
    """Update an edge from the other two edges of every triangle (Suppl. Algorithms 11 and 12)."""

    def __init__(self, channels: int, product_channels: int, *, incoming: bool, rngs: nnx.Rngs):
        self.incoming = incoming
        self.layer_norm_input = LayerNorm(channels)
        self.left_projection = Linear(channels, product_channels, rngs=rngs)
        self.right_projection = Linear(channels, product_channels, rngs=rngs)
        self.left_gate = Linear(channels, product_channels, rngs=rngs, start="gate")
        self.right_gate = Linear(channels, product_channels, rngs=rngs, start="gate")
        self.center_layer_norm = LayerNorm(product_channels)
        self.output_projection = Linear(product_channels, channels, rngs=rngs, start="zero")
        self.gating_linear = Linear(channels, channels, rngs=rngs, start="gate")

    def __call__(self, pair: Pair, mask: Bool[Array, "res res"], plan: Plan) -> Pair:
        """Outgoing: sum_k left[i, k] right[j, k]. Incoming: sum_k left[k, j] right[k, i], which is the same sum over
        the transposed edges with the sides exchanged.
        """
        mine, others = (self._right, self._left) if self.incoming else (self._left, self._right)

        def finish(product: Float[Array, "row res c"], some: PairRows) -> PairRows:
            gate = jax.nn.sigmoid(self.gating_linear(self.layer_norm_input(some)))
            return self.output_projection(self.center_layer_norm(product)) * gate

        axis = 1 if self.incoming else 0
        return multiply_edges(mine, others, finish, pair, mask, size=plan.chunk.rows, axis=axis)

    def _left(self, edges: PairRows, valid: Bool[Array, "row res"]) -> Float[Array, "row res c"]:
        return self._side(edges, valid, self.left_projection, self.left_gate)

    def _right(self, edges: PairRows, valid: Bool[Array, "row res"]) -> Float[Array, "row res c"]:
        return self._side(edges, valid, self.right_projection, self.right_gate)

    def _side(self, edges: Any, valid: Any, projection: Linear, gate: Linear) -> Float[Array, "row res c"]:
        normed = self.layer_norm_input(edges)
        return jnp.where(valid[..., None], projection(normed) * jax.nn.sigmoid(gate(normed)), 0)


class EvoformerBlock(nnx.Module):
    """One block of the main stack (Suppl. Algorithm 6), or of the narrow stack for `extra` sequences (Algorithm 18)."""

    def __init__(self, config: AlphaFoldConfig, *, extra: bool, rngs: nnx.Rngs):
        msa = config.extra_msa_channels if extra else config.msa_channels
        heads = config.extra_msa_heads if extra else config.msa_heads
        pair, product, factor = config.pair_channels, config.triangle_channels, config.transition_factor
        self.pair_dropout, self.msa_dropout = config.pair_dropout, config.msa_dropout
        self.msa_row_attention_with_pair_bias = MSARowAttentionWithPairBias(msa, pair, heads, rngs=rngs)
        if extra:
            self.msa_column_global_attention = MSAColumnGlobalAttention(msa, heads, rngs=rngs)
        else:
            self.msa_column_attention = MSAColumnAttention(msa, heads, rngs=rngs)
        self.column = "msa_column_global_attention" if extra else "msa_column_attention"
        self.msa_transition = Transition(msa, factor, rngs=rngs)
        self.outer_product_mean = OuterProductMean(msa, config.outer_channels, pair, rngs=rngs)
        self.triangle_multiplication_outgoing = TriangleMultiplication(pair, product, incoming=False, rngs=rngs)
        self.triangle_multiplication_incoming = TriangleMultiplication(pair, product, incoming=True, rngs=rngs)
        self.triangle_attention_starting_node = TriangleAttention(pair, config.pair_heads, ending=False, rngs=rngs)
        self.triangle_attention_ending_node = TriangleAttention(pair, config.pair_heads, ending=True, rngs=rngs)
        self.pair_transition = Transition(pair, factor, rngs=rngs)

    def __call__(
        self,
        msa: Msa,
        pair: Pair,
        msa_mask: Bool[Array, "seq res"],
        pair_mask: Bool[Array, "res res"],
        key: Key[Array, ""] | None,
        plan: Plan,
    ) -> tuple[Msa, Pair]:
        """Updated representations; `key` draws the dropout masks, None switches dropout off."""
        msa, pair = name(msa, "msa_in"), name(pair, "pair_in")
        keys = [None] * 5 if key is None else list(jax.random.split(key, 5))
        update = self._update("msa_row_attention_with_pair_bias", plan, msa, pair, msa_mask)
        msa = msa + dropout(update, keys[4], rate=self.msa_dropout, shared_axis=0)
        msa = msa + self._update(self.column, plan, msa, msa_mask)
        msa = msa + self._update("msa_transition", plan, msa)
        pair = pair + self._update("outer_product_mean", plan, msa, msa_mask)
        for key, label, axis in zip(keys, TRIANGLES, (0, 0, 0, 1), strict=False):
            update = self._update(label, plan, pair, pair_mask)
            pair = pair + dropout(update, key, rate=self.pair_dropout, shared_axis=axis)
        return msa, pair + self._update("pair_transition", plan, pair)

    def _update(self, label: str, plan: Plan, *inputs: Array) -> Float[Array, "row column c"]:
        """What the module called `label` adds, recomputed where the plan says so, and named after it."""
        module = getattr(self, label)
        return name(recomputed_module(lambda *arrays: module(*arrays, plan), plan.recompute)(*inputs), label)


TRIANGLES = (
    "triangle_multiplication_outgoing",
    "triangle_multiplication_incoming",
    "triangle_attention_starting_node",
    "triangle_attention_ending_node",
)
