"""From the weather on a grid to tokens: patches of every variable, then few latent levels out of many.

Bodnar et al. 2025, Supplement B.3. Patches know nothing of each other here, so their rows can be cut.
"""

import jax.numpy as jnp
from einops import rearrange
from flax import nnx
from jaxtyping import Array, Float

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import to_compute
from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.encodings import Encodings
from elbowroom.models.aurora.layers import MLP, LayerNorm, Linear
from elbowroom.models.aurora.perceiver import Perceiver
from elbowroom.models.layers import along_last, initial_weights


class PatchEmbedding(nnx.Module):
    """A linear map of the points of a patch, all times together, with weights for every variable by name."""

    def __init__(self, variables: tuple[str, ...], config: AuroraConfig, *, rngs: nnx.Rngs):
        shape = (config.channels, 1, config.history, config.patch, config.patch)
        inputs = config.history * config.patch**2
        self.weights = nnx.Dict(
            {name: nnx.Param(initial_weights("linear", rngs, shape, len(variables) * inputs)) for name in variables}
        )
        self.bias = nnx.Param(jnp.zeros((config.channels,), jnp.float32))

    def __call__(
        self, patches: Float[Array, "row var time p longitude"], variables: tuple[str, ...]
    ) -> Float[Array, "row column c"]:
        weights = jnp.stack([self.weights[name][...][:, 0] for name in variables], axis=1).astype(patches.dtype)
        points = rearrange(patches, "row var time p (column q) -> row column (var time p q)", q=weights.shape[-1])
        tokens = jnp.einsum("rwi,ci->rwc", points, rearrange(weights, "c var time p q -> c (var time p q)"))
        return tokens + along_last(self.bias[...], tokens)


class Encoder(nnx.Module):
    """Tokens of the latent levels, told where and when they are."""

    def __init__(self, config: AuroraConfig, *, rngs: nnx.Rngs):
        self.config = config
        channels, hidden = config.channels, int(config.channels * config.mlp_factor)
        self.atmos_latents = nnx.Param(initial_weights("linear", rngs, (config.latent_levels - 1, channels), channels))
        self.surf_level_encoding = nnx.Param(initial_weights("linear", rngs, (channels,), channels))
        self.surf_mlp, self.surf_norm = MLP(channels, hidden, rngs=rngs), LayerNorm(channels)
        self.pos_embed, self.scale_embed = Linear(channels, channels, rngs=rngs), Linear(channels, channels, rngs=rngs)
        self.lead_time_embed = Linear(channels, channels, rngs=rngs)
        self.absolute_time_embed = Linear(channels, channels, rngs=rngs)
        self.atmos_levels_embed = Linear(channels, channels, rngs=rngs)
        self.surf_token_embeds = PatchEmbedding((*config.surface, *config.static), config, rngs=rngs)
        self.atmos_token_embeds = PatchEmbedding(config.atmosphere, config, rngs=rngs)
        self.level_agg = Perceiver(
            channels, config.heads, hidden, config.encoder_depth, stabilised=config.stabilised, rngs=rngs
        )

    def __call__(
        self,
        surface: Float[Array, "surf time lat lon"],
        static: Float[Array, "static lat lon"],
        atmosphere: Float[Array, "var time level lat lon"],
        encodings: Encodings,
        plan: Plan,
    ) -> Float[Array, "latent row column c"]:
        """Arguments are normalised; see `Aurora`."""
        compute = plan.precision
        parts = [
            rearrange(array, f"{lead} (row p) lon -> {lead} row p lon", p=self.config.patch)
            for array, lead in ((surface, "var time"), (static, "static"), (atmosphere, "var time level"))
        ]
        level = self.atmos_levels_embed(to_compute(jnp.asarray(encodings.level), compute))
        when = self.lead_time_embed(to_compute(jnp.asarray(encodings.lead_time), compute))
        when = when + self.absolute_time_embed(to_compute(jnp.asarray(encodings.date), compute))
        longitude = to_compute(jnp.asarray(encodings.longitude), compute)

        def rows(
            ground: Float[Array, "row surf time p lon"],
            fixed: Float[Array, "row static p lon"],
            air: Float[Array, "row var time level p lon"],
            latitude: Float[Array, "row half"],
            area: Float[Array, "row width c"],
        ) -> Float[Array, "row latent column c"]:
            ground, fixed, air, latitude, area = (to_compute(x, compute) for x in (ground, fixed, air, latitude, area))
            surface, latents = self.surface_tokens(ground, fixed), self.latent_tokens(air, level)
            shape = (len(latitude), len(longitude), longitude.shape[1])
            halves = jnp.broadcast_to(latitude[:, None], shape), jnp.broadcast_to(longitude[None], shape)
            where = self.pos_embed(jnp.concatenate(halves, axis=-1)) + self.scale_embed(area)
            return jnp.concatenate([surface[:, None], latents], axis=1) + (where + along_last(when, where))[:, None]

        ends = (jnp.asarray(encodings.latitude), jnp.asarray(encodings.area))
        return map_rows(rows, *parts, *ends, size=plan.chunk.rows, axes=(2, 1, 3, 0, 0), out_axis=1)

    def surface_tokens(
        self, ground: Float[Array, "row surf time p lon"], fixed: Float[Array, "row static p lon"]
    ) -> Float[Array, "row column c"]:
        """Variables at the surface and those that do not change, then a small network."""
        fixed = jnp.broadcast_to(fixed[:, :, None], (*fixed.shape[:2], ground.shape[2], *fixed.shape[2:]))
        variables = (*self.config.surface, *self.config.static)
        tokens = self.surf_token_embeds(jnp.concatenate([ground, fixed], axis=1), variables)
        tokens = tokens + along_last(self.surf_level_encoding[...], tokens)
        return tokens + self.surf_norm(self.surf_mlp(tokens))

    def latent_tokens(
        self, air: Float[Array, "row var time level p lon"], level: Float[Array, "level c"]
    ) -> Float[Array, "row latent column c"]:
        """What the latent levels read from the pressure levels above each patch."""
        (rows, _, _, levels, _, _), variables = air.shape, self.config.atmosphere
        flat = rearrange(air, "row var time level p lon -> (row level) var time p lon")
        tokens = self.atmos_token_embeds(flat, variables)
        tokens = rearrange(tokens, "(row level) column c -> row column level c", row=rows, level=levels)
        context = tokens + level[None, None]
        latents = self.atmos_latents[...].astype(context.dtype)
        latents = jnp.broadcast_to(latents, (*context.shape[:2], *latents.shape))
        return rearrange(self.level_agg(latents, context), "row column latent c -> row latent column c")
