"""Structure module, templates, heads and the whole model reproduce the original AlphaFold 2, gradients included."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from af2_oracle import arrays, assert_close, cases, config, load, parameter, shapes
from af2_structure import compare_at, compare_structure
from flax import nnx

from elbowroom.memory.plan import Chunk, Plan, Recompute
from elbowroom.models.alphafold.atoms import pseudo_beta
from elbowroom.models.alphafold.confidence import lddt
from elbowroom.models.alphafold.embed import Previous, pair_mask
from elbowroom.models.alphafold.geometry import Rigid, rotation_of, unit
from elbowroom.models.alphafold.losses import FINE_TUNING, losses_of, total_of
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.models.alphafold.residues import CA
from elbowroom.models.alphafold.structure import StructureModule
from elbowroom.models.alphafold.structure_loss import structure_loss
from elbowroom.models.alphafold.template import TemplateEmbedding
from elbowroom.models.alphafold.truth import truth_of
from elbowroom.models.alphafold.weights import load_published, published_names

ALL = Plan(recompute=Recompute(blocks=True, modules=True), chunk=Chunk(rows=4, queries=5, keys=3))
# A plan's programs are compiled once for all its tests, which run in one process.
PLANS = pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(), id="plain", marks=pytest.mark.xdist_group("plain")),
        pytest.param(ALL, id="every exact technique", marks=pytest.mark.xdist_group("every exact technique")),
    ],
)
OFFICIAL = {"structure": "structure_module", "aligned_error": "predicted_aligned_error"}
"""Losses that the reference calls otherwise"""


def inputs(case, file: str) -> dict[str, jax.Array]:
    return {k.removeprefix("inputs/"): jnp.asarray(v) for k, v in arrays(case, file).items() if k.startswith("inputs/")}


def of_residues(case, file: str, name: str, got: jax.Array, axis: int = 0) -> None:
    """Compare where there is a residue: in the structure module's arrays, padding holds noise."""
    there = np.flatnonzero(np.asarray(inputs(case, "features.npz")["seq_mask"]) > 0)
    compare_at(case, file, name, got, there, axis)


@PLANS
@pytest.mark.parametrize("case", cases("structure.npz"), ids=lambda c: c.name)
def test_invariant_point_attention_and_its_gradients_equal_the_oracle(case, plan):
    given, mask = inputs(case, "structure.npz"), inputs(case, "features.npz")["seq_mask"] > 0
    module = nnx.eval_shape(lambda: StructureModule(config(case), rngs=nnx.Rngs(0)))
    load(module, case, "structure_module")

    @jax.jit
    def run(act, pair, affine):
        def attention(act, pair, affine):
            frames = Rigid(rotation_of(unit(affine[:, :4])), affine[:, 4:])
            return module.fold_iteration.invariant_point_attention(act, pair, frames, mask, plan)

        update, pullback = jax.vjp(attention, act, pair, affine)
        return update, pullback(given["cotangent_act"])

    update, (to_act, to_pair, to_affine) = run(given["act"], given["pair"], given["affine"])
    of_residues(case, "structure", "ipa", update)
    of_residues(case, "structure", "ipa/grad_act", to_act)
    assert_close(case, "structure", "ipa/grad_pair", to_pair[..., ::4])
    of_residues(case, "structure", "ipa/grad_affine", to_affine)


@PLANS
@pytest.mark.parametrize("case", cases("structure.npz"), ids=lambda c: c.name)
def test_the_structure_module_and_its_losses_equal_the_oracle(case, plan):
    given, features = inputs(case, "structure.npz"), inputs(case, "features.npz")
    module = nnx.eval_shape(lambda: StructureModule(config(case), rngs=nnx.Rngs(0)))
    load(module, case, "structure_module")
    aatype, mask, truth = features["aatype"], features["seq_mask"] > 0, truth_of(features)

    @jax.jit
    def run(single, pair):
        def loss(single, pair):
            structure = module(single, pair, aatype, mask, None, plan)
            total, parts = structure_loss(structure, truth, features, plan, violation_weight=1.0)
            return total, (structure, parts)

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(single, pair)

    (total, (structure, parts)), (to_single, to_pair) = run(given["single"], given["pair"])
    of_residues(case, "structure", "act", structure.act)
    compare_structure(case, "structure", "", structure, truth, features, rows=plan.chunk.rows)
    names = {"fape": "fape", "sidechain_fape": "sidechain_fape", "chi": "chi_loss", "angle_norm": "angle_norm_loss"}
    for name, official in names.items():
        assert_close(case, "structure", official, parts[name])
    assert_close(case, "structure", "loss", total)
    assert_close(case, "structure", "loss/grad_single", to_single)
    assert_close(case, "structure", "loss/grad_pair", to_pair[..., ::4])


