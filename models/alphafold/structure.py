"""The structure module: from single and pair representation to atoms (Jumper et al. 2021, Suppl. 1.8).

Always in float32 at least. Attribute names are those of the published parameters. Frames carry translations in units
of `POSITION_SCALE` while they are updated, and in Angstrom everywhere else.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import wide
from elbowroom.memory.recompute import recomputed_block
from elbowroom.models.alphafold.atoms import atoms_of_frames, frames_of_torsions, to_atom37
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.geometry import Rigid, apply, product, rotation_of, unit
from elbowroom.models.alphafold.point_attention import InvariantPointAttention
from elbowroom.models.layers import LayerNorm, Linear, dropout

POSITION_SCALE = 10.0
"""Angstrom"""


class Angles(NamedTuple):
    """Seven torsion angles of every residue."""

    sin_cos: Float[Array, "*layer res 7 2"]
    raw: Float[Array, "*layer res 7 2"]
    """before division by their length"""


class Structure(NamedTuple):
    """What the structure module predicts. Positions in Angstrom."""

    act: Float[Array, "res c_s"]
    quaternions: Float[Array, "layer res 4"]
    """backbone frames after every iteration"""
    translations: Float[Array, "layer res 3"]
    angles: Angles
    """after every iteration"""
    frames: Rigid
    """all eight rigid groups, in the end"""
    atom14: Float[Array, "res 14 3"]
    atom37: Float[Array, "res 37 3"]

    def backbone(self) -> Rigid:
        """The final backbone frames."""
        return Rigid(rotation_of(self.quaternions[-1]), self.translations[-1])


class RigidSidechain(nnx.Module):
    """A residual network from both single representations to torsion angles (Suppl. Algorithm 20, l. 11-14)."""

    def __init__(self, single: int, channels: int, *, rngs: nnx.Rngs):
        self.input_projection = Linear(single, channels, rngs=rngs)
        self.input_projection_1 = Linear(single, channels, rngs=rngs)
        self.resblock1 = Linear(channels, channels, rngs=rngs, start="relu")
        self.resblock2 = Linear(channels, channels, rngs=rngs, start="zero")
        self.resblock1_1 = Linear(channels, channels, rngs=rngs, start="relu")
        self.resblock2_1 = Linear(channels, channels, rngs=rngs, start="zero")
        self.unnormalized_angles = Linear(channels, 14, rngs=rngs)

    def __call__(self, act: Float[Array, "res c_s"], initial: Float[Array, "res c_s"]) -> Angles:
        x = self.input_projection(jax.nn.relu(act)) + self.input_projection_1(jax.nn.relu(initial))
        for first, second in ((self.resblock1, self.resblock2), (self.resblock1_1, self.resblock2_1)):
            x = x + second(jax.nn.relu(first(jax.nn.relu(x))))
        raw = self.unnormalized_angles(jax.nn.relu(x)).reshape(-1, 7, 2)
        length = jnp.sqrt(jnp.maximum(jnp.square(raw).sum(-1, keepdims=True), 1e-12))
        return Angles(raw / length, raw)


class _Fold(NamedTuple):
    """What one iteration hands to the next."""

    act: Float[Array, "res c_s"]
    quaternion: Float[Array, "res 4"]
    translation: Float[Array, "res 3"]
    """in units of `POSITION_SCALE`"""


class FoldIteration(nnx.Module):
    """One update of the single representation and of the frames (Suppl. Algorithm 20, l. 5-14)."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        single = config.single_channels
        self.rate = config.structure_dropout
        self.invariant_point_attention = InvariantPointAttention(config, rngs=rngs)
        self.attention_layer_norm = LayerNorm(single)
        self.transition = Linear(single, single, rngs=rngs, start="relu")
        self.transition_1 = Linear(single, single, rngs=rngs, start="relu")
        self.transition_2 = Linear(single, single, rngs=rngs, start="zero")
        self.transition_layer_norm = LayerNorm(single)
        self.affine_update = Linear(single, 6, rngs=rngs, start="zero")
        self.rigid_sidechain = RigidSidechain(single, config.sidechain_channels, rngs=rngs)

    def __call__(
        self,
        fold: _Fold,
        initial: Float[Array, "res c_s"],
        pair: Float[Array, "res res c_z"],
        mask: Bool[Array, "res"],
        key: Key[Array, ""] | None,
        plan: Plan,
    ) -> tuple[_Fold, Angles]:
        keys = (None, None) if key is None else jax.random.split(key)
        frames = Rigid(rotation_of(fold.quaternion), fold.translation)
        act = fold.act + self.invariant_point_attention(fold.act, pair, frames, mask, plan)
        act = self.attention_layer_norm(dropout(act, keys[0], rate=self.rate))
        update = jax.nn.relu(self.transition_1(jax.nn.relu(self.transition(act))))
        act = self.transition_layer_norm(dropout(act + self.transition_2(update), keys[1], rate=self.rate))
        quaternion, translation = backbone_update(frames, fold.quaternion, self.affine_update(act))
        return _Fold(act, quaternion, translation), self.rigid_sidechain(act, initial)


