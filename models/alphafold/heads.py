"""Heads of the trunk and their losses, in float32 at least (Jumper et al. 2021, Suppl. 1.9.8 and 1.9.9)."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import wide
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.embed import MSA_CLASSES, Features
from elbowroom.models.layers import Linear

FIRST_BREAK, LAST_BREAK = 2.3125, 21.6875
"""Angstrom; edges of the distogram's outermost bins"""
CONTACT = 8.0
"""Angstrom"""


class MaskedMSAHead(nnx.Module):
    """Which letter stood at every position of the MSA."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.logits = Linear(config.msa_channels, MSA_CLASSES, rngs=rngs, start="zero")

    def __call__(self, msa: Float[Array, "seq res c_m"]) -> Float[Array, "seq res letter"]:
        return self.logits(msa.astype(wide(msa.dtype)))

    def loss(self, msa: Float[Array, "seq res c_m"], features: Features, plan: Plan) -> Float[Array, ""]:
        """Mean cross-entropy, in nats, of the letters that were hidden from the network."""

        def rows(some: Float[Array, "row res c_m"], true: Int[Array, "row res"]) -> Float[Array, "row res"]:
            return cross_entropy(self(some), true)

        errors = map_rows(rows, msa, features["true_msa"], size=plan.chunk.rows)
        hidden = features["bert_mask"].astype(errors.dtype)
        return (errors * hidden).sum() / (1e-8 + hidden.sum())


class DistogramHead(nnx.Module):
    """In which of 64 bins lies the distance of every two residues' pseudo-beta atoms."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.bins = config.distogram_bins
        self.half_logits = Linear(config.pair_channels, config.distogram_bins, rngs=rngs, start="zero")

    def __call__(
        self, edges: Float[Array, "row res c_z"], reverse: Float[Array, "row res c_z"]
    ) -> Float[Array, "row res bin"]:
        """Logits of some rows: `edges` from their residues to all, `reverse` from all to them; symmetric as a whole."""
        statistics = wide(edges.dtype)
        return self.half_logits(edges.astype(statistics)) + self.half_logits(reverse.astype(statistics))

    def contacts(self, pair: Float[Array, "res res c_z"], plan: Plan) -> Float[Array, "res res"]:
        """Probability that the pseudo-beta atoms are less than 8 Angstrom apart."""
        below = int((np.linspace(FIRST_BREAK, LAST_BREAK, self.bins - 1) <= CONTACT).sum())

        def rows(edges: Array, reverse: Array) -> Float[Array, "row res"]:
            return jax.nn.softmax(self(edges, reverse), axis=-1)[..., :below].sum(-1)

        return map_rows(rows, pair, pair, size=plan.chunk.rows, axes=(0, 1))

    def loss(self, pair: Float[Array, "res res c_z"], features: Features, plan: Plan) -> Float[Array, ""]:
        """Mean cross-entropy, in nats, over all pairs of residues whose pseudo-beta is resolved."""
        beta, known = features["pseudo_beta"], features["pseudo_beta_mask"]

        def rows(
            edges: Array, reverse: Array, place: Float[Array, "row 3"], valid: Float[Array, "row"]
        ) -> tuple[Float[Array, "row"], Float[Array, "row"]]:
            true = distance_bins(place, beta, self.bins)
            both = valid[:, None] * known[None]
            errors = cross_entropy(self(edges, reverse), true)
            return (errors * both.astype(errors.dtype)).sum(1), both.sum(1).astype(errors.dtype)

        errors, pairs = map_rows(rows, pair, pair, beta, known, size=plan.chunk.rows, axes=(0, 1, 0, 0))
        return errors.sum() / (1e-6 + pairs.sum())


def distance_bins(rows: Float[Array, "row 3"], columns: Float[Array, "res 3"], bins: int) -> Int[Array, "row res"]:
    """The distogram bin of every distance; positions in Angstrom."""
    squared = jnp.square(rows[:, None] - columns[None]).sum(-1, keepdims=True)
    edges = jnp.square(jnp.linspace(FIRST_BREAK, LAST_BREAK, bins - 1, dtype=squared.dtype))
    return (squared > edges[None, None]).sum(-1)


def cross_entropy(logits: Float[Array, "*any bin"], true: Int[Array, "*any"]) -> Float[Array, "*any"]:
    """Minus the logarithm of the probability of the true bin, in nats."""
    chosen = jnp.take_along_axis(logits, true[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen
