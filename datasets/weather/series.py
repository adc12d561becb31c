"""Fields of several files as one series over time."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Int

from elbowroom.datasets.findings import Findings, listed
from elbowroom.datasets.weather.arrays import FieldArray, lazy
from elbowroom.datasets.weather.axes import CLOSE
from elbowroom.datasets.weather.fields import Field
from elbowroom.datasets.weather.names import DIMENSIONS
from elbowroom.datasets.weather.times import STANDARD, Times, missing_times, written


def alike(fields: Sequence[Field], findings: Findings) -> list[Field]:
    """The fields on the grid, on the levels and in the calendar of the first; each other one is a defect.

    So is one whose name has other dimensions in an earlier file.
    """
    kept: list[Field] = []
    for field in fields:
        leveled = next((f for f in kept if f.levels_hpa is not None), field)
        first = kept[0] if kept else field
        where = f"variable {field.part.name}"
        if not (_same(field.latitude, first.latitude) and _same(field.longitude, first.longitude)):
            reason = f"is on another grid than {first.part.name} of {first.part.path}"
            findings.defect(field.part.path, where, reason, "interpolate to one grid, or read them apart")
        elif field.levels_hpa is not None and not _same(field.levels_hpa, leveled.levels_hpa):
            reason = f"has levels {_levels(field)}, but {leveled.part.path} has {_levels(leveled)}"
            findings.defect(field.part.path, where, reason, "choose levels that both have")
        elif (other := _other_dimensions(field, kept)) is not None:
            own, others = (", ".join(one.part.places) for one in (field, other))
            reason = f"has dimensions {own}, but in {other.part.path} {others}"
            findings.defect(field.part.path, where, reason, "read them apart")
        elif _calendar(field) != _calendar(first):
            reason = f"is in calendar {_calendar(field)}, but {first.part.path} is in {_calendar(first)}"
            findings.defect(field.part.path, "coordinate time", reason, "convert both to the standard calendar")
        else:
            kept.append(field)
    return kept


def joined(fields: Sequence[Field], findings: Findings) -> xr.Dataset | None:
    """Each variable over the times that all of them have; None if there is none.

    A time that a variable has twice is a defect, and its first occurrence is kept.
    """
    groups: dict[str, list[Field]] = {}
    for field in fields:
        groups.setdefault(field.name, []).append(field)
    series = {name: _series(group, findings) for name, group in groups.items() if group[0].times is not None}
    times = _shared_times(series, groups, findings)
    if times is None:
        return None
    coordinates: dict[str, np.ndarray] = {
        "time": times,
        "latitude": fields[0].latitude,
        "longitude": fields[0].longitude,
    }
    levels = next((field.levels_hpa for field in fields if field.levels_hpa is not None), None)
    if levels is not None:
        coordinates["level"] = levels
    variables = {}
    for name, group in groups.items():
        own = [dimension for dimension in DIMENSIONS if dimension in group[0].part.places]
        origins = None
        if name in series:
            stored, places = series[name]
            origins = places[np.isin(stored, times)]
        shape = {dimension: len(coordinates[dimension]) for dimension in own}
        variables[name] = lazy(own, FieldArray([field.part for field in group], shape, origins))
    return xr.Dataset(variables, coordinates)


def _series(group: Sequence[Field], findings: Findings) -> tuple[Times, Int[np.ndarray, "time 2"]]:
    """A variable's times in order, and for each its file and its place there."""
    times = np.concatenate([_times(field) for field in group])
    files = np.repeat(np.arange(len(group)), [len(_times(field)) for field in group])
    places = np.concatenate([np.arange(len(_times(field))) for field in group])
    order = np.argsort(times, kind="stable")
    if any((np.diff(_times(field)) < np.timedelta64(0, "ns")).any() for field in group):
        findings.warn("times reordered to run forwards", group[0].part.path)
    times, origins = times[order], np.stack([files, places], axis=1)[order]
    repeated = np.append(False, np.diff(times) == np.timedelta64(0, "ns"))
    if repeated.any():
        paths = sorted({str(group[file].part.path) for file in origins[np.isin(times, times[repeated]), 0]})
        others = f" (in {listed(paths)})" if len(paths) > 1 else ""
        reason = f"time {listed(written(time) for time in np.unique(times[repeated]))} is there more than once{others}"
        first = group[origins[repeated][0, 0]]
        findings.defect(first.part.path, f"variable {first.part.name}", reason, "keep one of each")
    return times[~repeated], origins[~repeated]


def _shared_times(
    series: dict[str, tuple[Times, Int[np.ndarray, "_ 2"]]], groups: dict[str, list[Field]], findings: Findings
) -> Times | None:
    if not series:
        for group in list(groups.values())[:1]:
            reason, remedy = "no variable changes with time", "add files of such variables"
            findings.defect(group[0].part.path, "coordinate time", reason, remedy)
        return None
    every = np.unique(np.concatenate([times for times, _ in series.values()]))
    shared = every
    for name, (times, _) in series.items():
        absent = np.setdiff1d(every, times)
        shared = np.intersect1d(shared, times)
        if len(absent):
            where = f"variable {name}, time {written(absent[0])}"
            findings.warn("time that not every variable has, left out", groups[name][0].part.path, where, len(absent))
    path = groups[next(iter(series))][0].part.path
    if len(shared) == 0:
        findings.defect(path, "coordinate time", "no time is in every variable", "get files of the same times")
        return None
    missing = missing_times(shared)
    if len(missing):
        where = f"time {written(missing[0])}"
        findings.warn("missing time step, no window crosses it", path, where, len(missing))
    return shared


def _other_dimensions(field: Field, kept: Sequence[Field]) -> Field | None:
    """The same variable with other dimensions."""
    return next((f for f in kept if f.name == field.name and f.part.places.keys() != field.part.places.keys()), None)


def _times(field: Field) -> Times:
    """Of a field whose variable changes with time; a file without time cannot be put in its series."""
    return np.empty(0, "datetime64[ns]") if field.times is None else field.times


def _same(one: np.ndarray, other: np.ndarray | None) -> bool:
    return other is not None and one.shape == other.shape and bool((np.abs(one - other) <= CLOSE).all())


def _levels(field: Field) -> str:
    return "none" if field.levels_hpa is None else listed((f"{level:g}" for level in field.levels_hpa), most=40)


def _calendar(field: Field) -> str:
    return "standard" if field.calendar in STANDARD else field.calendar
