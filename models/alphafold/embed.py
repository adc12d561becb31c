"""From features to the first MSA and pair representations (Jumper et al. 2021, Suppl. Algorithms 3, 4, 5 and 32)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import to_compute
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.layers import LayerNorm, Linear

TARGET_FEATURES, MSA_FEATURES, EXTRA_FEATURES, MSA_CLASSES = 22, 49, 25, 23
PREVIOUS_EDGES = 3.25, 20.75
"""Angstrom; the first and last edge between bins of the previous structure's distances"""

type Features = dict[str, Array]
"""AlphaFold's feature arrays of one example, by their official names."""


class Previous(NamedTuple):
    """What one pass over a protein hands to the next (recycling); zeros before the first."""

    pseudo_beta: Float[Array, "res 3"]
    """Angstrom"""
    msa_first_row: Float[Array, "res c_m"]
    pair: Float[Array, "res res c_z"]


class Embedder(nnx.Module):
    """Input, relative-position and recycling embeddings; attribute names are those of the published parameters."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.config = config
        msa, pair = config.msa_channels, config.pair_channels
        self.preprocess_1d = Linear(TARGET_FEATURES, msa, rngs=rngs)
        self.preprocess_msa = Linear(MSA_FEATURES, msa, rngs=rngs)
        self.left_single = Linear(TARGET_FEATURES, pair, rngs=rngs)
        self.right_single = Linear(TARGET_FEATURES, pair, rngs=rngs)
        self.pair_activiations = Linear(2 * config.relative_window + 1, pair, rngs=rngs)  # [sic]
        self.prev_pos_linear = Linear(config.previous_bins, pair, rngs=rngs)
        self.prev_msa_first_row_norm = LayerNorm(msa)
        self.prev_pair_norm = LayerNorm(pair)
        self.extra_msa_activations = Linear(EXTRA_FEATURES, config.extra_msa_channels, rngs=rngs)

    def first_msa(self, features: Features, previous: Previous, plan: Plan) -> Float[Array, "seq res c_m"]:
        target = to_compute(features["target_feat"], plan.precision)
        msa = self.preprocess_1d(target)[None] + self.preprocess_msa(to_compute(features["msa_feat"], plan.precision))
        return msa.at[0].add(self.prev_msa_first_row_norm(to_compute(previous.msa_first_row, plan.precision)))

    def first_pair(self, features: Features, previous: Previous, plan: Plan) -> Float[Array, "res res c_z"]:
        target = to_compute(features["target_feat"], plan.precision)
        residues, everywhere = features["residue_index"], previous.pseudo_beta
        right = self.right_single(target)

        def rows(
            left: Float[Array, "row c_z"], index: Int[Array, "row"], place: Float[Array, "row 3"], old: Array
        ) -> Float[Array, "row res c_z"]:
            pair = left[:, None] + right[None]
            near = distance_one_hot(place, everywhere, self.config.previous_bins, *PREVIOUS_EDGES)
            pair = pair + self.prev_pos_linear(to_compute(near, plan.precision))
            pair = pair + self.prev_pair_norm(to_compute(old, plan.precision))
            return pair + self.pair_activiations(to_compute(self._relative(index, residues), plan.precision))

        per_row = (self.left_single(target), residues, previous.pseudo_beta, previous.pair)
        return map_rows(rows, *per_row, size=plan.chunk.rows)

    def extra_msa(self, features: Features, plan: Plan) -> Float[Array, "extra res c_e"]:
        def rows(
            letters: Int[Array, "row res"], deleted: Float[Array, "row res"], count: Float[Array, "row res"]
        ) -> Float[Array, "row res c_e"]:
            one_hot = jax.nn.one_hot(letters, MSA_CLASSES, dtype=deleted.dtype)
            parts = [one_hot, deleted[..., None], count[..., None]]
            return self.extra_msa_activations(to_compute(jnp.concatenate(parts, -1), plan.precision))

        names = ("extra_msa", "extra_has_deletion", "extra_deletion_value")
        return map_rows(rows, *(features[n] for n in names), size=plan.chunk.rows)

    def _relative(self, rows: Int[Array, "row"], columns: Int[Array, "res"]) -> Float[Array, "row res bin"]:
        """Suppl. Algorithm 4: offsets in residue numbers, clipped."""
        window = self.config.relative_window
        offset = jnp.clip(rows[:, None] - columns[None] + window, 0, 2 * window)
        return jax.nn.one_hot(offset, 2 * window + 1, dtype=jnp.float32)


def distance_one_hot(
    rows: Float[Array, "row 3"], columns: Float[Array, "res 3"], bins: int, first: float, last: float
) -> Float[Array, "row res bin"]:
    """In which bin every distance lies; in none below the first edge, as between absent atoms. Angstrom.

    Suppl. Algorithm 32, l. 1, and Table 1.
    """
    squared = jnp.square(rows[:, None] - columns[None]).sum(-1, keepdims=True)
    lower = jnp.square(jnp.linspace(first, last, bins, dtype=squared.dtype))
    upper = jnp.append(lower[1:], jnp.asarray(1e8, squared.dtype))
    inside = (squared > lower[None, None]) & (squared < upper[None, None])
    return inside.astype(squared.dtype)


def no_previous(config: AlphaFoldConfig, features: Features, plan: Plan) -> Previous:
    """Zeros: what the first pass starts from; positions in the features' dtype, representations in the plan's."""
    length, dtype = features["target_feat"].shape[0], jnp.dtype(plan.precision.compute)
    return Previous(
        jnp.zeros((length, 3), features["target_feat"].dtype),
        jnp.zeros((length, config.msa_channels), dtype),
        jnp.zeros((length, length, config.pair_channels), dtype),
    )


def pair_mask(seq_mask: Bool[Array, "res"]) -> Bool[Array, "res res"]:
    return seq_mask[:, None] & seq_mask[None]
