"""What the reference stores of a structure module, computed from our prediction: by its names, below any prefix."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from af2_oracle import arrays, assert_close
from jaxtyping import Array

from elbowroom.models.alphafold import residues as table
from elbowroom.models.alphafold.atoms import atoms_of_frames, frames_of_torsions, of_residue
from elbowroom.models.alphafold.geometry import Rigid, rotation_of
from elbowroom.models.alphafold.structure import Structure
from elbowroom.models.alphafold.truth import Truth, renamed
from elbowroom.models.alphafold.violations import Violations, extreme_ca_distances, violations

Values = dict[str, Array]


def twelve(frames: Rigid) -> jax.Array:
    """A frame as the reference stores it: its rotation by rows, then its translation."""
    return jnp.concatenate([frames.rotation.reshape(*frames.rotation.shape[:-2], 9), frames.translation], axis=-1)


def compare_structure(
    case: Path, file: str, prefix: str, structure: Structure, truth: Truth, features: Values, *, rows: int | None
) -> None:
    """Everything but losses and activations against `outputs/prefix...` of a file; padding holds noise there."""
    there = np.flatnonzero(np.asarray(features["seq_mask"]) > 0)
    of_layers, of_residues = values_of(structure, truth, features, rows=rows)
    for values, axis in ((of_layers, 1), (of_residues, 0)):
        for name, got in values.items():
            compare_at(case, file, prefix + name, got, there, axis)


@partial(jax.jit, static_argnames="rows")
def values_of(structure: Structure, truth: Truth, features: Values, *, rows: int | None) -> tuple[Values, Values]:
    """What has an axis of iterations before that of residues, and what has none."""
    exists = of_residue(jnp.asarray(table.ATOM14_EXISTS), truth.aatype) & (features["seq_mask"] > 0)[:, None]
    wrong = violations(truth.aatype, features["residue_index"], structure.atom14, exists, rows=rows)
    extreme = extreme_ca_distances(features["residue_index"], structure.atom14, exists)
    metrics = violation_metrics(wrong, extreme, features["seq_mask"])
    return layers_of(structure, truth.aatype), {
        **final_of(structure),
        **renaming_of(structure, truth, rows=rows),
        **{f"violations/{name}": value for name, value in violation_values(wrong).items()},
        **{f"metrics/violations_{name}": value for name, value in metrics.items()},
    }


def compare_at(case: Path, file: str, name: str, got: Array, there: np.ndarray, axis: int = 0) -> None:
    """At the residues `there` of an axis only; a number has no residues."""
    got = jnp.asarray(got)
    if got.ndim:
        want = jnp.asarray(arrays(case, f"{file}.npz")[f"outputs/{name}"])
        got = want.at[(slice(None),) * axis + (there,)].set(jnp.take(got, there, axis).astype(want.dtype))
    assert_close(case, file, name, got)


def layers_of(structure: Structure, aatype: Array) -> Values:
    """After every iteration."""

    def one(quaternion: Array, translation: Array, sin_cos: Array) -> tuple[Array, Array]:
        frames = frames_of_torsions(aatype, Rigid(rotation_of(quaternion), translation), sin_cos)
        return twelve(frames), atoms_of_frames(aatype, frames)

    frames, atom14 = jax.vmap(one)(structure.quaternions, structure.translations, structure.angles.sin_cos)
    return {
        "traj": jnp.concatenate([structure.quaternions, structure.translations], axis=-1),
        "sidechains/frames": frames,
        "sidechains/atom14_positions": atom14,
        "sidechains/angles_sin_cos": structure.angles.sin_cos,
        "sidechains/unnormalized_angles_sin_cos": structure.angles.raw,
    }


def final_of(structure: Structure) -> Values:
    return {
        "final_affines": jnp.concatenate([structure.quaternions[-1], structure.translations[-1]], axis=-1),
        "final_atom14_positions": structure.atom14,
        "final_atom_positions": structure.atom37,
    }


def renaming_of(structure: Structure, truth: Truth, *, rows: int | None) -> Values:
    named = renamed(truth, structure.atom14, rows=rows)
    return {"renamed_atom14_gt_positions": named.atom14, "renamed_atom14_gt_exists": named.known14}


def violation_values(found: Violations) -> Values:
    between, within = "between_residues", "within_residues"
    return {
        f"{between}/bonds_c_n_loss_mean": found.connections.bond,
        f"{between}/angles_ca_c_n_loss_mean": found.connections.angle_ca_c_n,
        f"{between}/angles_c_n_ca_loss_mean": found.connections.angle_c_n_ca,
        f"{between}/connections_per_residue_loss_sum": found.connections.per_residue,
        f"{between}/connections_per_residue_violation_mask": found.connections.violated,
        f"{between}/clashes_mean_loss": found.clash_mean,
        f"{between}/clashes_per_atom_loss_sum": found.clashes.loss,
        f"{between}/clashes_per_atom_clash_mask": found.clashes.violated,
        f"{within}/per_atom_loss_sum": found.within.loss,
        f"{within}/per_atom_violations": found.within.violated,
        "total_per_residue_violations_mask": found.per_residue(),
    }


def violation_metrics(found: Violations, extreme: Array, seq_mask: Array) -> Values:
    """Shares of the residues."""

    def share(residues: Array) -> Array:
        return (residues.astype(seq_mask.dtype) * seq_mask).sum() / seq_mask.sum()

    return {
        "extreme_ca_ca_distance": extreme,
        "between_residue_bond": share(found.connections.violated),
        "between_residue_clash": share(found.clashes.violated.any(-1)),
        "within_residue": share(found.within.violated.any(-1)),
        "per_residue": share(found.per_residue()),
    }
