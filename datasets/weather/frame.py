"""The coordinates of one file, found by the names that archives give them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Float

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.weather.axes import Axis, chosen_levels, latitude_axis, level_axis, longitude_axis
from elbowroom.datasets.weather.names import LATITUDE, LONGITUDE, PRESSURE, SIGMA, TIME
from elbowroom.datasets.weather.times import Times, calendar_of, decode


@dataclass(frozen=True, kw_only=True)
class Frame:
    """For each dimension of the normal form its axis, and what the file calls it."""

    axes: dict[str, Axis]
    dimensions: dict[str, str]
    """Without those that the file has as a single value."""
    times: Times | None
    """In file order; None if the file has no time."""
    calendar: str


def frame_of(raw: xr.Dataset, path: Path, findings: Findings, levels: Sequence[int | float] | None) -> Frame | None:
    """None after a defect. Of the levels only those in `levels`, hPa, are kept; None keeps all."""
    axes: dict[str, Axis | None] = {}
    dimensions: dict[str, str] = {}
    for dimension, names, axis_of in (("latitude", LATITUDE, latitude_axis), ("longitude", LONGITUDE, longitude_axis)):
        coordinate = _first(raw, names)
        if coordinate is None or coordinate.ndim != 1:
            reason = "is not there" if coordinate is None else f"has {coordinate.ndim} dimensions"
            remedy = "interpolate to a regular grid of latitude and longitude"
            findings.defect(path, f"coordinate {dimension}", reason, remedy)
            return None
        axes[dimension] = axis_of(_numbers(coordinate), path, findings)
        dimensions[dimension] = str(coordinate.dims[0])
    coordinate = _first(raw, (*PRESSURE, SIGMA))
    if coordinate is not None and coordinate.ndim <= 1:
        axes["level"] = _levels(coordinate, path, findings, levels)
        if coordinate.ndim:
            dimensions["level"] = str(coordinate.dims[0])
    coordinate = _first(raw, TIME, units="since")
    times = None
    if coordinate is not None:
        times = _times(coordinate, path, findings)
        axes["time"] = None if times is None else Axis(values=times.astype(np.float64), order=np.arange(len(times)))
        if coordinate.ndim:
            dimensions["time"] = str(coordinate.dims[0])
    elif "time" in raw.sizes:
        remedy = "write units like 'hours since 1900-01-01' into the file"
        findings.defect(path, "coordinate time", "has no units that say since when", remedy)
        return None
    sound = {dimension: axis for dimension, axis in axes.items() if axis is not None}
    if len(sound) < len(axes):
        return None
    calendar = "standard" if coordinate is None else calendar_of(coordinate.attrs)
    return Frame(axes=sound, dimensions=dimensions, times=times, calendar=calendar)


def _levels(
    coordinate: xr.DataArray, path: Path, findings: Findings, wanted: Sequence[int | float] | None
) -> Axis | None:
    units = {SIGMA: SIGMA, "isobaricInPa": "Pa"}.get(str(coordinate.name), str(coordinate.attrs.get("units", "")))
    axis = level_axis(np.atleast_1d(_numbers(coordinate)), units, path, findings)
    if axis is None or wanted is None:
        return axis
    return chosen_levels(axis, np.array(wanted, np.float64), path, findings)


def _times(coordinate: xr.DataArray, path: Path, findings: Findings) -> Times | None:
    if coordinate.ndim > 1:
        reason = f"has dimensions {', '.join(map(str, coordinate.dims))}"
        findings.defect(path, f"coordinate {coordinate.name}", reason, "write a file of one time dimension")
        return None
    return decode(np.atleast_1d(coordinate.values), coordinate.attrs, path, findings)


def _first(raw: xr.Dataset, names: Sequence[str], units: str = "") -> xr.DataArray | None:
    """The first of the names that is in the file with such units."""
    return next((raw[n] for n in names if n in raw.variables and units in str(raw[n].attrs.get("units", ""))), None)


def _numbers(coordinate: xr.DataArray) -> Float[np.ndarray, "*place"]:
    return coordinate.values.astype(np.float64)
