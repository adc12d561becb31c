"""Structures of related proteins as input (Jumper et al. 2021, Suppl. 1.7.1, Algorithms 16 and 17)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from elbowroom.memory.attention import MASKED
from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import to_compute, wide
from elbowroom.memory.recompute import recomputed_block, recomputed_module
from elbowroom.models.alphafold import residues as table
from elbowroom.models.alphafold.atoms import torsions
from elbowroom.models.alphafold.attention import TriangleAttention
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.embed import Features, distance_one_hot
from elbowroom.models.alphafold.evoformer import Transition, TriangleMultiplication
from elbowroom.models.layers import LayerNorm, Linear, along_last, dropout, initial_weights
from elbowroom.models.stack import run_stack, stack

CLASSES = 22
"""letters of a template's residues: twenty, unknown and gap"""
FIRST_EDGE, LAST_EDGE = 3.25, 50.75
"""Angstrom"""
TORSION_FEATURES = CLASSES + 14 + 14 + 7
PSI = 2
ORDER = (
    ("triangle_attention_starting_node", 0),
    ("triangle_attention_ending_node", 1),
    ("triangle_multiplication_outgoing", 0),
    ("triangle_multiplication_incoming", 0),
)
"""Modules of a block and the axis along which each update's dropout mask is shared"""


class TemplatePairBlock(nnx.Module):
    """One block on a template's pair representation (Suppl. Algorithm 16, l. 2-7)."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        channels, heads = config.template_channels, config.template_heads
        self.rate = config.pair_dropout
        self.triangle_attention_starting_node = TriangleAttention(channels, heads, ending=False, rngs=rngs)
        self.triangle_attention_ending_node = TriangleAttention(channels, heads, ending=True, rngs=rngs)
        self.triangle_multiplication_outgoing = TriangleMultiplication(channels, channels, incoming=False, rngs=rngs)
        self.triangle_multiplication_incoming = TriangleMultiplication(channels, channels, incoming=True, rngs=rngs)
        self.pair_transition = Transition(channels, config.template_factor, rngs=rngs)

    def __call__(
        self, pair: Float[Array, "res res c_t"], mask: Bool[Array, "res res"], key: Key[Array, ""] | None, plan: Plan
    ) -> Float[Array, "res res c_t"]:
        keys = [None] * len(ORDER) if key is None else list(jax.random.split(key, len(ORDER)))
        for own, (label, axis) in zip(keys, ORDER, strict=True):
            module = getattr(self, label)
            update = recomputed_module(lambda x, module=module: module(x, mask, plan), plan.recompute)(pair)
            pair = pair + dropout(update, own, rate=self.rate, shared_axis=axis)
        return pair + recomputed_module(lambda x: self.pair_transition(x, plan), plan.recompute)(pair)


class TemplatePairStack(nnx.Module):
    """The blocks, under the name that the published parameters have for them."""

    BLOCKS = "__layer_stack_no_state"

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        def block(one: nnx.Rngs) -> TemplatePairBlock:
            return TemplatePairBlock(config, rngs=one)

        setattr(self, self.BLOCKS, stack(block, config.template_blocks, rngs=rngs))

    def __call__(
        self, pair: Float[Array, "res res c_t"], mask: Bool[Array, "res res"], key: Key[Array, ""] | None, plan: Plan
    ) -> Float[Array, "res res c_t"]:
        return run_stack(
            getattr(self, self.BLOCKS), lambda block, act, own: block(act, mask, own, plan), pair, key, plan
        )


class SingleTemplateEmbedding(nnx.Module):
    """The pair representation of one template (Suppl. Algorithm 2, l. 9-11)."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.bins = config.template_bins
        # distances, whether both are resolved, both letters, a unit vector (zero), whether both backbones are
        inputs = config.template_bins + 1 + 2 * CLASSES + 3 + 1
        self.embedding2d = Linear(inputs, config.template_channels, rngs=rngs, start="relu")
        self.template_pair_stack = TemplatePairStack(config, rngs=rngs)
        self.output_layer_norm = LayerNorm(config.template_channels)

    def __call__(
        self, template: Features, mask: Bool[Array, "res res"], key: Key[Array, ""] | None, plan: Plan
    ) -> Float[Array, "res res c_t"]:
        """`template` holds the features of one template, without their prefix."""
        beta, letters = template["pseudo_beta"], jax.nn.one_hot(template["aatype"], CLASSES, dtype=jnp.float32)
        known = template["pseudo_beta_mask"]
        whole = template["all_atom_masks"][:, jnp.array([table.N, table.CA, table.C])].prod(-1)

        def rows(place: Array, one: Array, seen: Array, backbone: Array) -> Float[Array, "row res c_t"]:
            shape = (len(one), len(letters))
            parts = [
                distance_one_hot(place, beta, self.bins, FIRST_EDGE, LAST_EDGE),
                (seen[:, None] * known[None])[..., None],
                jnp.broadcast_to(letters[None], (*shape, CLASSES)),
                jnp.broadcast_to(one[:, None], (*shape, CLASSES)),
                jnp.zeros((*shape, 3), beta.dtype),
                (backbone[:, None] * whole[None])[..., None],
            ]
            pair = jnp.concatenate([part.astype(beta.dtype) for part in parts], axis=-1)
            return self.embedding2d(to_compute(pair * parts[-1].astype(beta.dtype), plan.precision))

        pair = map_rows(rows, beta, letters, known, whole, size=plan.chunk.rows)
        pair = self.template_pair_stack(pair, mask, key, plan)
        return map_rows(self.output_layer_norm, pair, size=plan.chunk.rows)


