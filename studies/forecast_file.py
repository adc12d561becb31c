"""Forecasts as netCDF or zarr after the CF conventions, in WeatherBench 2's dimensions, written a step at a time."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import netCDF4
import numpy as np
import zarr
from jaxtyping import Float, Shaped

from elbowroom.datasets.weather.arrays import FILES
from elbowroom.datasets.weather.times import Times
from elbowroom.studies.forecast import Fields, ForecastError

EPOCH = "1970-01-01 00:00:00"
ENDINGS = (".nc", ".zarr")
DIMENSIONS = ("time", "prediction_timedelta", "level", "latitude", "longitude")


class Described(NamedTuple):
    """What a variable is called in the file, and what it is."""

    name: str
    """CF asks for names that begin with a letter, which WeatherBench 2's do not; these are the Climate Data Store's."""
    standard: str
    long: str
    units: str
    height: int | None = None
    """Metres above the ground, of variables at one height"""


DESCRIBED = {
    "2t": Described("t2m", "air_temperature", "temperature at 2 m", "K", 2),
    "10u": Described("u10", "eastward_wind", "eastward wind at 10 m", "m s-1", 10),
    "10v": Described("v10", "northward_wind", "northward wind at 10 m", "m s-1", 10),
    "msl": Described("msl", "air_pressure_at_mean_sea_level", "pressure at mean sea level", "Pa"),
    "sp": Described("sp", "surface_air_pressure", "pressure at the ground", "Pa"),
    "z": Described("z", "geopotential", "geopotential", "m2 s-2"),
    "u": Described("u", "eastward_wind", "eastward wind", "m s-1"),
    "v": Described("v", "northward_wind", "northward wind", "m s-1"),
    "t": Described("t", "air_temperature", "temperature", "K"),
    "q": Described("q", "specific_humidity", "specific humidity", "kg kg-1"),
}


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What a file of forecasts has room for."""

    starts: Times
    leads: Shaped[np.ndarray, "lead"]
    """timedelta64"""
    levels: Float[np.ndarray, "level"] | None
    """hPa; None where no variable has levels"""
    latitudes: Float[np.ndarray, "lat"]
    longitudes: Float[np.ndarray, "lon"]
    variables: Mapping[str, bool]
    """Short names, and whether each has levels"""


class _Array(NamedTuple):
    """One array of the file."""

    dimensions: tuple[str, ...]
    attributes: dict[str, Any]
    values: np.ndarray | None = None
    """None for fields, which are written later"""

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float32) if self.values is None else self.values.dtype


