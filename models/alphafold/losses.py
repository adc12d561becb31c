"""The training loss (Jumper et al. 2021, Suppl. 1.9, Equation 7)."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from elbowroom.memory.plan import Plan
from elbowroom.models.alphafold.embed import Features, Previous
from elbowroom.models.alphafold.model import AlphaFold, Prediction
from elbowroom.models.alphafold.structure_loss import structure_loss
from elbowroom.models.alphafold.truth import truth_of


@dataclass(frozen=True, kw_only=True)
class LossWeights:
    """How much each loss counts; those of initial training unless said otherwise."""

    masked_msa: float = 2.0
    distogram: float = 0.3
    structure: float = 1.0
    violation: float = 0.0
    """within the structure loss"""
    predicted_lddt: float = 0.01
    experimentally_resolved: float = 0.0
    aligned_error: float = 0.1
    """where the model has that head"""


INITIAL = LossWeights()
FINE_TUNING = LossWeights(violation=1.0, experimentally_resolved=0.01)


def alphafold_loss(
    model: AlphaFold,
    features: Features,
    plan: Plan,
    key: Key[Array, ""] | None,
    previous: Previous | None = None,
    *,
    weights: LossWeights = INITIAL,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """Weighted sum of all losses times the square root of the number of residues, and each loss alone.

    The factor gives long crops more weight where gradients are clipped example by example (Suppl. 1.9). A protein
    without structure has no resolved atom, so that only its masked MSA counts.
    """
    prediction = model(features, key, plan, previous)
    losses, parts = losses_of(model, prediction, features, plan, weights)
    total = total_of(losses, weights)
    length = features["seq_mask"].sum().astype(total.dtype)
    return total * jnp.sqrt(length), {**losses, **parts}


def total_of(losses: dict[str, Float[Array, ""]], weights: LossWeights) -> Float[Array, ""]:
    """The weighted sum of losses."""
    return jnp.stack([getattr(weights, name) * value for name, value in losses.items()]).sum()


def losses_of(
    model: AlphaFold, prediction: Prediction, features: Features, plan: Plan, weights: LossWeights
) -> tuple[dict[str, Float[Array, ""]], dict[str, Float[Array, ""]]]:
    """The losses by the names of their weights, and the parts of which the structure loss is made."""
    trunk, structure, truth = prediction.trunk, prediction.structure, truth_of(features)
    of_structure, parts = structure_loss(structure, truth, features, plan, violation_weight=weights.violation)
    losses = {
        "masked_msa": model.masked_msa_head.loss(trunk.msa, features, plan),
        "distogram": model.distogram_head.loss(trunk.pair, features, plan),
        "structure": of_structure,
        "predicted_lddt": model.predicted_lddt_head.loss(structure, truth, features, plan),
        "experimentally_resolved": model.experimentally_resolved_head.loss(trunk.single, truth, features),
    }
    if model.config.aligned_error:
        losses["aligned_error"] = model.predicted_aligned_error_head.loss(trunk.pair, structure, truth, features, plan)
    return losses, parts
