"""The backbone: a U-Net of stages, each a stack of blocks whose attention stays within windows.

Liu et al. 2021 (Swin), with the normalisation after each module conditioned on the lead time; Bodnar et al. 2025,
Supplement B.4. Tokens lie as [level lat lon c].
"""

from functools import partial

import jax
import jax.numpy as jnp
from einops import rearrange
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import to_compute, wide
from elbowroom.memory.recompute import name, recomputed_block, recomputed_module
from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.layers import EPSILON, LayerNorm, Linear, gelu
from elbowroom.models.aurora.windows import Triple, Windows, windows_of
from elbowroom.models.layers import along_last, normalised
from elbowroom.models.stack import run_stack, stack

type Tokens = Float[Array, "level lat lon c"]
APART = -100.0
"""Added to the logits of tokens that are neighbours only because of the shift"""


class AdaptiveNorm(nnx.Module):
    """Normalise, then scale and shift by what the lead time says."""

    def __init__(self, channels: int, context: int, *, rngs: nnx.Rngs):
        self.ln_modulation = nnx.Dict({"1": Linear(context, 2 * channels, rngs=rngs, zero=True)})

    def __call__(self, x: Float[Array, "*any c"], context: Float[Array, "d"]) -> Float[Array, "*any c"]:
        shift, scale = jnp.split(self.ln_modulation["1"](jax.nn.silu(context)), 2)
        normal = normalised(x, EPSILON)
        return (normal * along_last(scale, normal) + along_last(shift, normal)).astype(x.dtype)


class LowRank(nnx.Module):
    """What LoRA adds to a linear layer (Hu et al. 2021); nothing at the start."""

    def __init__(self, inputs: int, outputs: int, rank: int, *, rngs: nnx.Rngs):
        pair = {"lora_A": Linear(inputs, rank, rngs=rngs, bias=False).weight}
        self.loras = nnx.List([nnx.Dict({**pair, "lora_B": nnx.Param(jnp.zeros((outputs, rank), jnp.float32))})])

    def __call__(self, x: Float[Array, "*any inputs"]) -> Float[Array, "*any outputs"]:
        (pair,) = self.loras
        down, up = (pair[key][...].astype(x.dtype) for key in ("lora_A", "lora_B"))
        return jnp.einsum("...r,or->...o", jnp.einsum("...i,ri->...r", x, down), up)


class WindowAttention(nnx.Module):
    """Tokens of one window attend to each other."""

    def __init__(self, channels: int, heads: int, config: AuroraConfig, *, rngs: nnx.Rngs):
        self.heads, rank = heads, config.lora_rank
        self.qkv, self.proj = Linear(channels, 3 * channels, rngs=rngs), Linear(channels, channels, rngs=rngs)
        self.low_rank = config.lora_alpha / rank if rank else 0.0
        if rank:
            self.lora_qkv = LowRank(channels, 3 * channels, rank, rngs=rngs)
            self.lora_proj = LowRank(channels, channels, rank, rngs=rngs)

    def __call__(
        self, tokens: Float[Array, "window token c"], group: Int[Array, "window token"]
    ) -> Float[Array, "window token c"]:
        """`group`: tokens with different numbers see next to nothing of each other."""
        joint = self.qkv(tokens) + self.low_rank * self.lora_qkv(tokens) if self.low_rank else self.qkv(tokens)
        query, key, value = rearrange(joint, "w token (three head c) -> three w head token c", three=3, head=self.heads)
        query = query * jnp.asarray(query.shape[-1] ** -0.5, query.dtype)
        logits = jnp.einsum("whqc,whkc->whqk", query, key, preferred_element_type=wide(query.dtype))
        apart = (group[:, :, None] != group[:, None, :]).astype(logits.dtype) * jnp.asarray(APART, logits.dtype)
        weights = jax.nn.softmax(logits + apart[:, None], axis=-1).astype(value.dtype)
        read = rearrange(jnp.einsum("whqk,whkc->whqc", weights, value), "w head token c -> w token (head c)")
        return self.proj(read) + self.low_rank * self.lora_proj(read) if self.low_rank else self.proj(read)


class SwinMLP(nnx.Module):
    """Two linear layers with an exact GELU between them."""

    def __init__(self, channels: int, hidden: int, *, rngs: nnx.Rngs):
        self.fc1, self.fc2 = Linear(channels, hidden, rngs=rngs), Linear(hidden, channels, rngs=rngs)

    def __call__(self, x: Float[Array, "*any c"]) -> Float[Array, "*any c"]:
        return self.fc2(gelu(self.fc1(x)))