@PLANS
@pytest.mark.parametrize("case", cases("template.npz"), ids=lambda c: c.name)
def test_the_template_embedding_and_its_gradient_equal_the_oracle(case, plan):
    given, features = inputs(case, "template.npz"), inputs(case, "features.npz")
    module = nnx.eval_shape(lambda: TemplateEmbedding(config(case), rngs=nnx.Rngs(0)))
    load(module, case, "evoformer/template_embedding")
    together = pair_mask(features["seq_mask"] > 0)

    @jax.jit
    def run(pair, there):
        def embedding(pair):
            return module(pair, {**features, "template_mask": there}, together, None, plan)

        update, pullback = jax.vjp(embedding, pair)
        return update, pullback(given["cotangent_pair"])[0]

    there = features["template_mask"]
    update, gradient = run(given["pair_act"], there)
    assert_close(case, "template", "embedding/as_given", update)
    assert_close(case, "template", "embedding/as_given/grad_pair", gradient[..., ::4])
    first = (jnp.arange(len(there)) == 0).astype(there.dtype)
    for name, mask in {"first_off": there * (1 - first), "all_off": 0 * there, "first_only": there * first}.items():
        assert_close(case, "template", f"embedding/{name}", run(given["pair_act"], mask)[0])


@PLANS
@pytest.mark.parametrize("case", cases("template.npz"), ids=lambda c: c.name)
def test_the_pair_representation_of_each_template_equals_the_oracle(case, plan):
    features = inputs(case, "features.npz")
    module = nnx.eval_shape(lambda: TemplateEmbedding(config(case), rngs=nnx.Rngs(0)))
    load(module, case, "evoformer/template_embedding")
    names = ("aatype", "all_atom_masks", "pseudo_beta", "pseudo_beta_mask")
    each = {name: features[f"template_{name}"] for name in names}
    together = pair_mask(features["seq_mask"] > 0)

    @jax.jit
    def run(each):
        return jax.lax.map(lambda one: module.single_template_embedding(one, together, None, plan), each)

    assert_close(case, "template", "template_pair", run(each))


@cache
def model_of(case) -> tuple:
    """The whole model with the reference's parameters, split into what it is and what it learns."""
    model = nnx.eval_shape(lambda: AlphaFold(config(case), rngs=nnx.Rngs(0)))
    load_published(model, {name: parameter(name, shape) for name, shape in shapes(case).items()})
    return nnx.split(model, nnx.Param)


@cache
def run_of(case, plan: Plan):
    """A compiled pass over the case: prediction, losses, and the gradient of the weighted sum."""
    graph, _ = model_of(case)

    @jax.jit
    def run(parameters, features, previous):
        def loss(parameters):
            model = nnx.merge(graph, parameters)
            prediction = model(features, None, plan, previous)
            losses, _ = losses_of(model, prediction, features, plan, FINE_TUNING)
            return total_of(losses, FINE_TUNING), (prediction, losses)

        return jax.value_and_grad(loss, has_aux=True)(parameters)

    return run


def second_pass(case) -> Previous:
    found = {k.removeprefix("outputs/recycle0/"): jnp.asarray(v) for k, v in arrays(case, "model.npz").items()}
    beta = pseudo_beta(inputs(case, "features.npz")["aatype"], found["final_atom_positions"])
    return Previous(beta, found["representations/msa_first_row"], found["representations/pair"])


def no_pass(case) -> Previous:
    return jax.tree.map(jnp.zeros_like, second_pass(case))


