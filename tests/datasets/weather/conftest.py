"""Small weather files of the layouts that people have."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from elbowroom.datasets.weather.arrays import FILES

LATITUDE = np.array([90.0, 45.0, 0.0, -45.0, -90.0])
LONGITUDE = np.arange(0.0, 360.0, 60.0)
LEVELS = np.array([500.0, 850.0])
TYPICAL = {"z": (54000.0, 14000.0), "u": (10.0, 5.0), "v": (0.0, 0.0), "t": (255.0, 280.0), "q": (1e-3, 6e-3)}
SPREAD = {"z": 500.0, "u": 5.0, "v": 5.0, "t": 5.0, "q": 2e-4}
UNITS = {"z": "m**2 s**-2", "u": "m s**-1", "v": "m s**-1", "t": "K", "q": "kg kg**-1"}

type Build = Callable[..., xr.Dataset]
type Write = Callable[[xr.Dataset, str], Path]


def build(*, steps: int = 6, start: str = "2020-01-01", seed: int = 0) -> xr.Dataset:
    """Six-hourly fields in normal form with plausible values."""
    random = np.random.default_rng(seed)
    times = np.datetime64(start, "ns") + np.arange(steps) * np.timedelta64(6, "h")
    grid = ("latitude", "longitude")
    shape = (len(LATITUDE), len(LONGITUDE))

    def field(mean: float, spread: float, *leading: int) -> np.ndarray:
        return (mean + spread * random.standard_normal((*leading, *shape))).astype(np.float32)

    surface = {"2t": (285.0, 5.0), "10u": (0.0, 4.0), "10v": (0.0, 4.0), "msl": (101000.0, 800.0)}
    variables = {name: (("time", *grid), field(*about, steps)) for name, about in surface.items()}
    for name, means in TYPICAL.items():
        values = np.stack([field(mean, SPREAD[name], steps) for mean in means], axis=1)
        variables[name] = (("time", "level", *grid), values, {"units": UNITS[name]})
    variables["z_surface"] = (grid, np.abs(field(0.0, 3000.0)))
    variables["lsm"] = (grid, (field(0.0, 1.0) > 0).astype(np.float32))
    coordinates = {"time": times, "level": LEVELS, "latitude": LATITUDE, "longitude": LONGITUDE}
    return xr.Dataset(variables, coordinates)


@pytest.fixture
def fields() -> Build:
    return build


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a dataset as netCDF, or as zarr where the name says so."""

    def file(dataset: xr.Dataset, name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with FILES:  # loaders of other tests may still read ahead
            if name.endswith(".zarr"):
                dataset.to_zarr(path, zarr_format=3, consolidated=False)
            else:
                dataset.to_netcdf(path, engine="netcdf4")
        return path

    return file
