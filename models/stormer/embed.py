"""From the state of the atmosphere to one token for each patch: the weather-specific embedding (Nguyen et al. 2023).

Patches do not know of each other here. The attention over variables holds a key and a value for every variable of
every patch, 4.3 GiB in float32 at the published size, so the caller takes some patches at a time.
"""

import jax.numpy as jnp
import numpy as np
from einops import rearrange
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from elbowroom.memory.attention import attention
from elbowroom.memory.offload import fetched
from elbowroom.models.layers import Linear, initial_weights
from elbowroom.models.stormer.config import StormerConfig


class TokenEmbeddings(nnx.Module):
    """One linear map for each variable, from the points of a patch to a token."""

    def __init__(self, config: StormerConfig, *, rngs: nnx.Rngs):
        shape = (config.channels, config.patch**2, config.width)
        # Published: "narrow". But then fields stay hidden behind the embeddings of places for thousands of steps.
        self.weights = nnx.Param(initial_weights("linear", rngs, shape, config.patch**2))
        self.bias = nnx.Param(jnp.zeros((config.channels, config.width), jnp.float32))

    def __call__(self, patches: Float[Array, "row channel point"]) -> Float[Array, "row channel c"]:
        # Variables are on the first axis, which a plan that offloads the parameters of layers takes for layers.
        weights, bias = fetched((self.weights[...], self.bias[...]))
        tokens = jnp.einsum("rvp,vpc->rvc", patches, weights.astype(patches.dtype))
        return tokens + bias.astype(patches.dtype)[None]


class VariableAggregation(nnx.Module):
    """What one learned query reads from the variables of a patch."""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs):
        self.heads = heads
        # Glorot's variance, 2 / (inputs + outputs), of the three projections as one matrix.
        self.in_proj_weight = nnx.Param(initial_weights("linear", rngs, (width, 3 * width), 2 * width))
        self.in_proj_bias = nnx.Param(jnp.zeros((3 * width,), jnp.float32))
        self.out_proj = Linear(width, width, rngs=rngs, start="narrow")

    def __call__(self, query: Float[Array, "c"], tokens: Float[Array, "row channel c"]) -> Float[Array, "row c"]:
        (row, channel, width), heads = tokens.shape, self.heads
        weights, bias = (w[...].astype(tokens.dtype) for w in (self.in_proj_weight, self.in_proj_bias))
        asked = query.astype(tokens.dtype) @ weights[:, :width] + bias[:width]
        both = tokens @ weights[:, width:] + bias[None, None, width:]
        key, value = (rearrange(x, "r v (h d) -> r v h d", h=heads) for x in jnp.split(both, 2, axis=-1))
        queries = jnp.broadcast_to(asked.reshape(1, 1, heads, -1), (row, 1, heads, width // heads))
        read = attention(queries, key, value, jnp.ones((row, channel), bool), None)
        return self.out_proj(read.reshape(row, width))


class WeatherEmbedding(nnx.Module):
    """Tokens of patches; attribute names are those of the published parameters."""

    def __init__(self, config: StormerConfig, *, rngs: nnx.Rngs):
        self.token_embeds = TokenEmbeddings(config, rngs=rngs)
        self.channel_embed = nnx.Param(jnp.asarray(sines(np.arange(config.channels), config.width), jnp.float32))
        self.channel_query = nnx.Param(jnp.zeros((config.width,), jnp.float32))
        self.channel_agg = VariableAggregation(config.width, config.heads, rngs=rngs)
        self.pos_embed = nnx.Param(jnp.asarray(sines_of_places(config), jnp.float32))

    def __call__(
        self, patches: Float[Array, "row channel point"], places: Float[Array, "row c"]
    ) -> Float[Array, "row c"]:
        """Tokens of some patches, in their dtype; `places` are these patches' rows of `pos_embed`."""
        tokens = self.token_embeds(patches) + self.channel_embed[...].astype(patches.dtype)[None]
        return self.channel_agg(self.channel_query[...], tokens + places.astype(tokens.dtype)[:, None])


def patches_of(
    state: Float[Array, "channel lat lon"], mask: Bool[Array, "channel lat lon"], patch: int
) -> Float[Array, "token channel point"]:
    """The grid in square patches, row after row; zeros where nothing is known.

    Latitudes that are not a multiple of `patch` get rows of zeros before the first.
    """
    missing = -state.shape[1] % patch
    known = jnp.pad(jnp.where(mask, state, 0), ((0, 0), (missing, 0), (0, 0)))
    return rearrange(known, "v (h p) (w q) -> (h w) v (p q)", p=patch, q=patch)


def sines(positions: Int[np.ndarray, "position"], width: int) -> Float[np.ndarray, "position c"]:
    """Sines, then cosines, of a position at wavelengths from 2 pi to 20,000 pi (Vaswani et al. 2017, Section 3.5)."""
    rates = 10000.0 ** -(np.arange(width // 2) / (width // 2))
    angles = positions[:, None] * rates[None]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def sines_of_places(config: StormerConfig) -> Float[np.ndarray, "token c"]:
    """Half of the channels tell a patch's column, half its row: what the learned position embedding starts from."""
    row, column = np.divmod(np.arange(config.rows * config.columns), config.columns)
    return np.concatenate([sines(place, config.width // 2) for place in (column, row)], axis=1)
