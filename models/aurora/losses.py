"""The distance of a prediction from what came: area-weighted mean absolute error of normalised values.

Bodnar et al. 2025, Supplement C.1: every variable has a weight, and the surface a quarter of the atmosphere's.
"""

from dataclasses import dataclass, field

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from elbowroom.models.aurora.model import Weather

SURFACE_SHARE = 0.25


@dataclass(frozen=True, kw_only=True)
class VariableWeights:
    """How much variables count, by name; 1 where nothing is said."""

    surface: dict[str, float] = field(default_factory=lambda: {"2t": 3.0, "10u": 0.77, "10v": 0.66, "msl": 1.5})
    atmosphere: dict[str, float] = field(default_factory=lambda: {"z": 2.8, "q": 0.78, "t": 1.7, "u": 0.87, "v": 0.6})


def masked_error(
    found: Float[Array, "var *level lat lon"],
    target: Float[Array, "var *level lat lon"],
    valid: Bool[Array, "var *level lat lon"],
    area: Float[Array, "lat"],
) -> Float[Array, "var"]:
    """Each variable's mean absolute error over valid points, weighted by area; 0 where no point is valid."""
    weight = jnp.where(valid, area.reshape(*[1] * (found.ndim - 2), -1, 1), 0)
    # What is not there may be anything, and 0 x NaN is NaN: chosen, not multiplied, and before the difference.
    apart = jnp.abs(jnp.where(valid, found - jnp.where(valid, target, 0), 0))
    axes = tuple(range(1, found.ndim))
    total = weight.sum(axes)
    return (apart * weight).sum(axes) / jnp.where(total > 0, total, 1)


def weather_loss(
    found: Weather,
    target: Weather,
    valid: Weather,
    area: Float[Array, "lat"],
    variables: tuple[tuple[str, ...], tuple[str, ...]],
    weights: VariableWeights,
) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
    """One number, and the plain mean over all variables (`error`), over those at the surface and in the atmosphere.

    Args:
      valid: True where the target is known.
      area: weights of latitudes.
      variables: names at the surface and in the atmosphere, in the order of their axes.
    """
    errors = [masked_error(*fields, area) for fields in zip(found, target, valid, strict=True)]
    by_name = [
        jnp.asarray([named.get(name, 1.0) for name in names], error.dtype)
        for named, names, error in zip((weights.surface, weights.atmosphere), variables, errors, strict=True)
    ]
    surface, atmosphere = (error @ weight for error, weight in zip(errors, by_name, strict=True))
    count = sum(len(names) for names in variables)
    loss = (SURFACE_SHARE * surface + atmosphere) / count
    parts = {"surface": errors[0].mean(), "atmosphere": errors[1].mean()}
    return loss, {"error": jnp.concatenate(errors).mean(), **parts}
