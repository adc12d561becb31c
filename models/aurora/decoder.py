"""From tokens back to the weather on the grid: pressure levels out of latent ones, then every variable's points.

Bodnar et al. 2025, Supplement B.5. At true size this is where most of a plain step's memory goes: 64,800 patches x 13
levels x 1,024 channels. Patches know nothing of each other, so their rows can be cut.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from einops import rearrange
from flax import nnx
from jaxtyping import Array, Float

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import to_compute
from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.layers import Linear
from elbowroom.models.aurora.perceiver import Perceiver


class Decoder(nnx.Module):
    """The predicted weather, normalised."""

    def __init__(self, config: AuroraConfig, *, rngs: nnx.Rngs):
        self.config, channels = config, 2 * config.channels
        hidden = int(channels * config.decoder_mlp_factor)
        self.level_decoder = Perceiver(channels, config.heads, hidden, config.decoder_depth, rngs=rngs)
        self.atmos_levels_embed = Linear(channels, channels, rngs=rngs)
        self.surf_heads = _heads(config.surface, config, rngs)
        self.atmos_heads = _heads(config.atmosphere, config, rngs)

    def __call__(
        self, tokens: Float[Array, "latent row column double"], query: Float[Array, "level double"], plan: Plan
    ) -> tuple[Float[Array, "surf lat lon"], Float[Array, "var level lat lon"]]:
        """Variables at the surface and at pressure levels, in the plan's dtype; `query`: Fourier features of levels."""
        config, queries = self.config, self.atmos_levels_embed(to_compute(query, plan.precision))

        def ground(some: Float[Array, "row column double"]) -> Float[Array, "row var p lon"]:
            return grid_points(self.surf_heads, config.surface, config.patch, some)

        def air(some: Float[Array, "row latent column double"]) -> Float[Array, "row var level p lon"]:
            context = rearrange(some, "row latent column c -> row column latent c")
            latents = jnp.broadcast_to(queries, (*context.shape[:2], *queries.shape))
            levels = rearrange(self.level_decoder(latents, context), "row column level c -> row level column c")
            return grid_points(self.atmos_heads, config.atmosphere, config.patch, levels)

        surface = map_rows(ground, tokens[0], size=plan.chunk.rows, out_axis=1)
        atmosphere = map_rows(air, tokens[1:], size=plan.chunk.rows, axes=(1,), out_axis=2)
        return (
            rearrange(surface, "var row p lon -> var (row p) lon"),
            rearrange(atmosphere, "var level row p lon -> var level (row p) lon"),
        )


def grid_points(
    heads: Mapping[str, Linear],
    variables: tuple[str, ...],
    patch: int,
    tokens: Float[Array, "row *level column double"],
) -> Float[Array, "row var *level p lon"]:
    """Every variable's grid points of every patch."""
    weights = jnp.stack([heads[name].weight[...] for name in variables]).astype(tokens.dtype)
    bias = jnp.stack([heads[name].bias[...] for name in variables]).astype(tokens.dtype)
    points = jnp.einsum("r...wc,voc->rv...wo", tokens, weights)
    points = points + bias.reshape(1, len(variables), *[1] * (points.ndim - 3), -1)
    return rearrange(points, "row var ... column (p q) -> row var ... p (column q)", p=patch)


def _heads(variables: tuple[str, ...], config: AuroraConfig, rngs: nnx.Rngs) -> Any:
    return nnx.Dict({name: Linear(2 * config.channels, config.patch**2, rngs=rngs) for name in variables})
