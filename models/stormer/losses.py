"""The training loss (Nguyen et al. 2023, "pressure-weighted loss")."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from elbowroom.memory.precision import wide


def weighted_square_error(
    predicted: Float[Array, "channel lat lon"],
    true: Float[Array, "channel lat lon"],
    mask: Bool[Array, "channel lat lon"],
    latitude_weights: Float[Array, "lat"],
    channel_weights: Float[Array, "channel"],
) -> Float[Array, ""]:
    """Mean square error over all known points, each counted by its area and its variable; 0 where none is known.

    Args:
      predicted, true: normalised changes.
      mask: True where `true` is known; what stands elsewhere takes no part.
      latitude_weights: proportional to the area of a grid point; their sum does not matter.
      channel_weights: how much each variable counts; their sum does not matter.
    """
    precise = wide(predicted.dtype)
    errors = jnp.where(mask, predicted.astype(precise) - true.astype(precise), 0)
    weights = channel_weights[:, None, None].astype(precise) * latitude_weights[None, :, None].astype(precise)
    weights = jnp.where(mask, weights, 0)
    total = weights.sum()
    return (weights * jnp.square(errors)).sum() / jnp.where(total > 0, total, 1)
