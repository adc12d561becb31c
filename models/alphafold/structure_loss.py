"""Losses of the structure module (Jumper et al. 2021, Suppl. 1.9.1 to 1.9.3 and 1.9.11)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from elbowroom.memory.plan import Plan
from elbowroom.models.alphafold import residues as table
from elbowroom.models.alphafold.atoms import of_residue
from elbowroom.models.alphafold.embed import Features
from elbowroom.models.alphafold.fape import fape
from elbowroom.models.alphafold.geometry import Rigid, rotation_of
from elbowroom.models.alphafold.structure import Angles, Structure
from elbowroom.models.alphafold.truth import Truth, renamed
from elbowroom.models.alphafold.violations import violations

SIDECHAIN_SHARE, CHI_WEIGHT, ANGLE_NORM_WEIGHT = 0.5, 0.5, 0.01
CHI = 3
"""index of the first side-chain torsion among the seven"""


def structure_loss(
    structure: Structure, truth: Truth, features: Features, plan: Plan, *, violation_weight: float
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """The weighted sum and its parts; violations are looked for only where they have a weight."""
    rows = plan.chunk.rows
    mask = features["seq_mask"] > 0
    exists = of_residue(jnp.asarray(table.ATOM14_EXISTS), truth.aatype) & mask[:, None]
    named = renamed(truth, jax.lax.stop_gradient(structure.atom14), rows=rows)
    backbone = backbone_fape(structure, truth, features["use_clamped_fape"], rows=rows)
    parts = {
        "fape": backbone[-1],
        "sidechain_fape": sidechain_fape(structure, named, rows=rows),
        "chi": chi_loss(structure.angles, truth),
        "angle_norm": angle_norm_loss(structure.angles, mask),
    }
    total = (1 - SIDECHAIN_SHARE) * backbone.mean() + SIDECHAIN_SHARE * parts["sidechain_fape"]
    total = total + CHI_WEIGHT * parts["chi"] + ANGLE_NORM_WEIGHT * parts["angle_norm"]
    if violation_weight:
        wrong = violations(truth.aatype, features["residue_index"], structure.atom14, exists, rows=rows)
        parts["violation"] = wrong.loss(exists)
        total = total + violation_weight * parts["violation"]
    return total, parts


def backbone_fape(
    structure: Structure, truth: Truth, clamped: Float[Array, ""], *, rows: int | None
) -> Float[Array, "layer"]:
    """FAPE of CA as seen from all backbones, after every iteration (Suppl. Algorithm 20, l. 17)."""
    true, known = truth.backbone()

    def one(layer: tuple[Array, Array]) -> Float[Array, ""]:
        frames = Rigid(rotation_of(layer[0]), layer[1])
        return fape(frames, frames.translation, true, true.translation, known, known, clamped=clamped, rows=rows)

    return jax.lax.map(one, (structure.quaternions, structure.translations))


def sidechain_fape(structure: Structure, truth: Truth, *, rows: int | None) -> Float[Array, ""]:
    """FAPE of all atoms as seen from all rigid groups of the final structure (Suppl. Algorithm 20, l. 28)."""
    frames, true = (
        Rigid(f.rotation.reshape(-1, 3, 3), f.translation.reshape(-1, 3))
        for f in (structure.frames, truth.groups.frames)
    )
    return fape(
        frames,
        structure.atom14.reshape(-1, 3),
        true,
        truth.atom14.reshape(-1, 3),
        truth.groups.exists.reshape(-1),
        truth.known14.reshape(-1),
        rows=None if rows is None else 8 * rows,
    )


def chi_loss(angles: Angles, truth: Truth) -> Float[Array, ""]:
    """Mean squared distance of side-chain torsions on the unit circle, in either naming (Suppl. Algorithm 27)."""
    known = truth.torsions.exists[None, :, CHI:]
    errors = [
        jnp.square(angles.sin_cos[:, :, CHI:] - true[None, :, CHI:]).sum(-1)
        for true in (truth.torsions.sin_cos, truth.torsions.alternative)
    ]
    layers = angles.sin_cos.shape[0]
    return _mean(jnp.minimum(*errors), jnp.broadcast_to(known, (layers, *known.shape[1:])))


def angle_norm_loss(angles: Angles, mask: Bool[Array, "res"]) -> Float[Array, ""]:
    """How far the raw angles are from the unit circle."""
    error = jnp.abs(jnp.sqrt(jnp.square(angles.raw).sum(-1) + 1e-6) - 1)
    return _mean(error, jnp.broadcast_to(mask[None, :, None], error.shape))


def _mean(values: Float[Array, "layer res angle"], mask: Bool[Array, "layer res angle"]) -> Float[Array, ""]:
    weight = mask.astype(values.dtype)
    return (values * weight).sum() / (weight.sum() + 1e-10)
