"""From atoms to rigid groups and torsion angles, and back (Jumper et al. 2021, Suppl. 1.8.4). Lengths in Angstrom."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from elbowroom.models.alphafold import residues as table
from elbowroom.models.alphafold.geometry import Rigid, apply, apply_inverse, compose, from_three_points, spread

type Residues = Int[Array, "res"]
type Atoms14 = Float[Array, "res 14 3"]
type Atoms37 = Float[Array, "res 37 3"]


class RigidGroups(NamedTuple):
    """Frames of the eight rigid groups of every residue."""

    frames: Rigid
    alternative: Rigid
    """where the ambiguous atoms of a symmetric side chain have each other's names"""
    exists: Bool[Array, "res 8"]
    """all atoms that define the frame are resolved"""


class Torsions(NamedTuple):
    """omega, phi, psi and four side-chain angles of every residue."""

    sin_cos: Float[Array, "res 7 2"]
    alternative: Float[Array, "res 7 2"]
    exists: Bool[Array, "res 7"]


def of_residue(values: Shaped[Array, "21 *any"], aatype: Residues) -> Shaped[Array, "res *any"]:
    """A table's row for every residue; letters beyond the twenty are unknown."""
    return values[jnp.minimum(aatype, table.UNKNOWN)]


def to_atom14(aatype: Residues, wide: Shaped[Array, "res 37 *any"]) -> Shaped[Array, "res 14 *any"]:
    """Columns of the compact layout; those a residue does not have hold another atom's value."""
    return _columns(wide, of_residue(jnp.asarray(table.ATOM14_TO_37), aatype))


def to_atom37(aatype: Residues, compact: Atoms14) -> Atoms37:
    """Zero where the residue has no such atom."""
    exists = of_residue(jnp.asarray(table.ATOM37_EXISTS), aatype)
    columns = of_residue(jnp.asarray(table.ATOM37_TO_14), aatype)
    return jnp.where(exists[..., None], _columns(compact, columns), 0)


def pseudo_beta(aatype: Residues, positions: Atoms37) -> Float[Array, "res 3"]:
    """CB, or CA for glycine (Suppl. 1.9.8)."""
    return jnp.where((aatype == table.GLYCINE)[:, None], positions[:, table.CA], positions[:, table.CB])


def rigid_groups(aatype: Residues, positions: Atoms37, mask: Bool[Array, "res 37"]) -> RigidGroups:
    """Frames from three atoms each (Suppl. Algorithm 21); the backbone's has CA at its origin and C on its x axis."""
    columns = of_residue(jnp.asarray(table.GROUP_ATOMS), aatype)
    flat = columns.reshape(len(aatype), -1)
    three = _columns(positions, flat).reshape(*columns.shape, 3)
    known = _columns(mask, flat).reshape(columns.shape).all(-1)
    frames = from_three_points(three[..., 0, :], three[..., 1, :], three[..., 2, :])
    # The backbone's first atom is C, on the positive x axis: turn the frame about y.
    about_y = jnp.asarray(np.where(np.arange(8)[:, None] == 0, [-1, 1, -1], 1), positions.dtype)
    turned = frames.rotation * about_y[None, :, None]
    symmetric = of_residue(jnp.asarray(table.GROUP_SYMMETRIC), aatype)
    flip = jnp.where(symmetric[..., None], jnp.asarray([1, -1, -1], positions.dtype)[None, None], 1)
    return RigidGroups(
        Rigid(turned, frames.translation),
        Rigid(turned * flip[..., None, :], frames.translation),
        known & of_residue(jnp.asarray(table.GROUP_EXISTS), aatype),
    )


