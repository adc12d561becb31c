"""A small Stormer case on a coarse grid, and fields for it."""

import numpy as np
import xarray as xr

from elbowroom.datasets.weather.fingerprint import fingerprint
from elbowroom.models.stormer.config import tiny
from elbowroom.studies.case import Records
from elbowroom.studies.stormer import stormer_case

SIZES = {"channels": 5, "latitudes": 6, "longitudes": 8, "leads": 2, "batch": 2}
LATITUDES, LONGITUDES, LEVELS, TIMES = np.linspace(75, -75, 6), np.arange(0, 360, 45.0), [300.0, 850.0], 9
HOLE = {"time": 2, "level": 1, "latitude": 3, "longitude": 4}
CASE = stormer_case("tiny", tiny())
CHANNELS = [("u", 0), ("u", 1), ("v", 0), ("v", 1), ("sp", None)]


def fields(seed: int = 0) -> xr.Dataset:
    """Twelve-hourly fields of unlike sizes, one hole, and a static variable that is no channel."""
    rng = np.random.default_rng(seed)
    grid, shape = ("latitude", "longitude"), (len(LATITUDES), len(LONGITUDES))

    def leveled(mean: float, spread: float) -> np.ndarray:
        return mean + spread * rng.normal(size=(TIMES, len(LEVELS), *shape))

    dataset = xr.Dataset(
        {
            "u": (("time", "level", *grid), leveled(10, 5) * np.array([1, 3])[:, None, None]),
            "v": (("time", "level", *grid), leveled(1, 4)),
            "sp": (("time", *grid), 1e5 + 800 * rng.normal(size=(TIMES, *shape))),
            "lsm": (grid, rng.random(shape)),
        },
        {
            "time": np.datetime64("2020-01-01", "ns") + np.arange(TIMES) * np.timedelta64(12, "h"),
            "level": np.array(LEVELS),
            "latitude": LATITUDES,
            "longitude": LONGITUDES,
        },
        {"simulated": False, "changes": []},
    )
    dataset["u"][HOLE] = np.nan
    return dataset


def records_of(dataset: xr.Dataset) -> Records:
    return Records(items=[dataset], fingerprint=fingerprint(dataset))
