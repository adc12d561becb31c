"""Heads that say how far a predicted structure can be trusted, with their losses, in float32 at least."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import wide
from elbowroom.models.alphafold import residues as table
from elbowroom.models.alphafold.atoms import of_residue
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.embed import Features
from elbowroom.models.alphafold.geometry import Rigid, apply_inverse, distances, spread
from elbowroom.models.alphafold.heads import cross_entropy
from elbowroom.models.alphafold.structure import Structure
from elbowroom.models.alphafold.truth import Truth
from elbowroom.models.layers import LayerNorm, Linear

LAST_BREAK = 31.0
"""Angstrom; the last edge between bins of the aligned error, the first is 0"""
BEST_RESOLUTION, WORST_RESOLUTION = 0.1, 3.0
"""Angstrom; confidence is learned from structures between these only (Suppl. 1.9.6)"""
SHORTEST = 19
"""residues; the TM-score of shorter chains is predicted as if they had as many"""
INCLUSION, THRESHOLDS = 15.0, (0.5, 1.0, 2.0, 4.0)
"""Angstrom; which true distances lDDT looks at, and how well they must be kept"""


class LDDTHead(nnx.Module):
    """In which of 50 bins the lDDT-Ca of every residue lies (Suppl. 1.9.6, Algorithm 29)."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.bins = config.lddt_bins
        self.input_layer_norm = LayerNorm(config.single_channels)
        self.act_0 = Linear(config.single_channels, config.lddt_channels, rngs=rngs, start="relu")
        self.act_1 = Linear(config.lddt_channels, config.lddt_channels, rngs=rngs, start="relu")
        self.logits = Linear(config.lddt_channels, config.lddt_bins, rngs=rngs, start="zero")

    def __call__(self, act: Float[Array, "res c_s"]) -> Float[Array, "res bin"]:
        """`act` is the structure module's."""
        hidden = jax.nn.relu(self.act_0(self.input_layer_norm(act)))
        return self.logits(jax.nn.relu(self.act_1(hidden)))

    def expected(self, act: Float[Array, "res c_s"]) -> Float[Array, "res"]:
        """The predicted lDDT-Ca of every residue, 0 to 100 (Suppl. Algorithm 29)."""
        logits = self(act)
        centres = (jnp.arange(self.bins, dtype=logits.dtype) + 0.5) / self.bins
        return 100 * jax.nn.softmax(logits, axis=-1) @ centres

    def loss(self, structure: Structure, truth: Truth, features: Features, plan: Plan) -> Float[Array, ""]:
        """Mean cross-entropy, in nats, over residues whose CA is resolved."""
        known = truth.known37[:, table.CA]
        score = lddt(structure.atom37[:, table.CA], truth.atom37[:, table.CA], known, rows=plan.chunk.rows)
        bins = jnp.minimum(jnp.floor(jax.lax.stop_gradient(score) * self.bins), self.bins - 1).astype(int)
        errors = cross_entropy(self(structure.act), bins) * known.astype(score.dtype)
        return errors.sum() / (1e-8 + known.sum().astype(score.dtype)) * _good(features, score)