class StructureModule(nnx.Module):
    """Iterations that share their parameters, from all residues at the origin (Suppl. Algorithm 20)."""

    def __init__(self, config: AlphaFoldConfig, *, rngs: nnx.Rngs):
        self.layers = config.structure_layers
        self.single_layer_norm = LayerNorm(config.single_channels)
        self.initial_projection = Linear(config.single_channels, config.single_channels, rngs=rngs)
        self.pair_layer_norm = LayerNorm(config.pair_channels)
        self.fold_iteration = FoldIteration(config, rngs=rngs)

    def __call__(
        self,
        single: Float[Array, "res c_s"],
        pair: Float[Array, "res res c_z"],
        aatype: Int[Array, "res"],
        mask: Bool[Array, "res"],
        key: Key[Array, ""] | None,
        plan: Plan,
    ) -> Structure:
        """`mask` is True for residues, False for padding; `key` None switches dropout off."""
        dtype = wide(single.dtype)
        initial = self.single_layer_norm(single.astype(dtype))
        edges = map_rows(lambda rows: self.pair_layer_norm(rows.astype(dtype)), pair, size=plan.chunk.rows)
        start = _Fold(
            self.initial_projection(initial),
            jnp.tile(jnp.asarray([[1, 0, 0, 0]], dtype), (len(aatype), 1)),
            jnp.zeros((len(aatype), 3), dtype),
        )

        def iteration(fold: _Fold, number: Int[Array, ""]) -> tuple[_Fold, tuple[Array, Array, Angles]]:
            own = None if key is None else jax.random.fold_in(key, number)
            fold, angles = self.fold_iteration(fold, initial, edges, mask, own, plan)
            # Without this, errors of late iterations would be levered through all earlier rotations (l. 20).
            going_on = fold._replace(quaternion=jax.lax.stop_gradient(fold.quaternion))
            return going_on, (fold.quaternion, fold.translation * POSITION_SCALE, angles)

        last, history = jax.lax.scan(recomputed_block(iteration, plan), start, jnp.arange(self.layers))
        quaternions, translations, angles = history
        backbone = Rigid(rotation_of(quaternions[-1]), translations[-1])
        frames = frames_of_torsions(aatype, backbone, angles.sin_cos[-1])
        atom14 = atoms_of_frames(aatype, frames)
        return Structure(last.act, quaternions, translations, angles, frames, atom14, to_atom37(aatype, atom14))


def backbone_update(
    frames: Rigid, quaternion: Float[Array, "res 4"], update: Float[Array, "res 6"]
) -> tuple[Float[Array, "res 4"], Float[Array, "res 3"]]:
    """Turned by the quaternion 1 + (b, c, d) and shifted, both in the frame's own axes (Suppl. Algorithm 23)."""
    turn = jnp.pad(update[:, :3], ((0, 0), (1, 0)))
    return unit(quaternion + product(quaternion, turn)), apply(frames, update[:, 3:])
