"""A tiny AlphaFold with random parameters everywhere, and one ragged example: shared by tests of plans."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from elbowroom.memory.plan import Plan
from elbowroom.models.alphafold.config import tiny
from elbowroom.models.alphafold.embed import Previous
from elbowroom.models.alphafold.losses import FINE_TUNING, alphafold_loss
from elbowroom.models.alphafold.model import AlphaFold

RES, SEQ, EXTRA, TEMPLATES = 11, 5, 7, 2


def example(dtype: str = "float32") -> dict[str, jax.Array]:
    """Features with padding at the end, holes in the alignment, and unresolved residues; no mask is symmetric."""
    rng = np.random.default_rng(7)
    seq_mask = (np.arange(RES) < RES - 2).astype(float)
    masks = {
        "seq_mask": seq_mask,
        "msa_mask": (rng.random((SEQ, RES)) > 0.3) * seq_mask,
        "extra_msa_mask": (rng.random((EXTRA, RES)) > 0.3) * seq_mask,
        "bert_mask": (rng.random((SEQ, RES)) > 0.6) * seq_mask,
        "pseudo_beta_mask": (rng.random(RES) > 0.2) * seq_mask,
        "all_atom_mask": (rng.random((RES, 37)) > 0.1) * seq_mask[:, None],
        "template_all_atom_masks": (rng.random((TEMPLATES, RES, 37)) > 0.1) * seq_mask[None, :, None],
        "template_pseudo_beta_mask": (rng.random((TEMPLATES, RES)) > 0.2) * seq_mask,
    }
    masks["msa_mask"][1] = 0  # a padded sequence: every key of its row attention is masked
    masks["extra_msa_mask"][-1] = 0
    floats = {
        "target_feat": rng.random((RES, 22)),
        "msa_feat": rng.random((SEQ, RES, 49)),
        "extra_has_deletion": rng.random((EXTRA, RES)),
        "extra_deletion_value": rng.random((EXTRA, RES)),
        "pseudo_beta": 8 * rng.standard_normal((RES, 3)),
        "all_atom_positions": 8 * rng.standard_normal((RES, 37, 3)),
        "template_all_atom_positions": 8 * rng.standard_normal((TEMPLATES, RES, 37, 3)),
        "template_pseudo_beta": 8 * rng.standard_normal((TEMPLATES, RES, 3)),
        "template_mask": np.ones(TEMPLATES),
        "resolution": np.array(2.0),
        "use_clamped_fape": np.array(0.7),
    }
    integers = {
        "residue_index": np.cumsum(rng.integers(1, 4, RES)),
        "aatype": rng.integers(0, 21, RES),
        "true_msa": rng.integers(0, 22, (SEQ, RES)),
        "extra_msa": rng.integers(0, 23, (EXTRA, RES)),
        "template_aatype": rng.integers(0, 22, (TEMPLATES, RES)),
    }
    assert all(0 < m.sum() < m.size for m in masks.values()), "a mask without both values would test nothing"
    return {
        **{k: jnp.asarray(v, dtype) for k, v in (masks | floats).items()},
        **{k: jnp.asarray(v, "int32") for k, v in integers.items()},
    }


def recycled(dtype: str) -> Previous:
    """A pass before this one, without which the recycling embeddings would have zero gradients."""
    rng, sizes = np.random.default_rng(5), tiny()
    shapes = (RES, 3), (RES, sizes.msa_channels), (RES, RES, sizes.pair_channels)
    return Previous(*(jnp.asarray(4 * rng.standard_normal(shape), dtype) for shape in shapes))


@cache
def graph_and_arrays() -> tuple[Any, Any]:
    """The model, and a random value for every parameter: a fresh model's zeros would hide a wrong technique."""
    graph, parameters = nnx.split(nnx.eval_shape(lambda: AlphaFold(tiny(), rngs=nnx.Rngs(0))), nnx.Param)
    flat, structure = jax.tree_util.tree_flatten_with_path(parameters)
    rng = np.random.default_rng(1)
    return graph, jax.tree.unflatten(structure, [_filled(jax.tree_util.keystr(path), leaf, rng) for path, leaf in flat])


def tiny_model() -> AlphaFold:
    """The model with those values."""
    graph, parameters = graph_and_arrays()
    return nnx.merge(graph, jax.tree.map(jnp.asarray, parameters))


def _filled(path: str, leaf: jax.ShapeDtypeStruct, rng: np.random.Generator) -> np.ndarray:
    """Norms scale by about one. The structure module's are smaller.

    Otherwise torsion angles come near zero length, and float32 alone moves gradients by 1e-4.
    """
    normal = rng.standard_normal(leaf.shape, np.float32)
    if "scale" in path:
        return np.float32(1) + np.float32(0.3) * normal
    return np.float32(0.15 if "structure_module" in path else 0.45) * normal


def _arguments(dtype: str, seed: int) -> tuple[Any, dict[str, jax.Array], Previous, jax.Array]:
    parameters = jax.tree.map(lambda x: jnp.asarray(x, dtype), graph_and_arrays()[1])
    return parameters, example(dtype), recycled(dtype), jax.random.key(seed)


def _loss(plan: Plan) -> Callable[..., jax.Array]:
    """Parameters are arguments: the compiler would spend its time folding constants."""
    graph, _ = graph_and_arrays()

    def loss(parameters: Any, features: dict[str, jax.Array], previous: Previous, key: jax.Array) -> jax.Array:
        return alphafold_loss(nnx.merge(graph, parameters), features, plan, key, previous, weights=FINE_TUNING)[0]

    return loss


@cache
def _value_and_gradient(plan: Plan) -> Callable[..., tuple[jax.Array, Any]]:
    return jax.jit(jax.value_and_grad(_loss(plan)))


def loss_alone(plan: Plan) -> jax.Array:
    """The loss without a gradient, whose program compiles in half the time."""
    return jax.jit(_loss(plan))(*_arguments("float32", 3))


@cache
def loss_and_gradient(plan: Plan, dtype: str = "float32", seed: int = 3) -> tuple[float, dict[str, np.ndarray]]:
    """The loss and the gradient of every parameter by its path, in `dtype` throughout; `seed` is the dropout's."""
    value, gradient = _value_and_gradient(plan)(*_arguments(dtype, seed))
    flat, _ = jax.tree_util.tree_flatten_with_path(gradient)
    return float(value), {jax.tree_util.keystr(path): np.asarray(array) for path, array in flat}
