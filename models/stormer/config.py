"""Sizes of Stormer (Nguyen et al. 2023, arXiv 2312.03876) as in the published code."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StormerConfig:
    """Everything that fixes the parameters' shapes and the mathematics, and nothing about memory."""

    channels: int = 69
    """variables of the state, one for each level: 4 at the surface, 5 on 13 pressure levels"""
    latitudes: int = 128
    """rows of the grid, 1.40625 degrees apart; padded with zeros before the first to whole patches"""
    longitudes: int = 256
    """columns of the grid, a multiple of `patch`"""
    patch: int = 2
    """grid points along either side of a patch, which becomes one token"""
    width: int = 1024
    """channels of a token"""
    depth: int = 24
    """Transformer blocks"""
    heads: int = 16
    """of the blocks, and of the attention over variables"""
    mlp_factor: int = 4
    """channels inside the perceptrons, in units of `width`"""

    def __post_init__(self) -> None:
        if self.longitudes % self.patch:
            raise ValueError(
                f"longitudes = {self.longitudes} is not a multiple of patch = {self.patch}; only latitudes are padded"
            )
        if self.width % self.heads:
            raise ValueError(f"width = {self.width} is not a multiple of heads = {self.heads}")
        if self.width % 4:
            raise ValueError(f"width = {self.width} is not a multiple of 4: sine and cosine of two coordinates")

    @property
    def rows(self) -> int:
        """Patches from north to south."""
        return -(-self.latitudes // self.patch)

    @property
    def columns(self) -> int:
        """Patches around the globe."""
        return self.longitudes // self.patch


def published() -> StormerConfig:
    """The published model: 468.8 million parameters, 8,192 tokens."""
    return StormerConfig()


def small() -> StormerConfig:
    """A model which two CPU cores can train at 5.625 degrees: same architecture, narrower, with larger patches."""
    return StormerConfig(channels=7, latitudes=32, longitudes=64, patch=4, width=192, depth=4, heads=4)


def tiny() -> StormerConfig:
    """For tests: every part present, latitudes to be padded, as narrow as it can be without symmetries."""
    return StormerConfig(channels=3, latitudes=5, longitudes=8, patch=2, width=8, depth=3, heads=2)
