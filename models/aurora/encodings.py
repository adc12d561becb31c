"""Where and when: Fourier features of position, patch area, level, lead time and date, made on the host in float64.

Float32 does not do: the shortest wavelength of the patch area is so short that one rounding turns the phase by about
a cycle. Rounded to float32 when made, they are inputs of the model. Bodnar et al. 2025, Supplement B.2.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Num

from elbowroom.models.aurora.config import AuroraConfig

EARTH_RADIUS = 6371.0
"""km"""
POSITION = (0.01, 720.0)
"""Shortest and longest wavelength in degrees"""
AREA = (0.00010814085263058073, 511207893.39581096)
"""In km: roots of the areas of the smallest and the largest patch possible"""
LEVEL = (0.01, 1e5)
"""In hPa"""
LEAD_TIME = (1 / 60, 24 * 7 * 3.0)
"""In hours"""
DATE = (1.0, 24 * 365.25)
"""In hours"""


class GridError(ValueError):
    """A grid that cannot be cut into patches, or whose coordinates run the wrong way."""


class Encodings(NamedTuple):
    """Of one example; float32."""

    latitude: Float[np.ndarray, "row half"]
    """Of rows of patches"""
    longitude: Float[np.ndarray, "column half"]
    area: Float[np.ndarray, "row width c"]
    """Root of the patch's area; one column where all are equally wide"""
    level: Float[np.ndarray, "level c"]
    query: Float[np.ndarray, "level double"]
    """The same with the decoder's channels"""
    lead_time: Float[np.ndarray, "c"]
    date: Float[np.ndarray, "c"]
    """Of the newest given time"""


def fourier(values: Num[np.ndarray, "*any"], wavelengths: tuple[float, float], channels: int) -> np.ndarray:
    """Sines, then cosines, of values over wavelengths spaced evenly in the logarithm; float64 `[*any channels]`."""
    shortest, longest = np.log10(wavelengths)
    lengths = np.logspace(shortest, longest, channels // 2)
    angle = np.asarray(values, np.float64)[..., None] * (2 * np.pi / lengths)
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)


def encodings(
    config: AuroraConfig,
    latitude: Float[np.ndarray, "lat"],
    longitude: Float[np.ndarray, "lon"],
    levels: Num[np.ndarray, "level"],
    lead_time: float,
    date: float,
) -> Encodings:
    """All encodings of an example.

    Args:
      latitude, longitude: of the grid points that the model sees, in degrees, from north to south and eastwards.
      levels: in hPa.
      lead_time: hours from the newest given time to the predicted one.
      date: the newest given time, in hours since 1970-01-01 00 UTC.

    Raises `GridError` where the grid cannot be cut into patches.
    """
    rows, columns = (_patches(axis, config.patch) for axis in (_checked(latitude, -1), _checked(longitude, 1)))
    channels = config.channels
    made = Encodings(
        fourier(rows.mean(1), POSITION, channels // 2),
        fourier(columns.mean(1), POSITION, channels // 2),
        fourier(root_area(rows, columns), AREA, channels),
        fourier(np.asarray(levels), LEVEL, channels),
        fourier(np.asarray(levels), LEVEL, 2 * channels),
        fourier(np.asarray(lead_time), LEAD_TIME, channels),
        fourier(np.asarray(date), DATE, channels),
    )
    return Encodings(*(array.astype(np.float32) for array in made))


def root_area(
    rows: Float[np.ndarray, "row patch"], columns: Float[np.ndarray, "column patch"]
) -> Float[np.ndarray, "row width"]:
    """The root of the area between the outermost points of every patch, in km, as Aurora takes it.

    Its factor is pi where a sphere's is 1, and a patch ends at its last point, not half-way to the next.
    """
    sines = np.sin(np.deg2rad(rows.max(1))) - np.sin(np.deg2rad(rows.min(1)))
    widths = np.deg2rad(columns.max(1)) - np.deg2rad(columns.min(1))
    degrees = columns.max(1) - columns.min(1)
    if (degrees == degrees[0]).all():
        # Not only to save memory: the difference of two roundings is no width of a patch.
        widths = np.deg2rad(degrees[:1])
    return np.sqrt(EARTH_RADIUS**2 * np.pi * sines[:, None] * widths[None])


def _checked(degrees: Float[np.ndarray, "point"], direction: int) -> Float[np.ndarray, "point"]:
    degrees = np.asarray(degrees, np.float64)
    if not (np.diff(degrees) * direction > 0).all():
        raise GridError(
            "latitudes must fall from north to south and longitudes rise eastwards within 0..360; found "
            f"{degrees[:2].tolist()} ... {degrees[-1]}"
        )
    return degrees


def _patches(degrees: Float[np.ndarray, "point"], patch: int) -> Float[np.ndarray, "row patch"]:
    if len(degrees) % patch:
        raise GridError(
            f"{len(degrees)} grid points along an axis do not make patches of {patch}; the nearest lengths are "
            f"{len(degrees) // patch * patch} and {-(-len(degrees) // patch) * patch}"
        )
    return degrees.reshape(-1, patch)