class AlignedErrorHead(nnx.Module):
    """In which of 64 bins lies the error of residue j as seen from the frame of residue i (Suppl. 1.9.7)."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.bins = config.aligned_error_bins
        self.logits = Linear(config.pair_channels, config.aligned_error_bins, rngs=rngs, start="zero")

    def __call__(self, pair: Float[Array, "row res c_z"]) -> Float[Array, "row res bin"]:
        return self.logits(pair.astype(wide(pair.dtype)))

    def expected(
        self, pair: Float[Array, "res res c_z"], mask: Bool[Array, "res"], plan: Plan
    ) -> tuple[Float[Array, "res res"], Float[Array, ""]]:
        """The error of residue j as seen from the frame of residue i in Angstrom, and the predicted TM-score.

        The TM-score is that of the residue whose frame sees the others best (Suppl. Equations 37 and 38).
        """
        dtype = wide(pair.dtype)
        centres = jnp.asarray(self.centres(), dtype)
        length = jnp.maximum(mask.sum(), SHORTEST).astype(dtype)
        scale = 1.24 * jnp.cbrt(length - 15) - 1.8
        kept = 1 / (1 + jnp.square(centres / scale))

        def rows(edges: Float[Array, "row res c_z"]) -> tuple[Float[Array, "row res"], Float[Array, "row res"]]:
            probability = jax.nn.softmax(self(edges), axis=-1)
            return probability @ centres, probability @ kept

        error, score = map_rows(rows, pair, size=plan.chunk.rows)
        seen = mask.astype(dtype)
        return error, ((score @ seen) / seen.sum() * seen).max()

    def centres(self) -> Float[np.ndarray, "bin"]:
        """Middle of every bin, Angstrom; the last, open to the right, is taken to be as wide as the others."""
        breaks = np.linspace(0.0, LAST_BREAK, self.bins - 1)
        half = breaks[1] / 2
        return np.append(breaks + half, breaks[-1] + 3 * half)

    def loss(
        self, pair: Float[Array, "res res c_z"], structure: Structure, truth: Truth, features: Features, plan: Plan
    ) -> Float[Array, ""]:
        """Mean cross-entropy, in nats, over all pairs of residues whose backbones are resolved."""
        predicted = jax.lax.stop_gradient(structure.backbone())
        true, known = truth.backbone()
        breaks = jnp.square(jnp.linspace(0.0, LAST_BREAK, self.bins - 1, dtype=predicted.translation.dtype))

        def rows(edges: Array, mine: Rigid, found: Rigid, seen: Bool[Array, "row"]) -> Float[Array, "row"]:
            expected = apply_inverse(spread(found), true.translation[None])
            error = jnp.square(apply_inverse(spread(mine), predicted.translation[None]) - expected).sum(-1)
            bins = (error[..., None] > breaks[None, None]).sum(-1)
            both = seen[:, None] & known[None]
            return jnp.where(both, cross_entropy(self(edges), bins), 0).sum(1)

        errors = map_rows(rows, pair, predicted, true, known, size=plan.chunk.rows)
        count = jnp.square(known.sum().astype(errors.dtype))
        return errors.sum() / (1e-8 + count) * _good(features, errors)


class ExperimentallyResolvedHead(nnx.Module):
    """Whether the experiment shows each atom (Suppl. 1.9.10)."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.logits = Linear(config.single_channels, len(table.ATOM37), rngs=rngs, start="zero")

    def __call__(self, single: Float[Array, "res c_s"]) -> Float[Array, "res 37"]:
        return self.logits(single.astype(wide(single.dtype)))

    def loss(self, single: Float[Array, "res c_s"], truth: Truth, features: Features) -> Float[Array, ""]:
        """Mean cross-entropy, in nats, over all atoms that the residues have."""
        logits = self(single)
        exists = of_residue(jnp.asarray(table.ATOM37_EXISTS), truth.aatype) & (features["seq_mask"] > 0)[:, None]
        errors = optax.losses.sigmoid_binary_cross_entropy(logits, truth.known37.astype(logits.dtype))
        weight = exists.astype(logits.dtype)
        return (errors * weight).sum() / (1e-8 + weight.sum()) * _good(features, logits)


def lddt(
    predicted: Float[Array, "res 3"], true: Float[Array, "res 3"], known: Bool[Array, "res"], *, rows: int | None
) -> Float[Array, "res"]:
    """Share of the true distances below 15 Angstrom that are kept, mean over four thresholds (Mariani et al. 2013).

    A residue without such distances scores 1.
    """
    number = jnp.arange(len(true))

    def score(mine: Array, found: Array, seen: Array, own: Array) -> Float[Array, "row"]:
        distance = distances(found[:, None], true[None], small=1e-10)
        counted = (distance < INCLUSION) & seen[:, None] & known[None] & (own[:, None] != number[None])
        error = jnp.abs(distance - distances(mine[:, None], predicted[None], small=1e-10))
        kept = sum((error < threshold).astype(error.dtype) for threshold in THRESHOLDS) / len(THRESHOLDS)
        weight = counted.astype(error.dtype)
        return (1e-10 + (weight * kept).sum(1)) / (1e-10 + weight.sum(1))

    return map_rows(score, predicted, true, known, number, size=rows)


def _good(features: Features, like: Array) -> Float[Array, ""]:
    """1 if the structure is good enough to learn confidence from, else 0."""
    resolution = features["resolution"]
    return ((resolution >= BEST_RESOLUTION) & (resolution <= WORST_RESOLUTION)).astype(like.dtype)
