"""A small Aurora case on a coarse grid with every published variable, and physical fields for it."""

from functools import cache
from pathlib import Path

import numpy as np
import xarray as xr
from flax import nnx

from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.model import Aurora
from elbowroom.models.aurora.normalisation import atmosphere_scaling, surface_scaling
from elbowroom.models.aurora.weights import published_shapes
from elbowroom.studies.aurora import aurora_case

TINY = AuroraConfig(
    channels=16,
    heads=2,
    window=(2, 2, 3),
    down_depths=(1,),
    down_heads=(2,),
    up_depths=(1,),
    up_heads=(2,),
    latent_levels=3,
)
CASE = aurora_case("tiny", TINY)
LATITUDES, LONGITUDES, LEVELS = np.linspace(90, -90, 9), np.arange(0, 360, 30.0), [500, 850]
SIZES = {"latitudes": 9, "longitudes": 12, "levels": 2, "steps": 1, "batch": 1}
HOLE = {"time": 2, "level": 1, "latitude": 3, "longitude": 4}


def physical(times: int = 5) -> xr.Dataset:
    """Random fields with the mean and scale of each variable, and one hole in the temperature."""
    rng = np.random.default_rng(0)
    mean, scale = surface_scaling(TINY.surface)
    air_mean, air_scale = atmosphere_scaling(TINY.atmosphere, np.array(LEVELS))
    grid, leveled = ("latitude", "longitude"), ("time", "level", "latitude", "longitude")
    shape = (len(LATITUDES), len(LONGITUDES))
    surface = {
        name: (("time", *grid), mean[i] + scale[i] * rng.normal(size=(times, *shape)))
        for i, name in enumerate(TINY.surface)
    }
    air = {
        name: (leveled, air_mean[i] + air_scale[i] * rng.normal(size=(times, len(LEVELS), *shape)))
        for i, name in enumerate(TINY.atmosphere)
    }
    air["q"] = (leveled, np.abs(air["q"][1]))
    static = {"lsm": rng.random(shape), "z_surface": 1000 * rng.random(shape), "slt": rng.integers(0, 7, shape) * 1.0}
    dataset = xr.Dataset(
        {**surface, **air, **{name: (grid, field) for name, field in static.items()}},
        {
            "time": np.datetime64("2020-01-01", "ns") + np.arange(times) * np.timedelta64(6, "h"),
            "level": np.array(LEVELS, np.float64),
            "latitude": LATITUDES,
            "longitude": LONGITUDES,
        },
    )
    dataset["t"][HOLE] = np.nan
    return dataset


@cache
def parameters() -> dict[str, np.ndarray]:
    """By their published names, random everywhere: what starts at zero would hide whatever it multiplies."""
    rng = np.random.default_rng(1)
    shapes = published_shapes(nnx.eval_shape(lambda: Aurora(TINY, rngs=nnx.Rngs(0))))
    return {
        name: (rng.normal(size=shape) * (0.1 if len(shape) < 2 else np.prod(shape[1:]) ** -0.5)).astype(np.float32)
        for name, shape in shapes.items()
    }


def stored(folder: Path, dataset: xr.Dataset, name: str = "tiny.zarr") -> Path:
    """As a zarr folder."""
    dataset.to_zarr(folder / name, consolidated=False)
    return folder / name
