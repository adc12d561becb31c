"""Latitude, longitude and level in normal form, with a word about each change."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Float, Int

from elbowroom.datasets.findings import Findings, listed

CLOSE: Final = 1e-4
"""Degrees or hPa within which two coordinates are the same; float32 rounds 359.75 to 3e-5."""
_HIGHEST: Final = 1200.0
"""hPa that no level reaches"""
_SIGMA_TO_HPA: Final = 1000.0


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A coordinate in normal form."""

    values: Float[np.ndarray, "place"]
    order: Int[np.ndarray, "place"]
    """The place of each value in the file."""


def latitude_axis(values: Float[np.ndarray, "lat"], path: Path, findings: Findings) -> Axis | None:
    """Degrees, strictly decreasing; None after a defect."""
    where = "coordinate latitude"
    if not np.isfinite(values).all() or np.abs(values).max(initial=0.0) > 90 + CLOSE:
        findings.defect(path, where, f"holds {_outside(values, 90.0)}", "give degrees from -90 to 90")
        return None
    order = np.argsort(-values, kind="stable")
    if not _distinct(values[order], path, where, findings):
        return None
    if len(values) > 1 and (order == np.arange(len(values))[::-1]).all():
        findings.warn("latitude reversed to run from north to south", path)
    elif (order != np.arange(len(values))).any():
        findings.warn("latitudes reordered to run from north to south", path)
    return Axis(values=values[order], order=order)


def longitude_axis(values: Float[np.ndarray, "lon"], path: Path, findings: Findings) -> Axis | None:
    """Degrees east, increasing in [0, 360); a meridian given twice is kept once; None after a defect."""
    if not np.isfinite(values).all() or np.abs(values).max(initial=0.0) > 540:
        reason = f"holds {_outside(values, 540.0)}"
        findings.defect(path, "coordinate longitude", reason, "give degrees, -180 to 180 or 0 to 360")
        return None
    turned = values % 360
    turned = np.where(turned > 360 - CLOSE, 0.0, turned)
    order = np.argsort(turned, kind="stable")
    kept = np.append(True, np.diff(turned[order]) > CLOSE)
    for place in order[~kept]:
        first = values[np.flatnonzero(np.abs(turned - turned[place]) <= CLOSE)[0]]
        findings.warn(f"longitude {values[place]:g} repeats {first:g}: dropped", path)
    order = order[kept]
    if (values[order] < 0).any():
        findings.warn(f"longitudes {_span(values)} moved to 0..360", path)
    elif (values[order] >= 360).any():
        findings.warn("longitudes from 360 on moved to 0..360", path)
    elif (np.diff(order) < 0).any():
        findings.warn("longitudes reordered to run eastwards", path)
    return Axis(values=turned[order], order=order)


def level_axis(values: Float[np.ndarray, "level"], units: str, path: Path, findings: Findings) -> Axis | None:
    """hPa, increasing; None after a defect.

    Args:
      units: of the file's coordinate: hPa if empty, unless the values show that they are Pa; `sigma` is multiplied by
        1000, the pressure above a surface at 1000 hPa.
    """
    where = "coordinate level"
    if not np.isfinite(values).all() or (values <= 0).any():
        findings.defect(path, where, "holds a level that is not above 0", "give pressures in hPa")
        return None
    if units == "sigma":
        findings.warn("sigma levels multiplied by 1000 to stand for hPa", path)
        values = values * _SIGMA_TO_HPA
    elif units.lower() in ("pa", "pascal", "pascals") or values.max() > _HIGHEST:
        findings.warn("levels in Pa divided by 100", path)
        values = values / 100
    if values.max() > _HIGHEST:
        findings.defect(path, where, f"reaches {values.max():g} hPa", "give pressures in hPa or Pa")
        return None
    order = np.argsort(values, kind="stable")
    if not _distinct(values[order], path, where, findings):
        return None
    if (order != np.arange(len(values))).any():
        findings.warn("levels reordered to run from low to high pressure", path)
    return Axis(values=values[order], order=order)


def chosen_levels(axis: Axis, wanted: Float[np.ndarray, "level"], path: Path, findings: Findings) -> Axis:
    """The wanted levels, in hPa; those that are not there are a defect."""
    apart = np.abs(axis.values[:, None] - np.sort(wanted)[None, :])
    absent = np.sort(wanted)[(apart > CLOSE).all(axis=0)]
    if len(absent):
        there = listed((f"{level:g}" for level in axis.values), most=40)
        reason = f"level {listed(f'{level:g}' for level in absent)} hPa is missing; there are {there}"
        findings.defect(path, "coordinate level", reason, "choose among these, or get files with all levels")
    kept = (apart <= CLOSE).any(axis=1)
    return Axis(values=axis.values[kept], order=axis.order[kept])


def _distinct(ordered: Float[np.ndarray, "place"], path: Path, where: str, findings: Findings) -> bool:
    twice = ordered[1:][np.abs(np.diff(ordered)) <= CLOSE]
    if len(twice):
        findings.defect(path, where, f"holds {listed(f'{value:g}' for value in twice)} twice", "keep one of each")
    return len(twice) == 0


def _outside(values: Float[np.ndarray, "place"], limit: float) -> str:
    return f"{values[~(np.abs(values) <= limit + CLOSE)][0]:g}"


def _span(values: Float[np.ndarray, "lon"]) -> str:
    return "-180..180" if values.max() <= 180 + CLOSE else f"{values.min():g}..{values.max():g}"
