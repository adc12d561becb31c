"""The experimental structure as the losses see it, derived from its atoms. Positions in Angstrom."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from elbowroom.memory.chunk import map_rows
from elbowroom.models.alphafold import residues as table
from elbowroom.models.alphafold.atoms import RigidGroups, Torsions, of_residue, rigid_groups, to_atom14, torsions
from elbowroom.models.alphafold.embed import Features
from elbowroom.models.alphafold.geometry import Rigid, distances


class Truth(NamedTuple):
    """Where atoms, frames and torsion angles of a protein were found."""

    aatype: Int[Array, "res"]
    atom37: Float[Array, "res 37 3"]
    known37: Bool[Array, "res 37"]
    atom14: Float[Array, "res 14 3"]
    known14: Bool[Array, "res 14"]
    groups: RigidGroups
    torsions: Torsions

    def backbone(self) -> tuple[Rigid, Bool[Array, "res"]]:
        """Frames of the backbone, and whether N, CA and C were resolved."""
        frames = self.groups.frames
        return Rigid(frames.rotation[:, 0], frames.translation[:, 0]), self.groups.exists[:, 0]


def truth_of(features: Features) -> Truth:
    """From `all_atom_positions` and `all_atom_mask`; without structure, nothing in it is known."""
    aatype, positions, mask = features["aatype"], features["all_atom_positions"], features["all_atom_mask"] > 0
    known = to_atom14(aatype, mask) & of_residue(jnp.asarray(table.ATOM14_EXISTS), aatype)
    return Truth(
        aatype,
        positions,
        mask,
        jnp.where(known[..., None], to_atom14(aatype, positions), 0),
        known,
        rigid_groups(aatype, positions, mask),
        torsions(aatype, positions, mask),
    )


def renamed(truth: Truth, predicted: Float[Array, "res 14 3"], *, rows: int | None) -> Truth:
    """The truth with ambiguous atoms named as the prediction has them (Suppl. Algorithm 26).

    A residue takes its alternative names where those leave its distances to all unambiguous atoms nearer to the
    predicted ones. Torsion angles stay: their loss accepts both.
    """
    aatype = truth.aatype
    other = of_residue(jnp.asarray(table.ALTERNATIVE14), aatype)
    swapped = jnp.take_along_axis(truth.atom14, other[..., None], axis=1)
    swapped_known = jnp.take_along_axis(truth.known14, other, axis=1)
    ambiguous = of_residue(jnp.asarray(table.AMBIGUOUS14), aatype)
    certain = (truth.known14 & ~ambiguous).reshape(-1)
    everywhere = [x.reshape(-1, 3) for x in (predicted, truth.atom14)]

    def errors(place: Array, named: Array, renamed: Array, mine: Bool[Array, "row 14"]) -> tuple[Array, Array]:
        ahead, true, alternative = (
            _to_all(*pair)
            for pair in zip((place, named, renamed), (everywhere[0], everywhere[1], everywhere[1]), strict=True)
        )
        both = (mine[..., None] & certain[None, None]).astype(ahead.dtype)
        return (both * _gap(ahead, true)).sum((1, 2)), (both * _gap(ahead, alternative)).sum((1, 2))

    as_named, as_renamed = map_rows(errors, predicted, truth.atom14, swapped, truth.known14 & ambiguous, size=rows)
    better = as_renamed < as_named
    groups = truth.groups
    mixed = [
        jnp.where(better.reshape(-1, *[1] * (own.ndim - 1)), alternative, own)
        for own, alternative in zip(groups.frames, groups.alternative, strict=True)
    ]
    return truth._replace(
        atom14=jnp.where(better[:, None, None], swapped, truth.atom14),
        known14=jnp.where(better[:, None], swapped_known, truth.known14),
        groups=groups._replace(frames=Rigid(*mixed)),
    )


def _to_all(some: Float[Array, "row 14 3"], all_atoms: Float[Array, "atom 3"]) -> Float[Array, "row 14 atom"]:
    return distances(some[:, :, None], all_atoms[None, None], small=1e-10)


def _gap(left: Float[Array, "row 14 atom"], right: Float[Array, "row 14 atom"]) -> Float[Array, "row 14 atom"]:
    return jnp.sqrt(1e-10 + jnp.square(left - right))
