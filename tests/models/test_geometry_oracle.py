"""Rotations, rigid groups, torsions, violations and FAPE equal the original AlphaFold 2's helpers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from af2_oracle import arrays, assert_close, cases
from af2_structure import twelve, violation_values

from elbowroom.models.alphafold.atoms import (
    atoms_of_frames,
    frames_of_torsions,
    pseudo_beta,
    rigid_groups,
    to_atom37,
    torsions,
)
from elbowroom.models.alphafold.confidence import lddt
from elbowroom.models.alphafold.embed import PREVIOUS_EDGES, distance_one_hot
from elbowroom.models.alphafold.fape import fape
from elbowroom.models.alphafold.geometry import (
    Rigid,
    apply,
    apply_inverse,
    compose,
    from_three_points,
    product,
    rotation_of,
    spread,
    unit,
)
from elbowroom.models.alphafold.structure import backbone_update
from elbowroom.models.alphafold.truth import renamed, truth_of
from elbowroom.models.alphafold.violations import distance_bounds, extreme_ca_distances, violations

CASES = pytest.mark.parametrize("case", cases("geometry.npz"), ids=lambda c: c.name)
ROWS = pytest.mark.parametrize("rows", [None, 4])


def inputs(case, file: str) -> dict[str, jax.Array]:
    return {k.removeprefix("inputs/"): jnp.asarray(v) for k, v in arrays(case, file).items() if k.startswith("inputs/")}


def outputs(case) -> dict[str, np.ndarray]:
    return {k.removeprefix("outputs/"): v for k, v in arrays(case, "geometry.npz").items() if k.startswith("outputs/")}


def atoms_of(features) -> tuple[jax.Array, jax.Array, jax.Array]:
    return features["aatype"], features["all_atom_positions"], features["all_atom_mask"] > 0


def existing(features) -> jax.Array:
    return features["atom14_atom_exists"] > 0


def moved(case) -> Rigid:
    given = inputs(case, "geometry.npz")
    return Rigid(rotation_of(unit(given["quaternion"])), given["translation"])


@CASES
def test_quaternions_equal_the_oracle(case):
    given = inputs(case, "geometry.npz")
    quaternion = unit(given["quaternion"])
    assert_close(case, "geometry", "quat/normalized", quaternion)
    assert_close(case, "geometry", "quat/rotation", rotation_of(quaternion))
    assert_close(case, "geometry", "quat/product", product(given["quaternion"], given["quaternion2"]))
    # The model never turns a rotation into a quaternion; the reference's answer leads back to the rotation.
    assert_close(case, "geometry", "quat/rotation", rotation_of(jnp.asarray(outputs(case)["quat/from_rotation"])))


@CASES
def test_rigid_motions_equal_the_oracle(case):
    frames, points = moved(case), inputs(case, "geometry.npz")["points"]
    assert_close(case, "geometry", "affine/apply", apply(spread(frames), points))
    assert_close(case, "geometry", "affine/invert", apply_inverse(spread(frames), points))
    three = (points[:, i] for i in range(3))
    assert_close(case, "geometry", "rigid/from_3_points", twelve(from_three_points(*three)))
    inverse = Rigid(frames.rotation.swapaxes(-1, -2), apply_inverse(frames, jnp.zeros_like(frames.translation)))
    assert_close(case, "geometry", "rigid/inverse", twelve(inverse))


@CASES
def test_the_backbone_update_and_composed_frames_equal_the_oracle(case):
    given, frames = inputs(case, "geometry.npz"), moved(case)
    quaternion, translation = backbone_update(frames, unit(given["quaternion"]), given["update"])
    assert_close(case, "geometry", "affine/pre_compose", jnp.concatenate([quaternion, translation], axis=-1))
    updated = Rigid(rotation_of(quaternion), translation)
    assert_close(case, "geometry", "rigid/product", twelve(compose(frames, updated)))


@CASES
def test_frames_of_rigid_groups_equal_the_oracle(case):
    groups, want = rigid_groups(*atoms_of(inputs(case, "features.npz"))), outputs(case)
    assert_close(case, "geometry", "frames/rigidgroups_gt_frames", twelve(groups.frames))
    assert_close(case, "geometry", "frames/rigidgroups_alt_gt_frames", twelve(groups.alternative))
    np.testing.assert_array_equal(groups.exists, want["frames/rigidgroups_gt_exists"])
    backbone = Rigid(groups.frames.rotation[:, 0], groups.frames.translation[:, 0])
    assert_close(case, "geometry", "backbone/rotation", backbone.rotation)
    assert_close(case, "geometry", "backbone/translation", backbone.translation)


@CASES
def test_torsion_angles_equal_the_oracle(case):
    angles, want = torsions(*atoms_of(inputs(case, "features.npz"))), outputs(case)
    np.testing.assert_array_equal(angles.exists, want["torsions/torsion_angles_mask"])
    undefined = jnp.array([1.0, 0.0])[None, None]  # as the reference has them
    for name, got in (("torsion", angles.sin_cos), ("alt_torsion", angles.alternative)):
        filled = jnp.where(angles.exists[..., None], got, undefined)
        assert_close(case, "geometry", f"torsions/{name}_angles_sin_cos", filled)


@CASES
def test_atoms_rebuilt_from_torsions_equal_the_oracle(case):
    aatype, want = inputs(case, "features.npz")["aatype"], outputs(case)
    backbone = Rigid(jnp.asarray(want["backbone/rotation"]), jnp.asarray(want["backbone/translation"]))
    frames = frames_of_torsions(aatype, backbone, jnp.asarray(want["torsions/torsion_angles_sin_cos"]))
    atom14 = atoms_of_frames(aatype, frames)
    assert_close(case, "geometry", "rebuilt/frames", twelve(frames))
    assert_close(case, "geometry", "rebuilt/atom14", atom14)
    assert_close(case, "geometry", "rebuilt/atom37", to_atom37(aatype, atom14))


@CASES
def test_pseudo_beta_and_its_distances_equal_the_oracle(case):
    aatype, positions, _ = atoms_of(inputs(case, "features.npz"))
    beta = pseudo_beta(aatype, positions)
    assert_close(case, "geometry", "pseudo_beta", beta)
    bins = outputs(case)["pseudo_beta_dgram"]
    np.testing.assert_array_equal(distance_one_hot(beta, beta, bins.shape[-1], *PREVIOUS_EDGES), bins)


@ROWS
@CASES
def test_ambiguous_atoms_are_renamed_as_in_the_oracle(case, rows):
    truth = truth_of(inputs(case, "features.npz"))
    named = renamed(truth, inputs(case, "geometry.npz")["moved_atom14"], rows=rows)
    assert_close(case, "geometry", "renaming/renamed_atom14_gt_positions", named.atom14)
    np.testing.assert_array_equal(named.known14, outputs(case)["renaming/renamed_atom14_gt_exists"])


@CASES
def test_distance_bounds_within_residues_equal_the_oracle(case):
    aatype = np.asarray(inputs(case, "features.npz")["aatype"])
    for name, bound in zip(("lower", "upper"), distance_bounds(), strict=True):
        assert_close(case, "geometry", f"atom14_{name}_bound", jnp.asarray(bound[aatype]))


@ROWS
@CASES
def test_violations_equal_the_oracle(case, rows):
    features, atom14 = inputs(case, "features.npz"), inputs(case, "geometry.npz")["moved_atom14"]
    exists = existing(features)
    found = violations(features["aatype"], features["residue_index"], atom14, exists, rows=rows)
    for name, value in violation_values(found).items():
        assert_close(case, "geometry", f"violations/{name}", value)
    extreme = extreme_ca_distances(features["residue_index"], atom14, exists)
    assert_close(case, "geometry", "violations/extreme_ca_ca", extreme)


@ROWS
@pytest.mark.parametrize(("name", "clamped"), [("clamped", 1.0), ("unclamped", 0.0)])
@CASES
def test_frame_aligned_point_error_and_its_gradient_equal_the_oracle(case, name, clamped, rows):
    truth, frames = truth_of(inputs(case, "features.npz")), moved(case)
    true_frames, known_frames = truth.backbone()
    true, known = truth.atom14.reshape(-1, 3), truth.known14.reshape(-1)

    def loss(atom14):
        points = atom14.reshape(-1, 3)
        return fape(frames, points, true_frames, true, known_frames, known, clamped=clamped, rows=rows)

    value, gradient = jax.value_and_grad(loss)(inputs(case, "geometry.npz")["moved_atom14"])
    assert_close(case, "geometry", f"fape/{name}", value)
    assert_close(case, "geometry", f"fape/{name}/grad_moved_atom14", gradient)


@ROWS
@CASES
def test_lddt_equals_the_oracle(case, rows):
    given = inputs(case, "geometry.npz")
    known = given["lddt_mask"][0, :, 0] > 0
    score = lddt(given["lddt_predicted"][0], given["lddt_true"][0], known, rows=rows)
    assert_close(case, "geometry", "lddt/per_residue", score[None])
