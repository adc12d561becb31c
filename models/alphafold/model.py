"""AlphaFold 2's monomer: embeddings, templates, extra-MSA and Evoformer stacks, structure module, and heads.

Jumper et al. 2021, Suppl. Algorithm 2. What is computed is here; how it is held in memory comes with the `Plan`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import to_compute
from elbowroom.memory.recompute import name, recomputed_block
from elbowroom.models.alphafold.atoms import pseudo_beta
from elbowroom.models.alphafold.confidence import AlignedErrorHead, ExperimentallyResolvedHead, LDDTHead
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.embed import Embedder, Features, Previous, no_previous, pair_mask
from elbowroom.models.alphafold.evoformer import EvoformerBlock
from elbowroom.models.alphafold.heads import DistogramHead, MaskedMSAHead
from elbowroom.models.alphafold.structure import Structure, StructureModule
from elbowroom.models.alphafold.template import TORSION_FEATURES, TemplateEmbedding, torsion_features
from elbowroom.models.layers import Linear
from elbowroom.models.stack import run_stack, stack


class Representations(NamedTuple):
    """What the trunk makes of a protein, in the plan's dtype."""

    msa: Float[Array, "seq res c_m"]
    pair: Float[Array, "res res c_z"]
    single: Float[Array, "res c_s"]


class Prediction(NamedTuple):
    """A pass over a protein."""

    trunk: Representations
    structure: Structure

    def recycled(self, features: Features) -> Previous:
        """What the next pass starts from (Suppl. Algorithm 32)."""
        beta = pseudo_beta(features["aatype"], self.structure.atom37)
        return Previous(beta, self.trunk.msa[0], self.trunk.pair)


class Evoformer(Embedder):
    """Embeddings and all stacks; attribute names are those of the published parameters."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        super().__init__(config, rngs=rngs)
        if config.templates:
            self.template_embedding = TemplateEmbedding(config, rngs=rngs)
            self.template_single_embedding = Linear(TORSION_FEATURES, config.msa_channels, rngs=rngs, start="relu")
            self.template_projection = Linear(config.msa_channels, config.msa_channels, rngs=rngs, start="relu")
        self.extra_msa_stack = stack(
            lambda one: EvoformerBlock(config, extra=True, rngs=one), config.extra_blocks, rngs=rngs
        )
        self.evoformer_iteration = stack(
            lambda one: EvoformerBlock(config, extra=False, rngs=one), config.evoformer_blocks, rngs=rngs
        )
        self.single_activations = Linear(config.msa_channels, config.single_channels, rngs=rngs)

    def __call__(
        self, features: Features, previous: Previous, key: Key[Array, ""] | None, plan: Plan
    ) -> Representations:
        together = pair_mask(features["seq_mask"] > 0)
        keys = (None, None, None) if key is None else jax.random.split(key, 3)
        with_templates = self.config.templates and len(features["template_mask"]) > 0

        def first_pair(previous: Previous) -> Float[Array, "res res c_z"]:
            previous = previous._replace(pair=name(previous.pair, "previous_pair"))
            pair = self.first_pair(features, previous, plan)
            if with_templates:
                pair = pair + self.template_embedding(pair, features, together, keys[2], plan)
            return pair

        msa, pair = self.first_msa(features, previous, plan), recomputed_block(first_pair, plan, barrier=True)(previous)
        sequences, mask = len(msa), features["msa_mask"] > 0
        if with_templates:
            rows, known = self.template_rows(features, plan)
            msa, mask = jnp.concatenate([msa, rows]), jnp.concatenate([mask, known])
        extra, valid = self.extra_msa(features, plan), features["extra_msa_mask"] > 0
        _, pair = run_stack(self.extra_msa_stack, _block(valid, together, plan), (extra, pair), keys[0], plan)
        msa, pair = run_stack(self.evoformer_iteration, _block(mask, together, plan), (msa, pair), keys[1], plan)
        return Representations(msa[:sequences], pair, self.single_activations(msa[0]))

    def template_rows(
        self, features: Features, plan: Plan
    ) -> tuple[Float[Array, "template res c_m"], Bool[Array, "template res"]]:
        """Templates as further rows of the MSA, dropped again after the last block (Suppl. Algorithm 2, l. 7-8)."""
        angles, known = torsion_features(features)
        rows = jax.nn.relu(self.template_single_embedding(to_compute(angles, plan.precision)))
        return self.template_projection(rows), known


class AlphaFold(nnx.Module):
    """The whole monomer model with its heads."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.evoformer = Evoformer(config, rngs=rngs)
        self.structure_module = StructureModule(config, rngs=rngs)
        self.masked_msa_head = MaskedMSAHead(config, rngs=rngs)
        self.distogram_head = DistogramHead(config, rngs=rngs)
        self.predicted_lddt_head = LDDTHead(config, rngs=rngs)
        self.experimentally_resolved_head = ExperimentallyResolvedHead(config, rngs=rngs)
        if config.aligned_error:
            self.predicted_aligned_error_head = AlignedErrorHead(config, rngs=rngs)

    def __call__(
        self, features: Features, key: Key[Array, ""] | None, plan: Plan, previous: Previous | None = None
    ) -> Prediction:
        """One pass over one protein; `key` None switches dropout off, `previous` None starts from zeros."""
        keys = (None, None) if key is None else jax.random.split(key)
        trunk = self.evoformer(features, previous or no_previous(self.config, features, plan), keys[0], plan)
        mask = features["seq_mask"] > 0
        structure = self.structure_module(trunk.single, trunk.pair, features["aatype"], mask, keys[1], plan)
        return Prediction(trunk, structure)


def _block(msa_mask: Bool[Array, "seq res"], pair_mask: Bool[Array, "res res"], plan: Plan):
    def call(block: EvoformerBlock, activations: tuple[Array, Array], key: Key[Array, ""] | None):
        return block(*activations, msa_mask, pair_mask, key, plan)

    return call


def chunk_axes(sizes: dict[str, int]) -> dict[str, dict[str, int]]:
    """Which axes each field of `plan.chunk` cuts, and how long they are at these sizes (crop, clusters, extra)."""
    rows = {"residues": sizes["crop"], "clusters": sizes["clusters"], "extra sequences": sizes["extra"]}
    tile = {"residues": sizes["crop"], "clusters": sizes["clusters"]}
    return {"rows": rows, "queries": tile, "keys": tile}
