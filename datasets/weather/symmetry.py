"""Other weather of a planet that is the same at every longitude and in both hemispheres: turned, mirrored, as likely.

No continents, no seasons: the planets of idealised simulations such as Held-Suarez. The Earth is none of them.
"""

from typing import Final

import numpy as np
import xarray as xr

from elbowroom.datasets.findings import listed
from elbowroom.datasets.weather.examples import Example

NORTHWARD: Final = ("v", "10v")
"""Winds that blow the other way in a mirror at the equator"""
_SIGNS_KNOWN: Final = ("u", "v", "t", "q", "z", "r", "w", "10u", "10v", "2t", "msl", "sp")
_CLOSE: Final = 1e-3
"""degrees"""


class SymmetryError(ValueError):
    """Fields that cannot be turned and mirrored onto their own grid."""


def require_symmetric_grid(dataset: xr.Dataset) -> None:
    """Raise `SymmetryError` for a region, latitudes that differ between hemispheres, and variables of unknown sign."""
    latitude, longitude = dataset["latitude"].values, dataset["longitude"].values
    if not np.allclose(latitude, -latitude[::-1], atol=_CLOSE):
        raise SymmetryError("the latitudes are not the same in both hemispheres: nothing can be mirrored")
    around = np.diff(longitude, append=longitude[0] + 360)
    if not np.allclose(around, 360 / len(longitude), atol=_CLOSE):
        raise SymmetryError("the longitudes are not evenly spaced around the globe: nothing can be turned")
    unknown = [str(name) for name in dataset.data_vars if name not in _SIGNS_KNOWN]
    if unknown:
        raise SymmetryError(f"whether {listed(unknown)} changes its sign in a mirror is not known; leave it out")


def turned_and_mirrored(example: Example, random: np.random.Generator) -> Example:
    """Every field, and what is known of it, turned about the axis by one random angle; half of the time mirrored."""
    places, mirrored = int(random.integers(2**31)), bool(random.integers(2))
    return {name: _moved(name, field, places, mirrored) for name, field in example.items()}


def _moved(name: str, field: np.ndarray, places: int, mirrored: bool) -> np.ndarray:
    if field.ndim < 2:
        return field
    turned = np.roll(field, places % field.shape[-1], axis=-1)
    if not mirrored:
        return turned
    return -turned[..., ::-1, :] if name in NORTHWARD else turned[..., ::-1, :]
