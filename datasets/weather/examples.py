"""The fields of one window as arrays, and where they are valid."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from elbowroom.datasets.weather.times import hours

type Example = dict[str, np.ndarray]
type Fill = Mapping[str, Float[np.ndarray, "level"]]
"""By variable what stands where nothing is known, one number for each level, or one: the mean is 0 once normalised."""

VALID = "valid"
"""A variable's mask is called `NAME/valid`."""
HOURS = "hours"


def example(dataset: xr.Dataset, window: Int[np.ndarray, "step"], *, fill: Fill | None = None) -> Example:
    """Variables of the window's time steps, float32, by name: [step, level, lat, lon], without what they do not have.

    `NAME/valid` is True where NAME is known; elsewhere NAME holds `fill`, 0 where that has no such variable. `hours`
    are whole hours since 1970-01-01 00 UTC of each step, int32. Only these steps are read.

    Raises `DataError` where a file cannot be read.

    Args:
      window: places in time, a row of `Windows.steps`.
    """
    arrays: Example = {HOURS: hours(dataset["time"].values[window])}
    for key, variable in dataset.data_vars.items():
        name = str(key)
        chosen = variable.isel(time=window) if "time" in variable.dims else variable
        values = chosen.values.astype(np.float32)
        valid = np.isfinite(values)
        arrays[f"{name}/{VALID}"] = valid
        arrays[name] = np.where(valid, values, _filling(name, fill, leveled="level" in variable.dims))
    return arrays


def _filling(name: str, fill: Fill | None, *, leveled: bool) -> Float[np.ndarray, "*level_1_1"]:
    """That broadcasts over latitude and longitude."""
    known = np.zeros(1) if fill is None or name not in fill else fill[name]
    return np.nan_to_num(known).astype(np.float32).reshape((-1, 1, 1) if leveled else ())