@PLANS
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("case", cases("model.npz"), ids=lambda c: c.name)
def test_both_passes_of_the_whole_model_equal_the_oracle(case, plan, number):
    previous = second_pass(case) if number else no_pass(case)
    (_, (prediction, _)), _ = run_of(case, plan)(model_of(case)[1], inputs(case, "features.npz"), previous)
    for name in ("msa", "pair", "single"):
        assert_close(case, "model", f"recycle{number}/representations/{name}", getattr(prediction.trunk, name))
    of_residues(case, "model", f"recycle{number}/representations/structure_module", prediction.structure.act)
    of_residues(case, "model", f"recycle{number}/representations/msa_first_row", prediction.trunk.msa[0])
    if number == 0:
        of_residues(case, "model", "recycle0/final_atom_positions", prediction.structure.atom37)


@PLANS
@pytest.mark.parametrize("case", cases("model.npz"), ids=lambda c: c.name)
def test_the_structure_of_the_whole_model_equals_the_oracle(case, plan):
    features = inputs(case, "features.npz")
    (_, (prediction, _)), _ = run_of(case, plan)(model_of(case)[1], features, second_pass(case))
    structure, truth, rows = prediction.structure, truth_of(features), plan.chunk.rows
    compare_structure(case, "model", "recycle1/structure_module/", structure, truth, features, rows=rows)
    positions = (structure.atom37[:, CA], truth.atom37[:, CA], truth.known37[:, CA])
    of_residues(case, "model", "recycle1/lddt_ca", lddt(*positions, rows=rows))


@PLANS
@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("recycle1", {}),
        ("recycle1_low_resolution", {"resolution": 0.0}),
        ("recycle1_unclamped_fape", {"use_clamped_fape": 0.0}),
    ],
)
@pytest.mark.parametrize("case", cases("model.npz"), ids=lambda c: c.name)
def test_every_loss_equals_the_oracle(case, variant, changes, plan):
    features = {**inputs(case, "features.npz"), **{name: jnp.float32(value) for name, value in changes.items()}}
    (total, (_, losses)), _ = run_of(case, plan)(model_of(case)[1], features, second_pass(case))
    for name, value in losses.items():
        assert_close(case, "model", f"{variant}/loss/{OFFICIAL.get(name, name)}", value)
    assert_close(case, "model", f"{variant}/loss/total", total)


@PLANS
@pytest.mark.parametrize("case", cases("model.npz"), ids=lambda c: c.name)
def test_the_gradient_of_every_parameter_equals_the_oracle(case, plan):
    graph, parameters = model_of(case)
    _, gradient = run_of(case, plan)(parameters, inputs(case, "features.npz"), second_pass(case))
    names = published_names(nnx.merge(graph, gradient))
    by_name = dict(zip(names, (leaf.get_value() for _, leaf in nnx.to_flat_state(gradient)), strict=True))
    norms = jnp.stack([jnp.linalg.norm(by_name[name].ravel()) for name in shapes(case)])
    assert_close(case, "model", "grad_norms", norms)
    whole = [k.removeprefix("outputs/grad/") for k in arrays(case, "model.npz") if k.startswith("outputs/grad/")]
    for name in whole:
        assert_close(case, "model", f"grad/{name}", by_name[name])


@pytest.mark.parametrize("case", cases("model.npz"), ids=lambda c: c.name)
def test_logits_of_the_confidence_heads_equal_the_oracle(case):
    graph, parameters = model_of(case)
    model = nnx.merge(graph, parameters)
    out = {k.removeprefix("outputs/recycle1/"): jnp.asarray(v) for k, v in arrays(case, "model.npz").items()}
    of_residues(
        case,
        "model",
        "recycle1/predicted_lddt/logits",
        model.predicted_lddt_head(out["representations/structure_module"]),
    )
    single = model.experimentally_resolved_head(out["representations/single"])
    assert_close(case, "model", "recycle1/experimentally_resolved/logits", single)
    if model.config.aligned_error:
        pair = model.predicted_aligned_error_head(out["representations/pair"])
        assert_close(case, "model", "recycle1/predicted_aligned_error/logits", pair)
        centres = model.predicted_aligned_error_head.centres()
        half = (centres[1] - centres[0]) / 2
        assert_close(case, "model", "recycle1/predicted_aligned_error/breaks", centres[:-1] - half)
