"""Windows of the latent atmosphere that attend within themselves, and which of their tokens belong together.

Liu et al. 2021 (Swin), in three dimensions and around the globe: longitude has no border.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int

type Triple = tuple[int, int, int]
"""Levels, latitudes, longitudes"""
OUTSIDE = -1


class Windows(NamedTuple):
    """How a grid of tokens is cut into windows."""

    resolution: Triple
    window: Triple
    shift: Triple
    """By how much every second block moves the grid before it is cut"""

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """Tokens before and after on each axis that make whole windows."""
        return tuple(centred(-n % w) for n, w in zip(self.resolution, self.window, strict=True))

    @property
    def counts(self) -> Triple:
        """Windows along each axis."""
        levels, latitudes, longitudes = (-(-n // w) for n, w in zip(self.resolution, self.window, strict=True))
        return levels, latitudes, longitudes

    def groups(self) -> Int[np.ndarray, "level lat lon"]:
        """A number for every token of the shifted, padded grid; tokens of one window and number see each other.

        What the shift brought together from opposite ends of the grid must not, save for longitudes.
        """
        axes = [_parts(n, w, s) for n, w, s in zip(self.resolution, self.window, self.shift, strict=True)]
        axes[2] = np.minimum(axes[2], 1)
        levels, latitudes, longitudes = axes
        numbers = 9 * levels[:, None, None] + 3 * latitudes[None, :, None] + longitudes[None, None, :]
        return np.pad(numbers, self.padding, constant_values=OUTSIDE)


def windows_of(resolution: Triple, window: Triple) -> Windows:
    """Windows no larger than the grid, moved by half of one where they are smaller than it."""
    sizes = [(min(n, w), 0 if n <= w else w // 2) for n, w in zip(resolution, window, strict=True)]
    (a, b, c), (d, e, f) = zip(*sizes, strict=True)
    return Windows(resolution, (a, b, c), (d, e, f))


def centred(more: int) -> tuple[int, int]:
    """Half of the padding before, the rest after."""
    return more // 2, more - more // 2


def _parts(length: int, window: int, shift: int) -> Int[np.ndarray, "{length}"]:
    """0 before the last window of the shifted axis, then 1 up to the seam, then 2."""
    places = np.arange(length)
    return (places >= length - window).astype(int) + (places >= length - shift)
