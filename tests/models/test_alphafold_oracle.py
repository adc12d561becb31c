"""The trunk's parts reproduce the original AlphaFold 2: values and gradients of blocks, modules, heads and losses."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from af2_oracle import arrays, assert_close, cases, config, load, parameter, shapes
from flax import nnx

from elbowroom.memory.plan import Chunk, Plan, Recompute
from elbowroom.models.alphafold.config import monomer
from elbowroom.models.alphafold.evoformer import EvoformerBlock
from elbowroom.models.alphafold.heads import DistogramHead, MaskedMSAHead
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.models.alphafold.weights import PREFIX, load_published, published_names
from elbowroom.models.published import WeightsError

PLANS = {
    "plain": Plan(),
    "every exact technique": Plan(
        recompute=Recompute(blocks=True, modules=True), chunk=Chunk(rows=4, queries=5, keys=3)
    ),
}
BLOCKS = {"evoformer": "evoformer_iteration", "extra_msa": "extra_msa_stack"}


def block_of(case, file: str):
    """Block 0 with the reference's parameters, its inputs, and the cotangents of its two outputs."""
    module = nnx.eval_shape(lambda: EvoformerBlock(config(case), extra=file == "extra_msa", rngs=nnx.Rngs(0)))
    load(module, case, f"evoformer/{BLOCKS[file]}", layer=0)
    stored = {
        k.removeprefix("inputs/"): jnp.asarray(v) for k, v in arrays(case, f"{file}.npz").items() if "inputs/" in k
    }
    return module, stored


def thinned(array):
    """The reference keeps every fourth channel of its larger arrays."""
    return array[..., ::4]


@pytest.mark.parametrize("file", BLOCKS)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("case", cases("evoformer.npz"), ids=lambda c: c.name)
def test_a_whole_block_and_its_gradients_equal_the_oracle(case, plan, file):
    module, stored = block_of(case, file)
    masks = stored["msa_mask"] > 0, stored["pair_mask"] > 0

    @jax.jit
    def run(msa, pair):
        out, pullback = jax.vjp(lambda m, p: module(m, p, *masks, None, plan), msa, pair)
        return out, pullback((stored["cotangent_msa"], stored["cotangent_pair"]))

    (msa, pair), (to_msa, to_pair) = run(stored["msa_act"], stored["pair_act"])
    assert_close(case, file, "block/msa", msa)
    assert_close(case, file, "block/pair", pair)
    assert_close(case, file, "block/grad_msa", thinned(to_msa))
    assert_close(case, file, "block/grad_pair", thinned(to_pair))


def inputs_of(label: str) -> tuple[str, ...]:
    """Which of the stored arrays a module reads, in the order of its arguments."""
    if label == "msa_row_attention_with_pair_bias":
        return "msa_act", "pair_act", "msa_mask"
    if label == "pair_transition":
        return ("pair_act",)
    if label == "msa_transition":
        return ("msa_act",)
    return ("pair_act", "pair_mask") if label.startswith("triangle") else ("msa_act", "msa_mask")


