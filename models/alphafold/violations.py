"""How far a predicted structure breaks the rules of chemistry (Jumper et al. 2021, Suppl. 1.9.11)."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int

from elbowroom.memory.chunk import map_rows
from elbowroom.models.alphafold import residues as table
from elbowroom.models.alphafold.atoms import of_residue
from elbowroom.models.alphafold.geometry import distances

TOLERANCE = 12.0
"""Standard deviations by which bond lengths and angles may be off"""
OVERLAP = 1.5
"""Angstrom by which the spheres of two atoms may overlap"""
BOND, BOND_TO_PROLINE = (1.329, 0.014), (1.341, 0.016)
"""Length and standard deviation of the peptide bond, Angstrom"""
COSINE_CA_C_N, COSINE_C_N_CA = (-0.4473, 0.0311), (-0.5203, 0.0353)
"""Cosines of the angles at the peptide bond, with their standard deviations"""
CA_CA = 3.80209737096
"""Angstrom between neighbours' CA in a trans peptide"""


class Connections(NamedTuple):
    """Of the peptide bonds between neighbours in the chain."""

    bond: Float[Array, ""]
    angle_ca_c_n: Float[Array, ""]
    angle_c_n_ca: Float[Array, ""]
    per_residue: Float[Array, "res"]
    violated: Bool[Array, "res"]


class PerAtom(NamedTuple):
    """A loss in Angstrom and a verdict for every atom."""

    loss: Float[Array, "res 14"]
    violated: Bool[Array, "res 14"]


class Violations(NamedTuple):
    """Everything that is wrong with a structure."""

    connections: Connections
    clashes: PerAtom
    clash_mean: Float[Array, ""]
    """Angstrom, over all pairs of atoms of different residues"""
    within: PerAtom

    def per_residue(self) -> Bool[Array, "res"]:
        return self.connections.violated | self.clashes.violated.any(-1) | self.within.violated.any(-1)

    def loss(self, exists: Bool[Array, "res 14"]) -> Float[Array, ""]:
        """Suppl. Equation 47."""
        atoms = (self.clashes.loss + self.within.loss).sum() / (1e-6 + exists.sum().astype(self.clash_mean.dtype))
        return self.connections.bond + self.connections.angle_ca_c_n + self.connections.angle_c_n_ca + atoms


def violations(
    aatype: Int[Array, "res"],
    residue_index: Int[Array, "res"],
    atom14: Float[Array, "res 14 3"],
    exists: Bool[Array, "res 14"],
    *,
    rows: int | None,
) -> Violations:
    """All violations; `exists` is False for atoms a residue does not have, and for padding."""
    clashes, mean = _clashes(aatype, residue_index, atom14, exists, rows=rows)
    return Violations(
        _connections(aatype, residue_index, atom14, exists), clashes, mean, _within(aatype, atom14, exists)
    )


def extreme_ca_distances(
    residue_index: Int[Array, "res"], atom14: Float[Array, "res 14 3"], exists: Bool[Array, "res 14"]
) -> Float[Array, ""]:
    """Share of neighbours whose CA are 1.5 Angstrom farther apart than they can be."""
    ca, known = atom14[:, table.CA14], exists[:, table.CA14]
    far = distances(ca[:-1], ca[1:], small=1e-6) - CA_CA > OVERLAP
    both = known[:-1] & known[1:] & (jnp.diff(residue_index) == 1)
    return _mean(far.astype(atom14.dtype), both, small=1e-10)


def _connections(
    aatype: Int[Array, "res"],
    residue_index: Int[Array, "res"],
    atom14: Float[Array, "res 14 3"],
    exists: Bool[Array, "res 14"],
) -> Connections:
    """Suppl. Equations 44 and 45."""
    (ca, c), (n, next_ca) = ((atom14[:-1, i] for i in (1, 2)), (atom14[1:, i] for i in (0, 1)))
    has_ca, has_c, has_n, has_next_ca = exists[:-1, 1], exists[:-1, 2], exists[1:, 0], exists[1:, 1]
    bonded = has_c & has_n & (jnp.diff(residue_index) == 1)
    proline = aatype[1:] == table.PROLINE
    length, deviation = (
        jnp.where(proline, to_proline, other).astype(atom14.dtype)
        for other, to_proline in zip(BOND, BOND_TO_PROLINE, strict=True)
    )
    bond = distances(c, n, small=1e-6)
    to_ca = (ca - c) / distances(ca, c, small=1e-6)[:, None]
    to_n = (n - c) / bond[:, None]
    onwards = (next_ca - n) / distances(n, next_ca, small=1e-6)[:, None]
    terms = [
        (bond - length, deviation, bonded),
        ((to_ca * to_n).sum(-1) - COSINE_CA_C_N[0], COSINE_CA_C_N[1], bonded & has_ca),
        ((-to_n * onwards).sum(-1) - COSINE_C_N_CA[0], COSINE_C_N_CA[1], bonded & has_next_ca),
    ]
    losses, wrong = [], []
    for difference, allowed, mask in terms:
        error = jnp.sqrt(1e-6 + jnp.square(difference))
        losses.append((jax.nn.relu(error - TOLERANCE * allowed), mask))
        wrong.append(mask & (error > TOLERANCE * allowed))
    shared = 0.5 * sum(loss for loss, _ in losses)
    broken = wrong[0] | wrong[1] | wrong[2]
    bond_mean, *angle_means = (_mean(loss, mask, small=1e-6) for loss, mask in losses)
    before, after = ((0, 1),), ((1, 0),)
    per_residue = jnp.pad(shared, before) + jnp.pad(shared, after)
    return Connections(
        bond_mean, angle_means[0], angle_means[1], per_residue, jnp.pad(broken, before) | jnp.pad(broken, after)
    )