def torsions(aatype: Residues, positions: Atoms37, mask: Bool[Array, "res 37"]) -> Torsions:
    """Sines and cosines of all torsion angles; where atoms are missing, of whatever stands in their place."""
    before = jnp.pad(positions[:-1], ((1, 0), (0, 0), (0, 0)))
    known_before = jnp.pad(mask[:-1], ((1, 0), (0, 0)))
    chi = of_residue(jnp.asarray(table.CHI_ATOMS), aatype).reshape(-1, 16)
    side = _columns(positions, chi).reshape(-1, 4, 4, 3)
    side_known = _columns(mask, chi).reshape(-1, 4, 4).all(-1) & of_residue(jnp.asarray(table.CHI_EXISTS), aatype)

    def four(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[Array, Array]:
        atoms = jnp.concatenate([before[:, jnp.asarray(old, int)], positions[:, jnp.asarray(new, int)]], axis=1)
        known = known_before[:, jnp.asarray(old, int)].all(1) & mask[:, jnp.asarray(new, int)].all(1)
        return atoms, known

    omega, phi = four((table.CA, table.C), (table.N, table.CA)), four((table.C,), (table.N, table.CA, table.C))
    psi = four((), (table.N, table.CA, table.C, table.OXYGEN))
    atoms = jnp.concatenate([jnp.stack([omega[0], phi[0], psi[0]], axis=1), side], axis=1)
    exists = jnp.concatenate([jnp.stack([omega[1], phi[1], psi[1]], axis=1), side_known], axis=1)
    sin_cos = _angle(atoms)
    mirror = jnp.where(of_residue(jnp.asarray(table.CHI_SYMMETRIC), aatype), -1.0, 1.0).astype(positions.dtype)
    mirror = jnp.pad(mirror, ((0, 0), (3, 0)), constant_values=1.0)
    return Torsions(sin_cos, sin_cos * mirror[..., None], exists)


def _angle(atoms: Float[Array, "res 7 4 3"]) -> Float[Array, "res 7 2"]:
    frames = from_three_points(atoms[..., 1, :], atoms[..., 2, :], atoms[..., 0, :])
    fourth = apply_inverse(frames, atoms[..., 3, :])
    sin_cos = jnp.stack([fourth[..., 2], fourth[..., 1]], axis=-1)
    sin_cos = sin_cos / jnp.sqrt(jnp.square(sin_cos).sum(-1, keepdims=True) + 1e-8)
    # psi is measured at the oxygen, which lies opposite to the next nitrogen
    return sin_cos * jnp.asarray([1, 1, -1, 1, 1, 1, 1], atoms.dtype)[None, :, None]


def frames_of_torsions(aatype: Residues, backbone: Rigid, sin_cos: Float[Array, "res 7 2"]) -> Rigid:
    """Frames of all rigid groups, by turning each by its angle on the group before (Suppl. Algorithm 24)."""
    dtype = sin_cos.dtype
    default = Rigid(
        of_residue(jnp.asarray(table.DEFAULT_ROTATION, dtype), aatype),
        of_residue(jnp.asarray(table.DEFAULT_TRANSLATION, dtype), aatype),
    )
    sine, cosine = (jnp.pad(sin_cos[..., i], ((0, 0), (1, 0)), constant_values=float(i)) for i in range(2))
    zero, one = jnp.zeros_like(sine), jnp.ones_like(sine)
    rows = [[one, zero, zero], [zero, cosine, -sine], [zero, sine, cosine]]
    turn = jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)
    local = Rigid(default.rotation @ turn, default.translation)
    chain = [_group(local, group) for group in range(8)]
    for group in range(table.CHI + 1, 8):
        chain[group] = compose(chain[group - 1], chain[group])
    on_backbone = Rigid(*(jnp.stack(parts, axis=1) for parts in zip(*chain, strict=True)))
    return compose(spread(backbone), on_backbone)


def atoms_of_frames(aatype: Residues, frames: Rigid) -> Atoms14:
    """Put every atom into the frame of its rigid group; zero where the residue has no such atom."""
    group = of_residue(jnp.asarray(table.ATOM14_GROUP), aatype)
    own = Rigid(_columns(frames.rotation, group), _columns(frames.translation, group))
    place = of_residue(jnp.asarray(table.ATOM14_PLACE, frames.translation.dtype), aatype)
    exists = of_residue(jnp.asarray(table.ATOM14_EXISTS), aatype)
    return jnp.where(exists[..., None], apply(own, place), 0)


def _group(frames: Rigid, group: int) -> Rigid:
    return Rigid(frames.rotation[:, group], frames.translation[:, group])


def _columns(values: Shaped[Array, "res c *any"], columns: Int[Array, "res k"]) -> Shaped[Array, "res k *any"]:
    return jnp.take_along_axis(values, columns.reshape(*columns.shape, *[1] * (values.ndim - 2)), axis=1)
