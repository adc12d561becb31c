"""Invariant point attention: residues attend by features, pair representation and points in space.

Jumper et al. 2021, Suppl. 1.8.2 and Algorithm 22. Unchanged by any rotation and translation of all frames together.
"""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.recompute import recomputed_module
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.geometry import Rigid, apply, apply_inverse, spread
from elbowroom.models.layers import Linear

UNIT_SOFTPLUS = 0.5413248546129181
"""log(e - 1): its softplus is 1"""
FAR = 1e5
"""Taken from the logits of padding."""


class InvariantPointAttention(nnx.Module):
    """The update of the single representation; attribute names are those of the published parameters."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        single, pair, heads = config.single_channels, config.pair_channels, config.point_heads
        self.heads, self.scalar_keys = heads, config.scalar_key_channels
        self.scalar_values, self.point_keys = config.scalar_value_channels, config.point_keys
        self.point_values = config.point_values
        self.q_scalar = Linear(single, heads * self.scalar_keys, rngs=rngs)
        self.kv_scalar = Linear(single, heads * (self.scalar_keys + self.scalar_values), rngs=rngs)
        self.q_point_local = Linear(single, heads * 3 * self.point_keys, rngs=rngs)
        self.kv_point_local = Linear(single, heads * 3 * (self.point_keys + self.point_values), rngs=rngs)
        self.trainable_point_weights = nnx.Param(jnp.full((heads,), UNIT_SOFTPLUS, jnp.float32))
        self.attention_2d = Linear(pair, heads, rngs=rngs)
        read = heads * (self.scalar_values + 4 * self.point_values + pair)
        self.output_projection = Linear(read, single, rngs=rngs, start="zero")

    def __call__(
        self,
        act: Float[Array, "res c_s"],
        pair: Float[Array, "res res c_z"],
        frames: Rigid,
        mask: Bool[Array, "res"],
        plan: Plan,
    ) -> Float[Array, "res c_s"]:
        def whole(act: Array, pair: Array, frames: Rigid) -> Float[Array, "res c_s"]:
            query = self._split(self.q_scalar(act))
            both = self._split(self.kv_scalar(act))
            key, value = both[..., : self.scalar_keys], both[..., self.scalar_keys :]
            query_points = self._points(self.q_point_local(act), frames)
            points = self._points(self.kv_point_local(act), frames)
            key_points, value_points = points[:, :, : self.point_keys], points[:, :, self.point_keys :]

            def rows(query: Array, query_points: Array, edges: Array, valid: Array, own: Rigid) -> Array:
                logits = self._logits(query, key, query_points, key_points, edges)
                both = (valid[:, None] & mask[None])[:, None]
                weights = jax.nn.softmax(logits - jnp.where(both, 0.0, FAR).astype(logits.dtype), axis=-1)
                return self.output_projection(self._read(weights, value, value_points, edges, own))

            return map_rows(rows, query, query_points, pair, mask, frames, size=plan.chunk.rows)

        return recomputed_module(whole, plan.recompute)(act, pair, frames)

    def _logits(
        self,
        query: Float[Array, "row head c"],
        key: Float[Array, "res head c"],
        query_points: Float[Array, "row head point 3"],
        key_points: Float[Array, "res head point 3"],
        edges: Float[Array, "row res c_z"],
    ) -> Float[Array, "row head res"]:
        """Three terms of equal variance at the start of training (l. 7)."""
        scalars = jnp.einsum("rhc,khc->rhk", query * (3 * self.scalar_keys) ** -0.5, key)
        apart = jnp.square(query_points[:, None] - key_points[None]).sum((-1, -2))
        weight = jax.nn.softplus(self.trainable_point_weights[...].astype(apart.dtype))
        weight = weight * (3 * self.point_keys * 9.0 / 2) ** -0.5
        from_pair = self.attention_2d(edges) * 3**-0.5
        return scalars + (from_pair - 0.5 * weight[None, None] * apart).swapaxes(1, 2)

    def _read(
        self,
        weights: Float[Array, "row head res"],
        value: Float[Array, "res head c"],
        value_points: Float[Array, "res head point 3"],
        edges: Float[Array, "row res c_z"],
        own: Rigid,
    ) -> Float[Array, "row read"]:
        """Mean features, mean points in the residue's own frame with their distances from it, mean edges (l. 8-11)."""
        scalars = jnp.einsum("rhk,khc->rhc", weights, value).reshape(len(edges), -1)
        points = jnp.einsum("rhk,khpx->rhpx", weights, value_points)
        local = apply_inverse(spread(own), points.reshape(len(edges), -1, 3))
        far = jnp.sqrt(1e-8 + jnp.square(local).sum(-1))
        from_pair = jnp.einsum("rhk,rkc->rhc", weights, edges).reshape(len(edges), -1)
        parts = [scalars, *(local[..., axis] for axis in range(3)), far, from_pair]
        return jnp.concatenate(parts, axis=-1)

    def _split(self, act: Float[Array, "res c"]) -> Float[Array, "res head c_h"]:
        return act.reshape(len(act), self.heads, -1)

    def _points(self, act: Float[Array, "res c"], frames: Rigid) -> Float[Array, "res head point 3"]:
        """All x coordinates come first, then all y, then all z."""
        local = act.reshape(len(act), 3, -1).swapaxes(1, 2)
        return apply(spread(frames), local).reshape(len(act), self.heads, -1, 3)