def _clashes(
    aatype: Int[Array, "res"],
    residue_index: Int[Array, "res"],
    atom14: Float[Array, "res 14 3"],
    exists: Bool[Array, "res 14"],
    *,
    rows: int | None,
) -> tuple[PerAtom, Float[Array, ""]]:
    """Atoms of different residues that come too near (Suppl. Equation 46); bonded ones and disulfides are exempt."""
    radius = of_residue(jnp.asarray(table.ATOM14_RADIUS, atom14.dtype), aatype)
    column = jnp.arange(14)

    def is_pair(one: int, other: int) -> Bool[Array, "1 14 1 14"]:
        return (column == one)[None, :, None, None] & (column == other)[None, None, None, :]

    forward, backward = is_pair(table.C14, table.N14), is_pair(table.N14, table.C14)
    disulfide = is_pair(table.SULFUR14, table.SULFUR14)

    def near(
        place: Float[Array, "row 14 3"], size: Float[Array, "row 14"], here: Bool[Array, "row 14"], index: Array
    ) -> tuple[Array, Array, Array]:
        offset = (residue_index[None] - index[:, None])[:, None, :, None]
        exempt = (offset == 0) | ((offset == 1) & forward) | ((offset == -1) & backward) | disulfide
        counted = here[:, :, None, None] & exists[None, None] & ~exempt
        apart = distances(place[:, :, None, None], atom14[None, None], small=1e-10)
        allowed = size[:, :, None, None] + radius[None, None] - OVERLAP
        error = jnp.where(counted, jax.nn.relu(allowed - apart), 0)
        return error.sum((2, 3)), (counted & (apart < allowed)).any((2, 3)), counted.sum((2, 3)).astype(error.dtype)

    loss, violated, pairs = map_rows(near, atom14, radius, exists, residue_index, size=rows)
    return PerAtom(loss, violated), loss.sum() / 2 / (1e-6 + pairs.sum() / 2)


def _within(aatype: Int[Array, "res"], atom14: Float[Array, "res 14 3"], exists: Bool[Array, "res 14"]) -> PerAtom:
    """Atoms of one residue, against the distances that its bonds and angles allow."""
    lower, upper = (of_residue(jnp.asarray(bound, atom14.dtype), aatype) for bound in distance_bounds())
    both = exists[:, :, None] & exists[:, None] & ~jnp.eye(14, dtype=bool)[None]
    apart = distances(atom14[:, :, None], atom14[:, None], small=1e-10)
    loss = jnp.where(both, jax.nn.relu(lower - apart) + jax.nn.relu(apart - upper), 0)
    return PerAtom(2 * loss.sum(2), (both & ((apart < lower) | (apart > upper))).any(2))


@cache
def distance_bounds() -> tuple[Float32[np.ndarray, "21 14 14"], Float32[np.ndarray, "21 14 14"]]:
    """Least and largest distance of any two atoms of a residue, Angstrom; zero for atoms that do not exist."""
    lower, upper = np.zeros((table.TYPES, 14, 14), np.float32), np.zeros((table.TYPES, 14, 14), np.float32)
    for row, residue in enumerate(table.RESIDUES.values()):
        names = list(residue["atoms"])
        radius = table.ATOM14_RADIUS[row, : len(names)]
        here = lower[row, : len(names), : len(names)], upper[row, : len(names), : len(names)]
        here[0][...], here[1][...] = radius[:, None] + radius[None] - OVERLAP, 1e10
        for one, other, length, deviation in [*_bonds(residue["bonds"]), *_opposite_angles(residue)]:
            i, j = names.index(one), names.index(other)
            lower[row, i, j] = lower[row, j, i] = length - TOLERANCE * deviation
            upper[row, i, j] = upper[row, j, i] = length + TOLERANCE * deviation
        np.fill_diagonal(lower[row], 0.0)
        np.fill_diagonal(upper[row], 0.0)
    return lower, upper


def _bonds(bonds: dict[str, list[float]]) -> Iterator[tuple[str, str, float, float]]:
    for pair, (length, deviation) in bonds.items():
        one, other = pair.split("-")
        yield one, other, length, deviation


def _opposite_angles(residue: dict[str, Any]) -> Iterator[tuple[str, str, float, float]]:
    """The distance of two atoms bonded to a third, by the law of cosines, and its deviation by error propagation."""
    bonds = {frozenset(pair.split("-")): value for pair, value in residue["bonds"].items()}
    for triple, (degrees, deviation) in residue["angles"].items():
        one, middle, other = triple.split("-")
        (a, da), (b, db) = bonds[frozenset((one, middle))], bonds[frozenset((middle, other))]
        angle, dangle = np.deg2rad(degrees), np.deg2rad(deviation)
        length = np.sqrt(a * a + b * b - 2 * a * b * np.cos(angle))
        by_parts = [a * b * np.sin(angle) * dangle, (a - b * np.cos(angle)) * da, (b - a * np.cos(angle)) * db]
        yield one, other, float(length), float(np.linalg.norm(by_parts) / length)


def _mean(values: Float[Array, "res"], mask: Bool[Array, "res"], *, small: float) -> Float[Array, ""]:
    weight = mask.astype(values.dtype)
    return (values * weight).sum() / (weight.sum() + small)
