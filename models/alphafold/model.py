"""AlphaFold 2's trunk: embeddings, extra-MSA stack, Evoformer stack, and the heads that read its representations.

Jumper et al. 2021, Suppl. Algorithm 2, without templates and structure module. What is computed is here; how it is
held in memory comes with the `Plan`.
"""

from typing import NamedTuple

import jax
from flax import nnx
from jaxtyping import Array, Float, Key

from elbowroom.memory.plan import Plan
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.embed import Embedder, Features, Previous, no_previous, pair_mask
from elbowroom.models.alphafold.evoformer import run_stack, stack
from elbowroom.models.alphafold.heads import DistogramHead, MaskedMSAHead
from elbowroom.models.layers import Linear


class Representations(NamedTuple):
    """What the trunk makes of a protein, in the plan's dtype."""

    msa: Float[Array, "seq res c_m"]
    pair: Float[Array, "res res c_z"]
    single: Float[Array, "res c_s"]


class Evoformer(Embedder):
    """Embeddings and both stacks; attribute names are those of the published parameters."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        super().__init__(config, rngs=rngs)
        self.extra_msa_stack = stack(config, config.extra_blocks, extra=True, rngs=rngs)
        self.evoformer_iteration = stack(config, config.evoformer_blocks, extra=False, rngs=rngs)
        self.single_activations = Linear(config.msa_channels, config.single_channels, rngs=rngs)

    def __call__(
        self, features: Features, previous: Previous, key: Key[Array, ""] | None, plan: Plan
    ) -> Representations:
        together = pair_mask(features["seq_mask"] > 0)
        keys = (None, None) if key is None else jax.random.split(key)
        msa, pair = self.first_msa(features, previous, plan), self.first_pair(features, previous, plan)
        extra, valid = self.extra_msa(features, plan), features["extra_msa_mask"] > 0
        _, pair = run_stack(self.extra_msa_stack, extra, pair, valid, together, keys[0], plan)
        valid = features["msa_mask"] > 0
        msa, pair = run_stack(self.evoformer_iteration, msa, pair, valid, together, keys[1], plan)
        return Representations(msa, pair, self.single_activations(msa[0]))


class AlphaFold(nnx.Module):
    """The trunk with its masked-MSA and distogram heads."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.evoformer = Evoformer(config, rngs=rngs)
        self.masked_msa_head = MaskedMSAHead(config, rngs=rngs)
        self.distogram_head = DistogramHead(config, rngs=rngs)

    def __call__(
        self, features: Features, key: Key[Array, ""] | None, plan: Plan, previous: Previous | None = None
    ) -> Representations:
        """Representations of one protein; `key` None switches dropout off, `previous` None starts from zeros."""
        return self.evoformer(features, previous or no_previous(self.config, features), key, plan)


def chunk_axes(sizes: dict[str, int]) -> dict[str, dict[str, int]]:
    """Which axes each field of `plan.chunk` cuts, and how long they are at these sizes (crop, clusters, extra)."""
    rows = {"residues": sizes["crop"], "clusters": sizes["clusters"], "extra sequences": sizes["extra"]}
    tile = {"residues": sizes["crop"], "clusters": sizes["clusters"]}
    return {"rows": rows, "queries": tile, "keys": tile}
