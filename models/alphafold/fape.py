"""Frame aligned point error (Jumper et al. 2021, Suppl. 1.9.2 and Algorithm 28)."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from elbowroom.memory.chunk import map_rows
from elbowroom.models.alphafold.geometry import Rigid, apply_inverse, distances, spread

CLAMP, SCALE = 10.0, 10.0
"""Angstrom: the largest error that counts, and the length by which errors are divided"""
SMALL = 1e-4


def fape(
    frames: Rigid,
    points: Float[Array, "point 3"],
    true_frames: Rigid,
    true_points: Float[Array, "point 3"],
    known_frames: Bool[Array, "frame"],
    known_points: Bool[Array, "point"],
    *,
    clamped: Float[Array, ""] | float = 1.0,
    rows: int | None,
) -> Float[Array, ""]:
    """Mean distance, in units of 10 Angstrom, between predicted and true points as seen from every frame.

    Unchanged by a rotation and translation of all predicted frames and points; changed by a reflection.

    Args:
      clamped: share of the loss in which errors count up to 10 Angstrom only; the rest counts them in full.
      rows: frames looked from at a time.
    """

    def seen(own: Rigid, true: Rigid) -> Float[Array, "row"]:
        places = apply_inverse(spread(own), points[None])
        error = distances(places, apply_inverse(spread(true), true_points[None]), small=SMALL)
        error = clamped * jnp.minimum(error, CLAMP) + (1 - clamped) * error
        return (error * known_points[None].astype(error.dtype)).sum(1)

    errors = map_rows(seen, frames, true_frames, size=rows) * known_frames.astype(points.dtype)
    count = known_frames.sum().astype(errors.dtype) * known_points.sum().astype(errors.dtype)
    return errors.sum() / SCALE / (SMALL + count)