class TemplateAttention(nnx.Module):
    """Every pair of residues attends to the templates (Suppl. Algorithm 17)."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        pair, template, heads = config.pair_channels, config.template_channels, config.template_heads
        width = template // heads
        self.query_w = nnx.Param(initial_weights("linear", rngs, (pair, heads, width), pair))
        self.key_w = nnx.Param(initial_weights("linear", rngs, (template, heads, width), template))
        self.value_w = nnx.Param(initial_weights("linear", rngs, (template, heads, width), template))
        self.output_w = nnx.Param(jnp.zeros((heads, width, pair), jnp.float32))
        self.output_b = nnx.Param(jnp.zeros((pair,), jnp.float32))

    def __call__(
        self,
        pair: Float[Array, "row res c_z"],
        templates: Float[Array, "row template res c_t"],
        mask: Bool[Array, "template"],
    ) -> Float[Array, "row res c_z"]:
        weights = (w[...].astype(pair.dtype) for w in (self.query_w, self.key_w, self.value_w, self.output_w))
        query_w, key_w, value_w, output_w = weights
        query = jnp.einsum("rjc,chd->rjhd", pair, query_w) * jnp.asarray(query_w.shape[-1] ** -0.5, pair.dtype)
        key, value = (jnp.einsum("rtjc,chd->rtjhd", templates, w) for w in (key_w, value_w))
        statistics = wide(pair.dtype)
        logits = jnp.einsum("rjhd,rtjhd->rjht", query, key, preferred_element_type=statistics)
        logits = jnp.where(mask[None, None, None], logits, jnp.asarray(MASKED, statistics))
        read = jnp.einsum("rjht,rtjhd->rjhd", jax.nn.softmax(logits, axis=-1).astype(value.dtype), value)
        out = jnp.einsum("rjhd,hdc->rjc", read, output_w)
        return out + along_last(self.output_b[...], out)


class TemplateEmbedding(nnx.Module):
    """What all templates together add to the pair representation; nothing where there is none."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.single_template_embedding = SingleTemplateEmbedding(config, rngs=rngs)
        self.attention = TemplateAttention(config, rngs=rngs)

    def __call__(
        self,
        pair: Float[Array, "res res c_z"],
        features: Features,
        mask: Bool[Array, "res res"],
        key: Key[Array, ""] | None,
        plan: Plan,
    ) -> Float[Array, "res res c_z"]:
        there = features["template_mask"] > 0
        names = ("aatype", "all_atom_masks", "pseudo_beta", "pseudo_beta_mask")
        each = {name: features[f"template_{name}"] for name in names}

        def one(template: tuple[Features, Array]) -> Float[Array, "res res c_t"]:
            own = None if key is None else jax.random.fold_in(key, template[1])
            return self.single_template_embedding(template[0], mask, own, plan)

        pairs = jax.lax.map(recomputed_block(one, plan), (each, jnp.arange(len(there))))

        def rows(some: Array, templates: Array) -> Float[Array, "row res c_z"]:
            return self.attention(some, templates, there)

        update = map_rows(rows, pair, pairs, size=plan.chunk.rows, axes=(0, 1))
        return jnp.where(there.any(), update, jnp.zeros((), update.dtype))


def torsion_features(features: Features) -> tuple[Float[Array, "template res 57"], Bool[Array, "template res"]]:
    """Letters and torsion angles of the templates, further rows of the MSA, and where psi is known (Algorithm 2, l. 7).

    Both namings of symmetric side chains are given, and which angles are known.
    """
    letters = features["template_aatype"]

    angles = jax.vmap(torsions)(
        letters, features["template_all_atom_positions"], features["template_all_atom_masks"] > 0
    )
    dtype = angles.sin_cos.dtype
    flat = [x.reshape(*letters.shape, -1).astype(dtype) for x in angles]
    return jnp.concatenate([jax.nn.one_hot(letters, CLASSES, dtype=dtype), *flat], axis=-1), angles.exists[..., PSI]
