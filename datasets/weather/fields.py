"""The variables of one file with their coordinates in normal form."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Float

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.weather.arrays import Part
from elbowroom.datasets.weather.frame import Frame, frame_of
from elbowroom.datasets.weather.leads import over_valid_times
from elbowroom.datasets.weather.names import DIMENSIONS, MEMBER, SHORT, SINGLE, STATIC, SURFACE, VERSION
from elbowroom.datasets.weather.times import Times


@dataclass(frozen=True, kw_only=True)
class Field:
    """A variable of one file."""

    name: str
    """the short one"""
    part: Part
    times: Times | None
    """In file order; None for what does not change."""
    levels_hpa: Float[np.ndarray, "level"] | None
    latitude: Float[np.ndarray, "lat"]
    longitude: Float[np.ndarray, "lon"]
    units: str
    """as the file states them"""
    calendar: str


def fields_of(
    raw: xr.Dataset, path: Path, findings: Findings, *, levels: Sequence[int | float] | None, member: int
) -> list[Field]:
    """Every variable on the file's grid; those with a dimension that is not known are left out with a warning.

    Args:
      levels: hPa to keep; None keeps all.
      member: place along a dimension of ensemble members.
    """
    raw = _single_places(over_valid_times(raw, path, findings), path, findings, member)
    frame = frame_of(raw, path, findings, levels)
    if frame is None:
        return []
    fields: dict[str, Field] = {}
    for key, variable in raw.data_vars.items():
        field = _field(key, variable.variable, frame, path, findings)
        if field is not None and field.name in fields:
            reason = f"{fields[field.name].part.name} and {key} are both {field.name}"
            findings.defect(path, f"variable {key}", reason, "keep one of them")
        elif field is not None:
            fields[field.name] = field
    return list(fields.values())


def _single_places(raw: xr.Dataset, path: Path, findings: Findings, member: int) -> xr.Dataset:
    """Without dimensions of which one place is read."""
    chosen = {}
    for dimension, size in raw.sizes.items():
        if dimension in MEMBER:
            if not 0 <= member < size:
                reason = f"has {size} members, but member {member} is asked for"
                findings.defect(path, f"dimension {dimension}", reason, f"choose from 0 to {size - 1}")
            if size > 1:
                findings.warn(f"member {member} of the {size} along {dimension} is read", path)
            chosen[dimension] = min(member, size - 1)
        elif dimension in SINGLE:
            if size > 1:
                reason = f"has {size} places, which are no steps of one series"
                findings.defect(path, f"dimension {dimension}", reason, "write a file of one of them")
            chosen[dimension] = 0
    return raw.isel(chosen)


def _field(key: Hashable, variable: xr.Variable, frame: Frame, path: Path, findings: Findings) -> Field | None:
    """None for what has no place on the grid."""
    of_file = {d: frame.dimensions[d] for d in DIMENSIONS if frame.dimensions.get(d) in variable.dims}
    if not {"latitude", "longitude"} <= of_file.keys() or variable.dtype.kind not in "fiub":
        return None
    unknown = set(variable.dims) - set(of_file.values()) - {VERSION}
    if unknown:
        findings.warn(f"variable with unknown dimension {min(map(str, unknown))}, left out", path, f"variable {key}")
        return None
    name = SHORT.get(str(key), str(key))
    leveled = "level" in of_file or ("level" in frame.axes and "level" not in frame.dimensions and _above(name))
    if name == "z" and not leveled:
        name = "z_surface"
    timed = name not in STATIC and ("time" in of_file or ("time" in frame.axes and "time" not in frame.dimensions))
    if not timed and (time := of_file.pop("time", None)) is not None:
        findings.warn("static variable with time: its first step is read", path, f"variable {key}")
        variable = variable.isel({time: 0})
    if list(of_file.values()) != [dimension for dimension in variable.dims if dimension != VERSION]:
        findings.warn("dimensions reordered to time, level, latitude, longitude", path, f"variable {key}")
    own = [
        d for d in DIMENSIONS if d in ("latitude", "longitude") or (d == "level" and leveled) or (d == "time" and timed)
    ]
    places = {dimension: frame.axes[dimension].order for dimension in own}
    return Field(
        name=name,
        part=Part(path=path, name=str(key), variable=variable, dimensions=of_file, places=places),
        times=frame.times if timed else None,
        levels_hpa=frame.axes["level"].values if leveled else None,
        latitude=frame.axes["latitude"].values,
        longitude=frame.axes["longitude"].values,
        units=str(variable.attrs.get("units", "")),
        calendar=frame.calendar,
    )


def _above(name: str) -> bool:
    """Whether a file of one level has this variable there, and not at the ground."""
    return name not in (*SURFACE, *STATIC, "sp", "sst")
