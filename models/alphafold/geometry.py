"""Rotations, translations and quaternions (Jumper et al. 2021, Suppl. 1.1 and 1.8). Lengths in Angstrom."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class Rigid(NamedTuple):
    """x -> rotation x + translation: from the coordinates of a frame to those the frame lives in."""

    rotation: Float[Array, "*any 3 3"]
    """columns are the frame's axes"""
    translation: Float[Array, "*any 3"]


def apply(rigid: Rigid, points: Float[Array, "*#any 3"]) -> Float[Array, "*all 3"]:
    return jnp.einsum("...ij,...j->...i", rigid.rotation, points) + rigid.translation


def apply_inverse(rigid: Rigid, points: Float[Array, "*#any 3"]) -> Float[Array, "*all 3"]:
    """Points in the frame's own coordinates."""
    return jnp.einsum("...ji,...j->...i", rigid.rotation, points - rigid.translation)


def compose(outer: Rigid, inner: Rigid) -> Rigid:
    """First `inner`, then `outer`."""
    return Rigid(outer.rotation @ inner.rotation, apply(outer, inner.translation))


def spread(rigid: Rigid) -> Rigid:
    """With an axis of length one after the others, to meet several points or frames each."""
    return Rigid(rigid.rotation[..., None, :, :], rigid.translation[..., None, :])


def from_three_points(
    negative_x: Float[Array, "*any 3"], origin: Float[Array, "*any 3"], in_plane: Float[Array, "*any 3"]
) -> Rigid:
    """The frame with a point on its negative x axis and another in its xy plane (Suppl. Algorithm 21)."""
    x = _normal(origin - negative_x)
    rest = in_plane - origin
    y = _normal(rest - (rest * x).sum(-1, keepdims=True) * x)
    return Rigid(jnp.stack([x, y, jnp.cross(x, y)], axis=-1), origin)


def unit(quaternion: Float[Array, "*any 4"]) -> Float[Array, "*any 4"]:
    return quaternion / jnp.sqrt(jnp.square(quaternion).sum(-1, keepdims=True))


def rotation_of(quaternion: Float[Array, "*any 4"]) -> Float[Array, "*any 3 3"]:
    """The rotation of a unit quaternion, real part first (Suppl. Algorithm 23, l. 3)."""
    w, x, y, z = (quaternion[..., i] for i in range(4))
    rows = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def product(left: Float[Array, "*any 4"], right: Float[Array, "*any 4"]) -> Float[Array, "*any 4"]:
    """Hamilton's product: first the rotation of `right`, then that of `left`."""
    w, v = left[..., :1], left[..., 1:]
    u, t = right[..., :1], right[..., 1:]
    real = w * u - (v * t).sum(-1, keepdims=True)
    return jnp.concatenate([real, w * t + u * v + jnp.cross(v, t)], axis=-1)


def distances(left: Float[Array, "*#any 3"], right: Float[Array, "*#any 3"], *, small: float) -> Float[Array, "*all"]:
    """Distances in Angstrom; `small`, added under the root, bounds the gradient where points coincide."""
    return jnp.sqrt(small + jnp.square(left - right).sum(-1))


def _normal(vector: Float[Array, "*any 3"]) -> Float[Array, "*any 3"]:
    """Unit length; almost zero vectors stay short instead of becoming anything."""
    return vector / jnp.sqrt(jnp.square(vector).sum(-1, keepdims=True) + 1e-8)
