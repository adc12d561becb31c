"""What must hold of structure module and losses for any input: invariances, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tiny_alphafold import RES, example, graph_and_arrays, recycled

from elbowroom.memory.plan import Plan, Precision
from elbowroom.models.alphafold.fape import fape
from elbowroom.models.alphafold.geometry import Rigid, apply, compose, rotation_of, spread, unit
from elbowroom.models.alphafold.recycle import recycle
from elbowroom.models.alphafold.residues import ATOM14_PLACE, ATOM37, RESIDUES
from elbowroom.models.alphafold.violations import Connections, PerAtom, Violations

DOUBLE = Plan(precision=Precision(compute="float64"))


def frames(seed: int, count: int = RES) -> Rigid:
    rng = np.random.default_rng(seed)
    return Rigid(
        rotation_of(unit(jnp.asarray(rng.standard_normal((count, 4))))), 9 * jnp.asarray(rng.random((count, 3)))
    )


def everywhere(motion: Rigid) -> Rigid:
    """One motion for all."""
    return Rigid(motion.rotation[:1], motion.translation[:1])


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def error_of(own: Rigid, points, clamped: float = 0.5):
    true, true_points = frames(1), frames(2).translation
    known = jnp.arange(RES) % 4 != 0
    return fape(own, points, true, true_points, known, known, clamped=clamped, rows=None)


def test_fape_is_unchanged_when_the_prediction_moves_as_a_whole():
    own, points, motion = frames(3), frames(4).translation, everywhere(frames(5))
    moved = error_of(compose(motion, own), apply(spread(motion), points[None])[0])
    assert float(moved) == pytest.approx(float(error_of(own, points)), rel=1e-10)


def test_fape_tells_a_structure_from_its_mirror_image():
    """Frames of a mirror image are those its own atoms define: rotations, with their third axis turned back."""
    true, points, mirror = frames(1), frames(2).translation, jnp.array([[1.0, 1.0, -1.0]])
    reflected = Rigid(mirror[..., None] * true.rotation * mirror[:, None], true.translation * mirror)
    assert float(jnp.linalg.det(reflected.rotation)[0]) == pytest.approx(1.0)
    same, other = error_of(true, points), error_of(reflected, points * mirror)
    assert float(same) < 0.01
    assert float(other) > 0.1


def test_invariant_point_attention_is_unchanged_by_a_motion_of_all_frames():
    graph, arrays = graph_and_arrays()
    module = nnx.merge(graph, jax.tree.map(lambda x: jnp.asarray(x, "float64"), arrays)).structure_module
    attention = module.fold_iteration.invariant_point_attention
    rng = np.random.default_rng(0)
    act = jnp.asarray(rng.standard_normal((RES, module.single_layer_norm.scale.shape[0])))
    pair = jnp.asarray(rng.standard_normal((RES, RES, module.pair_layer_norm.scale.shape[0])))
    mask, own = jnp.arange(RES) < RES - 2, frames(6)
    want = attention(act, pair, own, mask, DOUBLE)
    got = attention(act, pair, compose(everywhere(frames(7)), own), mask, DOUBLE)
    assert float(jnp.abs(want).max()) > 0.1
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10 * float(jnp.abs(want).max()))


def test_recycling_equals_passes_written_one_after_the_other():
    graph, arrays = graph_and_arrays()
    parameters, features = jax.tree.map(lambda x: jnp.asarray(x, "float64"), arrays), example("float64")

    @jax.jit
    def once(parameters, previous):
        return nnx.merge(graph, parameters)(features, None, DOUBLE, previous).recycled(features)

    @jax.jit
    def recycled_by(parameters, passes):
        return recycle(nnx.merge(graph, parameters), features, None, DOUBLE, passes)

    none = recycled_by(parameters, 0)
    assert not any(array.any() for array in none)
    for got, want in zip(recycled_by(parameters, 2), once(parameters, once(parameters, none)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_each_earlier_pass_reads_the_rows_drawn_for_it():
    graph, arrays = graph_and_arrays()
    parameters, features = jax.tree.map(lambda x: jnp.asarray(x, "float64"), arrays), example("float64")
    drawn = [features["msa_feat"] * factor for factor in (0.5, 2.0, jnp.nan)]  # the third is for a pass not taken

    @jax.jit
    def once(parameters, msa, previous):
        read = {**features, "msa_feat": msa}
        return nnx.merge(graph, parameters)(read, None, DOUBLE, previous).recycled(features)

    @jax.jit
    def recycled_by(parameters, passes):
        several = {**features, "earlier_msa_feat": jnp.stack(drawn)}
        return recycle(nnx.merge(graph, parameters), several, None, DOUBLE, passes)

    first = once(parameters, drawn[0], recycled_by(parameters, 0))
    for got, want in zip(recycled_by(parameters, 2), once(parameters, drawn[1], first), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_no_gradient_flows_through_earlier_passes():
    graph, arrays = graph_and_arrays()
    doubled = jax.tree.map(lambda x: jnp.asarray(x, "float64"), arrays)

    def size(parameters):
        found = recycle(nnx.merge(graph, parameters), example("float64"), None, DOUBLE, 1)
        return sum(jnp.square(array).sum() for array in found)

    value, gradient = jax.jit(jax.value_and_grad(size))(doubled)
    assert value > 0
    assert not any(leaf.any() for leaf in jax.tree.leaves(gradient))
    assert recycled("float64")[0].any()


def test_atoms_of_a_rigid_group_are_as_far_apart_as_their_bonds_are_long():
    """The two published tables agree: places of atoms in their groups, and bond lengths, within 6 deviations."""
    groups = {}
    for row, (name, residue) in enumerate(RESIDUES.items()):
        atoms = list(residue["atoms"])
        for pair, (length, deviation) in residue["bonds"].items():
            one, other = pair.split("-")
            if residue["atoms"][one][0] == residue["atoms"][other][0]:
                apart = np.linalg.norm(ATOM14_PLACE[row, atoms.index(one)] - ATOM14_PLACE[row, atoms.index(other)])
                groups[name, pair] = abs(apart - length) / deviation
    assert len(groups) > 60
    assert max(groups.values()) < 6, max(groups, key=groups.__getitem__)


def test_both_folders_name_the_37_atoms_alike():
    from elbowroom.datasets.proteins.atoms import ATOM37 as READ

    assert ATOM37 == READ


@pytest.mark.parametrize("kind", ["connection", "clash", "within"])
def test_a_residue_with_any_kind_of_violation_is_counted(kind):
    one, none, zero = jnp.zeros((3, 14), bool).at[1, 4].set(True), jnp.zeros((3, 14), bool), jnp.zeros(())
    broken = {name: one if name == kind else none for name in ("connection", "clash", "within")}
    found = Violations(
        Connections(zero, zero, zero, jnp.zeros(3), broken["connection"].any(-1)),
        PerAtom(jnp.zeros((3, 14)), broken["clash"]),
        zero,
        PerAtom(jnp.zeros((3, 14)), broken["within"]),
    )
    np.testing.assert_array_equal(found.per_residue(), [False, True, False])
