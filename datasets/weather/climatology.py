"""What is usual at a time of the year and of the day, on the grid of other data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Float

from elbowroom.datasets.findings import DataError, Findings, listed
from elbowroom.datasets.weather.arrays import FILES
from elbowroom.datasets.weather.axes import CLOSE
from elbowroom.datasets.weather.corrections import right_units
from elbowroom.datasets.weather.fields import Field, fields_of
from elbowroom.datasets.weather.normal import Wanted, open_weather
from elbowroom.datasets.weather.series import alike
from elbowroom.datasets.weather.sources import find_sources, open_source

HOUR, DAY = "hour", "dayofyear"
"""Dimensions of stored climatologies, as in WeatherBench 2"""

type Usual = Mapping[str, Float[np.ndarray, "..."]]
"""Variables by their short names, [level, lat, lon] or [lat, lon]."""


@dataclass(frozen=True, kw_only=True)
class Climatology:
    """Usual fields in normal form."""

    meaning: str
    """How they were made, in words"""
    at: Callable[[np.datetime64], Usual]
    """Raises `DataError` for a time of the year or of the day that it does not have."""


def open_climatology(place: Path, like: xr.Dataset, variables: Sequence[str]) -> Climatology:
    """Read a stored climatology over `hour` and `dayofyear`, or make one of a series' means at every hour of the day.

    Raises `DataError` for files that cannot be read, lack a variable or lie on another grid.

    Args:
      like: data in normal form, whose grid and levels are wanted.
    """
    findings = Findings(strict=True)
    levels = like["level"].values.tolist() if "level" in like.coords else None
    with FILES:
        opened = [
            (path, raw) for path, kind in find_sources(place, findings) for raw in open_source(path, kind, findings)
        ]
    stored = [(path, raw) for path, raw in opened if {HOUR, DAY} <= raw.sizes.keys()]
    if stored:
        return _stored(stored, like, variables, levels)
    series = open_weather(place, wanted=Wanted(variables=variables, levels=levels))
    _require_same_grid(place, series["latitude"].values, series["longitude"].values, like)
    return mean_by_hour(series, variables, place.name)


def mean_by_hour(series: xr.Dataset, variables: Sequence[str], name: str) -> Climatology:
    """The mean of all times at the same hour of the day, whatever the season. Reads every value once.

    Args:
      name: of the series, for messages.
    """
    hours = _hour(series["time"].values)
    means = {int(hour): _mean(series.isel(time=hours == hour), variables) for hour in np.unique(hours)}

    def at(time: np.datetime64) -> Usual:
        hour = int(_hour(time))
        if hour not in means:
            there = listed(sorted(means), most=24)
            reason = f"has no time at hour {hour} of the day; there are {there}"
            raise DataError(Path(name), "", reason, "give a climatology of these hours too")
        return means[hour]

    count = series.sizes["time"]
    return Climatology(meaning=f"mean of the {count} times of {name} at that hour of the day, of any season", at=at)


def _stored(
    opened: Sequence[tuple[Path, xr.Dataset]], like: xr.Dataset, variables: Sequence[str], levels: list[float] | None
) -> Climatology:
    path = opened[0][0]

    def fields_at(hour: int, day: int) -> dict[str, Field]:
        found: list[Field] = []
        for path, raw in opened:
            chosen = raw.isel({HOUR: _place(raw, HOUR, hour, path), DAY: _place(raw, DAY, day, path)}, drop=True)
            found += fields_of(chosen, path, Findings(strict=True), levels=levels, member=0)
        return {field.name: field for field in found if field.name in variables}

    def first(dimension: str) -> int:
        return int(opened[0][1][dimension].values[0])

    found = fields_at(first(HOUR), first(DAY))
    absent = [name for name in variables if name not in found]
    if absent:
        reason = f"variable {listed(absent, most=20)} is missing"
        raise DataError(path, "", reason, "give a climatology that has it")
    findings = Findings(strict=True)
    right_units(alike(list(found.values()), findings), findings, fix=False, relative_for_specific=False)
    one = next(iter(found.values()))
    _require_same_grid(path, one.latitude, one.longitude, like)

    def at(time: np.datetime64) -> Usual:
        return {name: _all(field) for name, field in fields_at(int(_hour(time)), _day_of_year(time)).items()}

    return Climatology(meaning=f"{path.name}, by hour of the day and day of the year", at=at)


def _all(field: Field) -> Float[np.ndarray, "..."]:
    return field.part.read({dimension: np.arange(len(places)) for dimension, places in field.part.places.items()})


def _place(raw: xr.Dataset, dimension: str, wanted: int, path: Path) -> int:
    values = raw[dimension].values
    found = np.flatnonzero(values == wanted)
    if not len(found):
        reason = f"has no {dimension} {wanted}; there are {values.min()} to {values.max()}"
        raise DataError(path, f"coordinate {dimension}", reason, "give a climatology that has it")
    return int(found[0])


def _mean(series: xr.Dataset, variables: Sequence[str]) -> Usual:
    """Over the times at which each point is known; NaN where it never is."""
    means = {}
    for name in variables:
        total = count = np.zeros(1)
        for step in range(series.sizes["time"]):
            field = series[name].isel(time=step).values.astype(np.float64)
            known = np.isfinite(field)
            total, count = total + np.where(known, field, 0), count + known
        with np.errstate(invalid="ignore"):
            means[name] = (total / count).astype(np.float32)
    return means


def _require_same_grid(path: Path, latitude: np.ndarray, longitude: np.ndarray, like: xr.Dataset) -> None:
    for name, own in (("latitude", latitude), ("longitude", longitude)):
        other = like[name].values
        if own.shape != other.shape or (np.abs(own - other) > CLOSE).any():
            reason = f"is not that of the data: {len(own)} values from {own[0]:g}, not {len(other)} from {other[0]:g}"
            raise DataError(path, f"coordinate {name}", reason, "interpolate it to the grid of the data")


def _hour(times: np.ndarray | np.datetime64) -> np.ndarray | np.int64:
    """Of the day."""
    return (times - times.astype("datetime64[D]")).astype("timedelta64[h]").astype(np.int64)


def _day_of_year(time: np.datetime64) -> int:
    """1 for the first of January."""
    return int((time.astype("datetime64[D]") - time.astype("datetime64[Y]")).astype(np.int64)) + 1
