"""Aurora: the weather at two times in, the weather one lead time later out.

Bodnar et al. 2025, "A foundation model for the Earth system", as in `microsoft-aurora` (`AuroraPretrained`). What is
computed is here; how it is held in memory comes with the `Plan`.
"""

from typing import NamedTuple

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import wide
from elbowroom.memory.recompute import recomputed_block
from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.decoder import Decoder
from elbowroom.models.aurora.encoder import Encoder
from elbowroom.models.aurora.encodings import Encodings
from elbowroom.models.aurora.swin import Backbone


class Weather(NamedTuple):
    """Normalised fields of one time, on the points that make whole patches."""

    surface: Float[Array, "surf lat lon"]
    atmosphere: Float[Array, "var level lat lon"]


class History(NamedTuple):
    """Normalised fields of the given times, the newest last."""

    surface: Float[Array, "surf time lat lon"]
    static: Float[Array, "static lat lon"]
    atmosphere: Float[Array, "var time level lat lon"]

    def after(self, new: Weather) -> "History":
        """The same one step later: the oldest time goes, `new` comes."""
        pairs = (self.surface, new.surface), (self.atmosphere, new.atmosphere)
        surface, atmosphere = (jnp.concatenate([old[:, 1:], one[:, None]], axis=1) for old, one in pairs)
        return History(surface, self.static, atmosphere)


class Aurora(nnx.Module):
    """The whole model; attribute names are those of the published parameters."""

    def __init__(self, config: AuroraConfig, *, rngs: nnx.Rngs):
        self.encoder = Encoder(config, rngs=rngs)
        self.backbone = Backbone(config, rngs=rngs)
        self.decoder = Decoder(config, rngs=rngs)

    def __call__(self, history: History, encodings: Encodings, plan: Plan) -> Weather:
        """One step. The result is float32 at least, whatever the plan computes in."""

        def encode(history: History) -> Float[Array, "latent row column c"]:
            return self.encoder(*history, encodings, plan)

        def decode(tokens: Float[Array, "latent row column double"]) -> Weather:
            found = self.decoder(tokens, jnp.asarray(encodings.query), plan)
            return Weather(*(field.astype(wide(field.dtype)) for field in found))

        tokens = recomputed_block(encode, plan, barrier=True)(history)
        tokens = self.backbone(tokens, jnp.asarray(encodings.lead_time), plan)
        return recomputed_block(decode, plan, barrier=True)(tokens)


def chunk_axes(config: AuroraConfig, latitudes: int) -> dict[str, dict[str, int]]:
    """Which axes each field of `plan.chunk` cuts, and how long they are: rows of patches at every resolution."""
    rows = latitudes // config.patch
    stages = {f"rows of stage {i}": -(-rows // 2**i) for i in range(1, len(config.down_depths))}
    return {"rows": {"rows of patches": rows, **stages}}
