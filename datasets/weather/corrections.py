"""Variables in a wrong unit: refused, or corrected where the user wishes it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from elbowroom.datasets.findings import DataError, Findings
from elbowroom.datasets.weather.arrays import HumidityArray, lazy
from elbowroom.datasets.weather.fields import Field
from elbowroom.datasets.weather.units import MOST_SATURATED, PERCENT, SHARE, Wrong, wrong_units


@dataclass(frozen=True, kw_only=True)
class Relative:
    """Relative humidity that specific humidity is to be made from."""

    name: str
    share: float
    """0.01 if it is in percent."""


def right_units(
    fields: Sequence[Field], findings: Findings, *, fix: bool, relative_for_specific: bool
) -> tuple[list[Field], Relative | None]:
    """The fields with the factors that make their units right, and what `q` is to be made from if it is relative.

    Reads the first time step of every file; a field that cannot be read is left out after the defect. Without `fix` a
    wrong unit is a defect that names its factor.

    Args:
      relative_for_specific: relative humidity `r` is what the file has instead of `q`.
    """
    names = {field.name for field in fields}
    right: list[Field] = []
    humidities: dict[float | None, Field] = {}
    for field in fields:
        name = "q" if field.name == "r" and relative_for_specific and "q" not in names else field.name
        try:
            wrong = _wrong(field, name)
        except DataError as error:
            findings.defect(error.path, error.where, error.reason, error.remedy)
            continue
        relative = wrong is not None and wrong.relative
        if name == "q":
            humidities.setdefault(wrong.factor if wrong is not None and relative else None, field)
        if wrong is not None:
            _tell(field, name, wrong, findings, fixed=fix and (not relative or "t" in names))
        if wrong is not None and fix and not relative:
            field = replace(field, part=replace(field.part, factor=wrong.factor, offset=wrong.offset))
        right.append(field)
    return right, _relative(humidities, findings) if fix and "t" in names else None


def specific_humidity(dataset: xr.Dataset, relative: Relative) -> xr.Variable:
    """`q` in kg/kg [time, level, latitude, longitude] from relative humidity and `t`, when it is read."""
    humidity, temperature = dataset[relative.name].variable, dataset["t"].variable
    array = HumidityArray(humidity, temperature, dataset["level"].values, share=relative.share)
    return lazy([str(dimension) for dimension in humidity.dims], array)


def _wrong(field: Field, name: str) -> Wrong | None:
    first = {d: np.arange(1 if d == "time" else len(places)) for d, places in field.part.places.items()}
    values = field.part.read(first)
    if field.name == "r" and name == "q":
        return PERCENT if np.nanmax(values, initial=0.0) > MOST_SATURATED else SHARE
    return wrong_units(name, field.units, values, field.levels_hpa)


def _tell(field: Field, name: str, wrong: Wrong, findings: Findings, *, fixed: bool) -> None:
    where, kind = f"variable {field.part.name}", f"{name} is {wrong.found} instead of {wrong.wanted}"
    if fixed:
        findings.warn(f"{kind}: {wrong.remedy}: done", field.part.path, where)
    else:
        needed = " (which needs t)" if wrong.relative else ""
        findings.defect(field.part.path, where, kind, f"{wrong.remedy}, or read it with fix{needed}")


def _relative(humidities: dict[float | None, Field], findings: Findings) -> Relative | None:
    """What all files have in common, from the factors found and a field for each."""
    if len(humidities) > 1:
        one, other = list(humidities.values())[:2]
        reason = f"is another kind of humidity than {one.part.name} of {one.part.path}"
        findings.defect(other.part.path, f"variable {other.part.name}", reason, "convert both to specific humidity")
    return next((Relative(name=f.name, share=share) for share, f in humidities.items() if share is not None), None)