class SwinBlock(nnx.Module):
    """Attention within windows and a small network; what each gives is normalised, then added."""

    def __init__(self, channels: int, heads: int, config: AuroraConfig, *, rngs: nnx.Rngs):
        self.norm1 = AdaptiveNorm(channels, config.channels, rngs=rngs)
        self.attn = WindowAttention(channels, heads, config, rngs=rngs)
        self.norm2 = AdaptiveNorm(channels, config.channels, rngs=rngs)
        self.mlp = SwinMLP(channels, int(channels * config.mlp_factor), rngs=rngs)

    def __call__(
        self, tokens: Tokens, context: Float[Array, "d"], shifted: Bool[Array, ""], windows: Windows, plan: Plan
    ) -> Tokens:
        """`shifted`: whether the windows are moved by half of one; it may be traced."""
        tokens = name(tokens, "tokens_in")

        def attend(tokens: Tokens) -> Tokens:
            return self._within_windows(tokens, context, shifted, windows, plan)

        def transform(tokens: Tokens) -> Tokens:
            return map_rows(
                lambda some: self.norm2(self.mlp(some), context), tokens, size=plan.chunk.rows, axes=(1,), out_axis=1
            )

        tokens = tokens + name(recomputed_module(attend, plan.recompute)(tokens), "window_attention")
        return tokens + name(recomputed_module(transform, plan.recompute)(tokens), "mlp")

    def _within_windows(
        self, tokens: Tokens, context: Float[Array, "d"], shifted: Bool[Array, ""], windows: Windows, plan: Plan
    ) -> Tokens:
        """Windows of one latitude are a row; so many rows at a time as hold `plan.chunk.rows` latitudes."""
        padded = jnp.pad(_rolled_if(shifted, tokens, tuple(-by for by in windows.shift)), (*windows.padding, (0, 0)))
        groups = jnp.where(shifted, jnp.asarray(windows.groups(), jnp.int32), 0)
        sizes = dict(zip(("z", "y", "x"), windows.window, strict=True))
        cut = "(nz z) (ny y) (nx x) ..."
        tiles, numbers = (rearrange(x, f"{cut} -> nz z ny y nx x ...", **sizes) for x in (padded, groups))

        def rows(some: Float[Array, "row nz z y nx x c"], group: Int[Array, "row nz z y nx x"]) -> Array:
            shape = dict(zip(("row", "nz", "nx"), (some.shape[0], some.shape[1], some.shape[4]), strict=True))
            some, group = (rearrange(a, "row nz z y nx x ... -> (row nz nx) (z y x) ...") for a in (some, group))
            update = self.norm1(self.attn(some, group), context)
            return rearrange(update, "(row nz nx) (z y x) c -> row nz z y nx x c", **shape, **sizes)

        size = None if plan.chunk.rows is None else -(-plan.chunk.rows // windows.window[1])
        update = map_rows(rows, tiles, numbers, size=size, axes=(2, 2), out_axis=2)
        update = rearrange(update, "nz z ny y nx x c -> (nz z) (ny y) (nx x) c")
        start = [before for before, _ in (*windows.padding, (0, 0))]
        return _rolled_if(shifted, jax.lax.dynamic_slice(update, start, tokens.shape), windows.shift)


class Merge(nnx.Module):
    """Four neighbours become one token of twice the channels."""

    def __init__(self, channels: int, *, rngs: nnx.Rngs):
        self.reduction = Linear(4 * channels, 2 * channels, rngs=rngs, bias=False)
        self.norm = LayerNorm(4 * channels)

    def __call__(self, tokens: Tokens) -> Float[Array, "level half_lat half_lon double"]:
        odd = [(0, n % 2) for n in tokens.shape[1:3]]
        tokens = jnp.pad(tokens, ((0, 0), *odd, (0, 0)))
        joined = rearrange(tokens, "level (lat y) (lon x) c -> level lat lon (y x c)", y=2, x=2)
        return self.reduction(self.norm(joined))


class Split(nnx.Module):
    """One token becomes four neighbours of half the channels."""

    def __init__(self, channels: int, *, rngs: nnx.Rngs):
        self.lin1 = Linear(channels, 2 * channels, rngs=rngs, bias=False)
        self.lin2 = Linear(channels // 2, channels // 2, rngs=rngs, bias=False)
        self.norm = LayerNorm(channels // 2)

    def __call__(self, tokens: Tokens, resolution: Triple) -> Float[Array, "level lat2 lon2 half"]:
        """`resolution`: of the finer grid, whose padding is cut off."""
        fine = rearrange(self.lin1(tokens), "level lat lon (y x c) -> level (lat y) (lon x) c", y=2, x=2)
        return self.lin2(self.norm(fine[:, : resolution[1], : resolution[2]]))


class Stage(nnx.Module):
    """Blocks of one resolution, and the way to the next."""

    def __init__(self, channels: int, heads: int, depth: int, config: AuroraConfig, *, to: str | None, rngs: nnx.Rngs):
        self.blocks = stack(lambda one: SwinBlock(channels, heads, config, rngs=one), depth, rngs=rngs)
        if to == "coarser":
            self.downsample = Merge(channels, rngs=rngs)
        if to == "finer":
            self.upsample = Split(channels, rngs=rngs)

    def __call__(self, tokens: Tokens, context: Float[Array, "d"], window: Triple, plan: Plan) -> Tokens:
        """All blocks, every second one with shifted windows."""
        windows = windows_of(_resolution(tokens), window)

        def call(block: SwinBlock, carry: tuple[Tokens, Array], key: Key[Array, ""] | None) -> tuple[Tokens, Array]:
            tokens, shifted = carry
            return block(tokens, context, shifted, windows, plan), ~shifted

        return run_stack(self.blocks, call, (tokens, jnp.zeros((), bool)), None, plan)[0]


class Backbone(nnx.Module):
    """Down to the coarsest stage and back, with the finest stage's tokens beside the result."""

    def __init__(self, config: AuroraConfig, *, rngs: nnx.Rngs):
        self.window, last = config.window, len(config.down_depths) - 1
        channels = config.channels
        self.time_mlp = nnx.Dict(
            {"0": Linear(channels, channels, rngs=rngs), "2": Linear(channels, channels, rngs=rngs)}
        )
        self.encoder_layers = nnx.List(
            [
                Stage(channels * 2**i, heads, depth, config, to=None if i == last else "coarser", rngs=rngs)
                for i, (depth, heads) in enumerate(zip(config.down_depths, config.down_heads, strict=True))
            ]
        )
        self.decoder_layers = nnx.List(
            [
                Stage(channels * 2 ** (last - i), heads, depth, config, to=None if i == last else "finer", rngs=rngs)
                for i, (depth, heads) in enumerate(zip(config.up_depths, config.up_heads, strict=True))
            ]
        )

    def __call__(
        self, tokens: Tokens, lead_time: Float[Array, "c"], plan: Plan
    ) -> Float[Array, "level lat lon double"]:
        """`lead_time`: its Fourier features."""
        context = self.time_mlp["2"](jax.nn.silu(self.time_mlp["0"](to_compute(lead_time, plan.precision))))
        skips: list[Tokens] = []
        for stage in self.encoder_layers:
            tokens = stage(tokens, context, self.window, plan)
            skips.append(tokens)
            if hasattr(stage, "downsample"):
                tokens = recomputed_block(stage.downsample, plan, barrier=True)(tokens)
        for step, stage in enumerate(self.decoder_layers):
            tokens, left = stage(tokens, context, self.window, plan), len(skips) - 1 - step
            if left > 0:
                upsample = partial(stage.upsample, resolution=_resolution(skips[left - 1]))
                tokens = recomputed_block(upsample, plan, barrier=True)(tokens)
            tokens = tokens + skips[left - 1] if step > 0 and left > 0 else tokens
        # Without the barrier the gradients of both lie in one array till that of the skip is used, at the very end.
        return jnp.concatenate(jax.lax.optimization_barrier((tokens, skips[0])), axis=-1)


def _rolled_if(shifted: Bool[Array, ""], tokens: Tokens, by: tuple[int, ...]) -> Tokens:
    """A choice between two arrays: to roll by a traced number takes arrays twice as long, one axis after the other."""
    return jnp.where(shifted, jnp.roll(tokens, by, (0, 1, 2)), tokens)


def _resolution(tokens: Tokens) -> Triple:
    level, latitude, longitude, _ = tokens.shape
    return level, latitude, longitude
