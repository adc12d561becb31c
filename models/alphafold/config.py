"""Sizes of AlphaFold. Channel numbers from Jumper et al. 2021, Suppl. 1.6, and the published parameters."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AlphaFoldConfig:
    """Everything that fixes the parameters' shapes and the mathematics, and nothing about memory."""

    evoformer_blocks: int = 48
    extra_blocks: int = 4
    msa_channels: int = 256
    """c_m"""
    extra_msa_channels: int = 64
    """c_e"""
    pair_channels: int = 128
    """c_z"""
    single_channels: int = 384
    """c_s"""
    msa_heads: int = 8
    extra_msa_heads: int = 8
    pair_heads: int = 4
    outer_channels: int = 32
    """channels of either side of the outer product mean"""
    triangle_channels: int = 128
    """channels of the products of edges in the triangle multiplications"""
    transition_factor: int = 4
    msa_dropout: float = 0.15
    pair_dropout: float = 0.25
    structure_dropout: float = 0.1
    relative_window: int = 32
    """residue offsets beyond this share one encoding (Suppl. Algorithm 4)"""
    previous_bins: int = 15
    """bins of the previous structure's distances, 3.25 to 20.75 Angstrom (Suppl. Algorithm 32)"""
    distogram_bins: int = 64
    """2.3125 to 21.6875 Angstrom (Suppl. 1.9.8)"""
    templates: bool = True
    """False in published models 3, 4 and 5"""
    template_channels: int = 64
    """c_t"""
    template_blocks: int = 2
    template_heads: int = 4
    template_factor: int = 2
    template_bins: int = 39
    """bins of a template's distances, 3.25 to 50.75 Angstrom (Suppl. Table 1)"""
    aligned_error: bool = False
    """whether there is a head for the predicted aligned error, as in the published pTM models"""
    aligned_error_bins: int = 64
    lddt_bins: int = 50
    lddt_channels: int = 128
    structure_layers: int = 8
    """iterations of the structure module, which share their parameters"""
    point_heads: int = 12
    """heads of the invariant point attention"""
    scalar_key_channels: int = 16
    scalar_value_channels: int = 16
    point_keys: int = 4
    """points of a head that queries and keys compare"""
    point_values: int = 8
    """points of a head that are read"""
    sidechain_channels: int = 128


PUBLISHED = tuple(f"model_{number}{head}" for number in range(1, 6) for head in ("", "_ptm"))
"""The published monomer models; 1 and 2 read templates, and those with pTM predict the aligned error."""


def monomer(name: str = "model_1") -> AlphaFoldConfig:
    """A published model: 48 Evoformer and 4 extra-MSA blocks (Suppl. Table 5)."""
    if name not in PUBLISHED:
        raise ValueError(f"no published model is called {name!r}; they are {', '.join(PUBLISHED)}")
    return AlphaFoldConfig(templates=name.startswith(("model_1", "model_2")), aligned_error=name.endswith("_ptm"))


def small(blocks: int = 4) -> AlphaFoldConfig:
    """A trunk which two CPU cores can train: same architecture, narrower."""
    return AlphaFoldConfig(
        evoformer_blocks=blocks,
        extra_blocks=1,
        msa_channels=64,
        extra_msa_channels=32,
        pair_channels=48,
        single_channels=64,
        msa_heads=4,
        extra_msa_heads=4,
        outer_channels=12,
        triangle_channels=48,
        transition_factor=2,
        templates=False,
        aligned_error=True,
        lddt_channels=32,
        structure_layers=4,
        point_heads=4,
        sidechain_channels=48,
    )


def tiny() -> AlphaFoldConfig:
    """For tests: every part present, as narrow as it can be without symmetries."""
    return AlphaFoldConfig(
        evoformer_blocks=3,
        extra_blocks=2,
        msa_channels=12,
        extra_msa_channels=8,
        pair_channels=8,
        single_channels=6,
        msa_heads=2,
        extra_msa_heads=4,
        pair_heads=2,
        outer_channels=5,
        triangle_channels=7,
        transition_factor=2,
        template_channels=6,
        template_heads=2,
        template_bins=9,
        aligned_error=True,
        aligned_error_bins=8,
        lddt_bins=10,
        lddt_channels=6,
        structure_layers=3,
        point_heads=2,
        scalar_key_channels=3,
        scalar_value_channels=5,
        point_keys=2,
        point_values=3,
        sidechain_channels=6,
    )
