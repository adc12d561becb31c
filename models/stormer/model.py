"""Stormer: a vision Transformer which forecasts the change of the weather over a lead time (Nguyen et al. 2023).

What is computed is here; how it is held in memory comes with the `Plan`.
"""

import jax
from einops import rearrange
from flax import nnx
from jaxtyping import Array, Bool, Float, Key

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import to_compute, wide
from elbowroom.memory.recompute import recomputed_block
from elbowroom.models.layers import LayerNorm, Linear, along_last
from elbowroom.models.stack import run_stack, stack
from elbowroom.models.stormer.block import Block
from elbowroom.models.stormer.config import StormerConfig
from elbowroom.models.stormer.embed import WeatherEmbedding, patches_of

HOURS = 10.0
"""The unit in which the model is told lead times"""


class TimeEmbedding(nnx.Module):
    """A lead time as a vector."""

    def __init__(self, width: int, *, rngs: nnx.Rngs):
        self.mlp = Linear(1, width, rngs=rngs, start="narrow")

    def __call__(self, lead_hours: Float[Array, ""]) -> Float[Array, "c"]:
        return self.mlp(lead_hours[None] / HOURS)


class Head(nnx.Module):
    """From a token to its patch of every variable. Unlike the blocks' layer norms, it does not normalise tokens."""

    def __init__(self, config: StormerConfig, *, rngs: nnx.Rngs):
        self.linear = Linear(config.width, config.patch**2 * config.channels, rngs=rngs, start="zero")
        self.adaLN_modulation = Linear(config.width, 2 * config.width, rngs=rngs, start="zero")

    def __call__(
        self, tokens: Float[Array, "token c"], lead: Float[Array, "c"], plan: Plan
    ) -> Float[Array, "token point_channel"]:
        """In float32 at least, the channels of one point together; `lead` is the embedded lead time after its SiLU."""
        precise = wide(tokens.dtype)
        shift, scale = self.adaLN_modulation(lead.astype(precise)).reshape(2, -1)

        def rows(some: Float[Array, "row c"]) -> Float[Array, "row point_channel"]:
            some = some.astype(precise)
            return self.linear(some * (1 + along_last(scale, some)) + along_last(shift, some))

        return map_rows(rows, tokens, size=plan.chunk.rows)


class Stormer(nnx.Module):
    """The whole model; attribute names are those of the published parameters."""

    def __init__(self, config: StormerConfig, *, rngs: nnx.Rngs):
        self.config = config
        self.embedding = WeatherEmbedding(config, rngs=rngs)
        self.embed_norm_layer = LayerNorm(config.width)
        self.t_embedder = TimeEmbedding(config.width, rngs=rngs)
        self.blocks = stack(lambda one: Block(config, rngs=one), config.depth, rngs=rngs)
        self.head = Head(config, rngs=rngs)

    def __call__(
        self,
        state: Float[Array, "channel lat lon"],
        mask: Bool[Array, "channel lat lon"],
        lead_hours: Float[Array, ""],
        plan: Plan,
    ) -> Float[Array, "channel lat lon"]:
        """The change of every variable from now until `lead_hours` later, in float32 at least.

        Args:
          state: normalised, each variable with its own mean and standard deviation; latitudes in the order of training.
          mask: True where the state is known. The model is given 0, the mean, elsewhere, whatever stands there.

        The change is normalised too, with the statistics of changes over that lead time.
        """
        lead = jax.nn.silu(self.t_embedder(lead_hours))
        narrow = to_compute(lead, plan.precision)

        def call(block: Block, tokens: Float[Array, "token c"], _: Key[Array, ""] | None) -> Float[Array, "token c"]:
            return block(tokens, narrow, plan)

        tokens = run_stack(self.blocks, call, self.tokens(state, mask, plan), None, plan)
        return self._grid(self.head(tokens, lead, plan))

    def tokens(
        self, state: Float[Array, "channel lat lon"], mask: Bool[Array, "channel lat lon"], plan: Plan
    ) -> Float[Array, "token c"]:
        """What the first block is given: one token for each patch, `plan.chunk.rows` patches at a time."""

        def rows(patches: Float[Array, "row channel point"], places: Float[Array, "row c"]) -> Float[Array, "row c"]:
            return self.embed_norm_layer(self.embedding(to_compute(patches, plan.precision), places))

        def embed(state: Array, mask: Array) -> Float[Array, "token c"]:
            patches = patches_of(state, mask, self.config.patch)
            return map_rows(rows, patches, self.embedding.pos_embed[...], size=plan.chunk.rows)

        return recomputed_block(embed, plan, barrier=True)(state, mask)

    def _grid(self, patches: Float[Array, "token point_channel"]) -> Float[Array, "channel lat lon"]:
        """Patches side by side, without the rows by which latitudes were padded."""
        sizes = {"h": self.config.rows, "p": self.config.patch, "q": self.config.patch}
        return rearrange(patches, "(h w) (p q v) -> v (h p) (w q)", **sizes)[:, -self.config.latitudes :]


def chunk_axes(sizes: dict[str, int]) -> dict[str, dict[str, int]]:
    """Which axes each field of `plan.chunk` cuts, and their lengths at these sizes (latitudes, longitudes, patch)."""
    patches = {"patches": -(-sizes["latitudes"] // sizes["patch"]) * (sizes["longitudes"] // sizes["patch"])}
    return {"rows": patches, "queries": patches, "keys": patches}


def stacks(sizes: dict[str, int]) -> dict[str, int]:
    """The stacks of equal blocks, and how many each has at these sizes (depth)."""
    return {"Transformer": sizes["depth"]}
