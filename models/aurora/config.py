"""Sizes of an Aurora model; the presets are those of the published checkpoints.

Bodnar et al. 2025, "A foundation model for the Earth system", Supplement B.
"""

from dataclasses import dataclass

SURFACE = ("2t", "10u", "10v", "msl")
STATIC = ("lsm", "z", "slt")
ATMOSPHERE = ("z", "u", "v", "t", "q")


@dataclass(frozen=True, kw_only=True)
class AuroraConfig:
    """Everything that decides the shapes of the parameters, and how the heads divide them."""

    surface: tuple[str, ...] = SURFACE
    """Variables at the surface, in the order of their axis"""
    static: tuple[str, ...] = STATIC
    """Variables that do not change with time"""
    atmosphere: tuple[str, ...] = ATMOSPHERE
    """Variables at every pressure level"""
    history: int = 2
    """Times given, the newest last"""
    patch: int = 4
    """Grid points of a patch, along latitude and along longitude"""
    channels: int = 512
    """Of a token at full resolution; every coarser stage has twice as many"""
    latent_levels: int = 4
    """Levels of the backbone, the surface being the first"""
    heads: int = 16
    """Of the attention between pressure levels and latent levels"""
    encoder_depth: int = 1
    decoder_depth: int = 1
    """Layers of that attention, in and out"""
    mlp_factor: float = 4.0
    decoder_mlp_factor: float = 2.0
    window: tuple[int, int, int] = (2, 6, 12)
    """Latent levels, latitudes and longitudes of patches that attend to each other"""
    down_depths: tuple[int, ...] = (6, 10, 8)
    """Blocks of every stage on the way to the coarsest"""
    down_heads: tuple[int, ...] = (8, 16, 32)
    up_depths: tuple[int, ...] = (8, 10, 6)
    """Blocks of every stage on the way back, the coarsest first"""
    up_heads: tuple[int, ...] = (32, 16, 8)
    lora_rank: int = 0
    """Of the low-rank updates of attention's matrices for roll-outs; 0 for none"""
    lora_alpha: float = 8.0
    """The updates are scaled by this over their rank."""
    stabilised: bool = False
    """Layer-normalise keys and queries of the encoder's attention"""


def pretrained() -> AuroraConfig:
    """AuroraPretrained, 0.25 degree: 1.256 billion parameters."""
    return AuroraConfig()


def small() -> AuroraConfig:
    """AuroraSmallPretrained: 113 million parameters."""
    return AuroraConfig(
        channels=256,
        heads=8,
        down_depths=(2, 6, 2),
        down_heads=(4, 8, 16),
        up_depths=(2, 6, 2),
        up_heads=(16, 8, 4),
    )
