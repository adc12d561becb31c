"""Read everything a user has and name every defect, without stopping at the first."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

from elbowroom.datasets.findings import DataError, Findings, Warned
from elbowroom.datasets.weather.normal import Wanted, read_weather
from elbowroom.datasets.weather.times import missing_times, regular_step, written
from elbowroom.datasets.weather.units import GRAVITY


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Where a variable has no value, or none that is finite."""

    variable: str
    count: int
    first: str
    """Time, level, latitude and longitude of the first in the order of the normal form."""
    of_level: dict[float, int]
    """Count by level, hPa; empty for variables without levels."""
    below_ground: int | None
    """Those of `count` below the surface by its pressure or height; None if the data have neither."""

    def __str__(self) -> str:
        ground = "" if self.below_ground is None else f", {self.below_ground} below the ground"
        return f"{self.variable}: {self.count} missing values{ground} (first: {self.first})"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was found in the user's files."""

    variables: tuple[str, ...]
    levels_hpa: tuple[float, ...]
    latitudes: int
    longitudes: int
    times: int
    first_time: str
    last_time: str
    """Empty, as `first_time`, if there is none."""
    step_hours: float | None
    """None for less than two times."""
    missing_times: int
    """Regular steps between the first and last time that are not there"""
    missing: tuple[Missing, ...]
    defects: tuple[DataError, ...]
    """Each names file and variable or coordinate; training refuses to start while there are any."""
    warnings: tuple[Warned, ...]
    """What was changed on reading, or read around."""


def check_weather(places: Path | Sequence[Path], *, wanted: Wanted | None = None) -> Report:
    """Counts, defects and warnings of files or folders, as `open_weather` takes them; never raises for bad content.

    Reads every value once, a time step at a time.
    """
    findings = Findings(strict=False)
    dataset = read_weather(places, findings, wanted or Wanted())
    if dataset is None:
        dataset = xr.Dataset(coords={name: (name, np.zeros(0)) for name in ("latitude", "longitude")})
        dataset["time"] = ("time", np.zeros(0, "datetime64[ns]"))
    times = dataset["time"].values
    step = regular_step(times)
    return Report(
        variables=tuple(map(str, dataset.data_vars)),
        levels_hpa=tuple(dataset["level"].values.tolist()) if "level" in dataset.coords else (),
        latitudes=dataset.sizes["latitude"],
        longitudes=dataset.sizes["longitude"],
        times=len(times),
        first_time=written(times[0]) if len(times) else "",
        last_time=written(times[-1]) if len(times) else "",
        step_hours=None if step is None else float(step / np.timedelta64(1, "h")),
        missing_times=len(missing_times(times)),
        missing=_missing(dataset, findings),
        defects=findings.defects,
        warnings=findings.warnings,
    )


def _missing(dataset: xr.Dataset, findings: Findings) -> tuple[Missing, ...]:
    """Of every variable that misses values; one that cannot be read is a defect."""
    found = []
    for name in map(str, dataset.data_vars):
        try:
            missing = _missing_of(dataset, name)
        except DataError as error:
            findings.defect(error.path, error.where, error.reason, error.remedy)
            continue
        if missing is not None:
            found.append(missing)
    return tuple(found)


def _missing_of(dataset: xr.Dataset, name: str) -> Missing | None:
    variable = dataset[name]
    leveled = "level" in variable.dims
    steps = range(dataset.sizes["time"]) if "time" in variable.dims else [None]
    of_level = np.zeros(variable.sizes.get("level", 1), np.int64)
    below, first = 0, ""
    for step in steps:
        field = variable if step is None else variable.isel(time=step)
        holes = ~np.isfinite(field.values)
        if not holes.any():
            continue
        first = first or _place(field, holes)
        of_level += holes.reshape(len(of_level), -1).sum(axis=1)
        ground = _below_ground(dataset, step) if leveled else None
        below = None if ground is None or below is None else below + int((holes & ground).sum())
    if not of_level.any():
        return None
    by_level = dict(zip(dataset["level"].values.tolist(), of_level.tolist(), strict=True)) if leveled else {}
    return Missing(
        variable=name,
        count=int(of_level.sum()),
        first=first,
        of_level=by_level,
        below_ground=below if leveled else None,
    )


def _place(field: xr.DataArray, holes: Bool[np.ndarray, "*level lat lon"]) -> str:
    """Of the first hole, in words."""
    at = dict(zip(map(str, field.dims), np.argwhere(holes)[0], strict=True))
    time = [f"time {written(field['time'].values)}"] if "time" in field.coords else []
    return ", ".join(time + [f"{dimension} {field[dimension].values[place]:g}" for dimension, place in at.items()])


def _below_ground(dataset: xr.Dataset, step: int | None) -> Bool[np.ndarray, "level lat lon"] | None:
    """Where a level's pressure is above the surface's; None if the data have neither its pressure nor its height."""
    if "sp" in dataset and step is not None:
        surface = dataset["sp"].isel(time=step).values.astype(np.float64)
    elif "z_surface" in dataset:
        surface = _standard_pressure(dataset["z_surface"].values.astype(np.float64) / GRAVITY)
    else:
        return None
    return 100 * dataset["level"].values[:, None, None] > surface[None]


def _standard_pressure(height: Float[np.ndarray, "lat lon"]) -> Float[np.ndarray, "lat lon"]:
    """Pa at a height in m in the International Standard Atmosphere below 11 km."""
    return 101325 * np.maximum(1 - 2.25577e-5 * height, 0.0) ** 5.25588