class ForecastWriter:
    """Fills an open file."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._stored = stored

    def missing(self, start: int, count: int) -> None:
        """How many of the values given to a forecast were missing."""
        with FILES:
            self._stored["missing_inputs"][start] = count

    def fields(self, start: int, lead: int, fields: Fields) -> None:
        """The weather of one lead."""
        with FILES:
            for name, field in fields.items():
                self._stored[described(name).name][start, lead] = field.astype(np.float32)


@contextmanager
def forecast_file(path: Path, layout: Layout, attributes: Mapping[str, str]) -> Iterator[ForecastWriter]:
    """A file to fill, which is in its place once all is written; what is there already is replaced.

    Raises `ForecastError` where it cannot be written.

    Args:
      path: ends with one of `ENDINGS`.
      attributes: of the whole file.
    """
    arrays = _arrays(layout)
    sizes = {
        name: len(array.values) for name, array in arrays.items() if array.values is not None and name in DIMENSIONS
    }
    attributes = {"Conventions": "CF-1.10", **attributes}
    partial = path.with_name(f".{path.name}.partial")
    opened = _zarr if path.suffix == ".zarr" else _netcdf
    _remove(partial)
    try:
        with opened(partial, arrays, sizes, attributes) as stored:
            yield ForecastWriter(stored)
        _remove(path)
        os.replace(partial, path)
    except OSError as error:
        raise ForecastError(f"{path} cannot be written: {error.strerror or error}; choose another --out") from None
    finally:
        _remove(partial)


def described(name: str) -> Described:
    """Of a variable that nobody has described, nothing is said but its name."""
    return DESCRIBED.get(name, Described(name, "", name, ""))


def _arrays(layout: Layout) -> dict[str, _Array]:
    starts, unit = _counted(layout.starts - np.datetime64(0, "ns"))
    leads, lead_unit = _counted(layout.leads)
    found = {
        "time": _Array(
            ("time",),
            {
                "standard_name": "forecast_reference_time",
                "long_name": "start of the forecast",
                "units": f"{unit} since {EPOCH}",
                "calendar": "proleptic_gregorian",
            },
            starts,
        ),
        "prediction_timedelta": _Array(
            ("prediction_timedelta",),
            {
                "standard_name": "forecast_period",
                "long_name": "time since the start",
                "units": lead_unit,
                "dtype": "timedelta64[ns]",  # xarray reads spans of time as numbers unless told so
            },
            leads,
        ),
    }
    if layout.levels is not None:
        pressure = {"standard_name": "air_pressure", "units": "hPa", "positive": "down", "axis": "Z"}
        found["level"] = _Array(("level",), pressure, layout.levels)
    for name, axis, unit, values in (
        ("latitude", "Y", "degrees_north", layout.latitudes),
        ("longitude", "X", "degrees_east", layout.longitudes),
    ):
        found[name] = _Array((name,), {"standard_name": name, "units": unit, "axis": axis}, values)
    for height in sorted({h for name in layout.variables if (h := described(name).height) is not None}):
        above = {"standard_name": "height", "units": "m", "positive": "up"}
        found[f"height_{height}m"] = _Array((), above, np.array(float(height)))
    given = {"long_name": "values given to the forecast that were missing and taken as the mean", "units": "1"}
    found["missing_inputs"] = _Array(("time",), given, np.zeros(len(layout.starts), np.int64))
    for name, leveled in layout.variables.items():
        own = tuple(d for d in DIMENSIONS if d != "level" or leveled)
        found[described(name).name] = _Array(own, _about(described(name)))
    return found


def _about(variable: Described) -> dict[str, str]:
    place = "" if variable.height is None else f"height_{variable.height}m"
    told = {
        "standard_name": variable.standard,
        "long_name": variable.long,
        "units": variable.units,
        "coordinates": place,
    }
    return {key: text for key, text in told.items() if text}


def _counted(spans: Shaped[np.ndarray, "_"]) -> tuple[np.ndarray, str]:
    """Whole hours, or minutes where hours do not do."""
    spans = spans.astype("timedelta64[m]").astype(np.int64)
    return (spans // 60, "hours") if (spans % 60 == 0).all() else (spans, "minutes")


@contextmanager
def _netcdf(
    path: Path, arrays: Mapping[str, _Array], sizes: Mapping[str, int], attributes: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    with FILES:
        file = netCDF4.Dataset(path, "w")
    try:
        with FILES:
            file.set_fill_off()  # every value is written, so none need be written twice
            file.setncatts(attributes)
            for name, size in sizes.items():
                file.createDimension(name, size)
            for name, array in arrays.items():
                made = file.createVariable(name, array.dtype, array.dimensions)
                made.setncatts(array.attributes)
                if array.values is not None:
                    made[...] = array.values
        yield file.variables
    finally:
        with FILES:
            file.close()


@contextmanager
def _zarr(
    path: Path, arrays: Mapping[str, _Array], sizes: Mapping[str, int], attributes: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    """A chunk for every start, lead and variable, in the version that all programs read."""
    group = zarr.open_group(path, mode="w", zarr_format=2, attributes=dict(attributes))
    stored = {}
    for name, array in arrays.items():
        shape = tuple(sizes[dimension] for dimension in array.dimensions)
        made = group.create_array(
            name,
            shape=shape,
            chunks=(1, 1, *shape[2:]) if array.values is None else shape,
            dtype=array.dtype,
            fill_value=None,  # a number would mean that the value is missing
            attributes={**array.attributes, "_ARRAY_DIMENSIONS": list(array.dimensions)},
        )
        if array.values is not None:
            made[...] = array.values
        stored[name] = made
    yield stored
    zarr.consolidate_metadata(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
