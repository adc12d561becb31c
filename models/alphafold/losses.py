"""The trunk's training loss."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from elbowroom.memory.plan import Plan
from elbowroom.models.alphafold.embed import Features, Previous
from elbowroom.models.alphafold.model import AlphaFold

MASKED_MSA_WEIGHT, DISTOGRAM_WEIGHT = 2.0, 0.3
"""Jumper et al. 2021, Suppl. Equation 7"""


def trunk_loss(
    model: AlphaFold, features: Features, plan: Plan, key: Key[Array, ""] | None, previous: Previous | None = None
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Weighted sum of both heads' losses times the square root of the number of residues, and each loss alone.

    The factor gives long crops more weight where gradients are clipped example by example (Suppl. 1.9). A protein
    without structure has no resolved residue, so its distogram loss is zero.
    """
    representations = model(features, key, plan, previous)
    masked_msa = model.masked_msa_head.loss(representations.msa, features, plan)
    distogram = model.distogram_head.loss(representations.pair, features, plan)
    length = features["seq_mask"].sum().astype(distogram.dtype)
    total = (MASKED_MSA_WEIGHT * masked_msa + DISTOGRAM_WEIGHT * distogram) * jnp.sqrt(length)
    return total, {"masked_msa": masked_msa, "distogram": distogram}