def modules() -> list:
    found = []
    for file in BLOCKS:
        for case in cases(f"{file}.npz"):
            names = [n.removeprefix("outputs/") for n in arrays(case, f"{file}.npz") if n.startswith("outputs/")]
            found += [(case, file, n) for n in names if "/" not in n]
    return found


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize(("case", "file", "label"), modules(), ids=lambda v: getattr(v, "name", v))
def test_every_module_and_its_gradients_equal_the_oracle(case, file, label, plan):
    block, stored = block_of(case, file)
    module, names = getattr(block, label), inputs_of(label)
    values = [stored[n] > 0 if n.endswith("mask") else stored[n] for n in names]
    active = [i for i, n in enumerate(names) if n.endswith("act")]

    @jax.jit
    def run(*acts):
        def of_acts(*acts):
            filled = dict(zip(active, acts, strict=True))
            return module(*[filled.get(i, v) for i, v in enumerate(values)], plan)

        update, pullback = jax.vjp(of_acts, *acts)
        pairwise = update.shape == stored["cotangent_pair"].shape
        return update, pullback(stored["cotangent_pair" if pairwise else "cotangent_msa"])

    update, gradients = run(*[values[i] for i in active])
    assert_close(case, file, label, update)
    for i, gradient in zip(active, gradients, strict=True):
        assert_close(case, file, f"{label}/grad_{names[i].removesuffix('_act')}", thinned(gradient))


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("case", cases("model.npz"), ids=lambda c: c.name)
def test_heads_and_their_losses_equal_the_oracle(case, plan):
    features = {k.removeprefix("inputs/"): jnp.asarray(v) for k, v in arrays(case, "features.npz").items()}
    out = {k.removeprefix("outputs/"): jnp.asarray(v) for k, v in arrays(case, "model.npz").items()}
    msa, pair = out["recycle1/representations/msa"], out["recycle1/representations/pair"]
    masked_msa = MaskedMSAHead(config(case), rngs=nnx.Rngs(0))
    distogram = DistogramHead(config(case), rngs=nnx.Rngs(0))
    load(masked_msa, case, "masked_msa_head")
    load(distogram, case, "distogram_head")
    assert_close(case, "model", "recycle1/masked_msa/logits", masked_msa(msa))
    assert_close(case, "model", "recycle1/masked_msa/loss", masked_msa.loss(msa, features, plan))
    assert_close(case, "model", "recycle1/distogram/logits", distogram(pair, pair.swapaxes(0, 1)))
    assert_close(case, "model", "recycle1/distogram/loss", distogram.loss(pair, features, plan))


@pytest.mark.parametrize("case", cases("model.npz"), ids=lambda c: c.name)
def test_the_single_representation_is_read_from_the_first_row_as_in_the_oracle(case):
    single = nnx.eval_shape(lambda: AlphaFold(config(case), rngs=nnx.Rngs(0))).evoformer.single_activations
    load(single, case, "evoformer/single_activations")
    first = jnp.asarray(arrays(case, "model.npz")["outputs/recycle1/representations/msa"][0])
    assert_close(case, "model", "recycle1/representations/single", single(first))


@pytest.mark.parametrize("case", cases("model.npz"), ids=lambda c: c.name)
def test_parameter_names_and_shapes_equal_the_oracle(case):
    model = nnx.eval_shape(lambda: AlphaFold(config(case), rngs=nnx.Rngs(0)))
    assert published_names(model) == shapes(case)


@pytest.mark.parametrize("number", [1, 3])
def test_the_monomer_has_the_published_names_and_shapes_of_the_oracle_at_true_size(number):
    model = nnx.eval_shape(lambda: AlphaFold(monomer(f"model_{number}"), rngs=nnx.Rngs(0)))
    own = Path(__file__).parents[1] / "oracles" / "af2" / f"params_model_{number}.json"
    assert published_names(model) == {k: tuple(v) for k, v in json.loads(own.read_text())["params"].items()}


def test_parameters_that_do_not_fit_are_all_named():
    case = cases("model.npz")[0]
    head = DistogramHead(config(case), rngs=nnx.Rngs(0))
    prefix = f"{PREFIX}/distogram_head"
    with pytest.raises(
        WeightsError, match=r"missing .*bias\n.*not part of the model: other\n.*weights has shape \(3,\)"
    ):
        load_published(head, {"other": np.zeros(1), f"{prefix}/half_logits//weights": np.zeros(3)}, prefix)


def test_the_rule_for_parameters_reproduces_the_oracles_first_values():
    case = cases("params.json")[0]
    for name, first in json.loads((case / "params.json").read_text())["first_values"].items():
        np.testing.assert_allclose(np.ravel(parameter(name, shapes(case)[name]))[: np.size(first)], first, rtol=1e-6)
