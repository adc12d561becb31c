"""Weather files of any layout as one dataset in normal form, read when it is indexed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from elbowroom.datasets.findings import Findings, listed
from elbowroom.datasets.weather.arrays import FILES
from elbowroom.datasets.weather.corrections import right_units, specific_humidity
from elbowroom.datasets.weather.fields import Field, fields_of
from elbowroom.datasets.weather.names import UNITS
from elbowroom.datasets.weather.series import alike, joined
from elbowroom.datasets.weather.sources import find_sources, open_source


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to read of weather files."""

    variables: Sequence[str] | None = None
    """Short names; None for all there are."""
    levels: Sequence[int | float] | None = None
    """hPa; None for all there are."""
    member: int = 0
    """Place along a dimension of ensemble members."""
    fix: bool = False
    """Apply the factor to variables in a wrong unit, instead of refusing them."""


def open_weather(
    places: Path | Sequence[Path], findings: Findings | None = None, *, wanted: Wanted | None = None
) -> xr.Dataset:
    """Fields over time in normal form, from zarr folders, netCDF, GRIB or packed .npz files, or a folder of them.

    Dimensions are time, level, latitude, longitude: time datetime64[ns], increasing; level in hPa, increasing;
    latitude from north to south; longitude increasing in [0, 360). Variables have short names (`2t`, `z`, ...), K,
    m/s, Pa, m^2/s^2, kg/kg; what has no short name keeps its own. Static variables have no time. Only coordinates and
    one step of each file are read here; the rest when it is indexed. The attribute `changes` lists what differs from
    the files, `simulated` says whether one of them is a simulation without dates.

    Raises `DataError` for files that cannot be read as one series, for wanted variables and levels that are missing,
    and for variables in a wrong unit, unless `wanted.fix` is set; ValueError if no file is given.
    """
    findings = Findings(strict=True) if findings is None else findings
    dataset = read_weather(places, findings, wanted or Wanted())
    if dataset is None:
        raise findings.defects[0]
    return dataset


def read_weather(places: Path | Sequence[Path], findings: Findings, wanted: Wanted) -> xr.Dataset | None:
    """As `open_weather`, but whatever is broken is left out if `findings` is not strict; None if nothing remains."""
    fields: list[Field] = []
    simulated = False
    with FILES:
        sources = find_sources(places, findings)
        for path, kind in sources:
            for raw in open_source(path, kind, findings):
                simulated = simulated or "simulated" in raw.attrs
                fields += fields_of(raw, path, findings, levels=wanted.levels, member=wanted.member)
    if not fields and not findings.defects:
        findings.defect(sources[0][0], "", "holds no field over latitude and longitude", "name files that do")
    fields = alike(_wanted_fields(fields, wanted, findings), findings)
    asks_q = wanted.variables is None or "q" in wanted.variables
    fields, relative = right_units(fields, findings, fix=wanted.fix, relative_for_specific=asks_q)
    dataset = joined(fields, findings)
    if dataset is None:
        return None
    if relative is not None:
        dataset["q"] = specific_humidity(dataset, relative)
    if wanted.variables is not None:
        dataset = dataset[[name for name in wanted.variables if name in dataset]]
    for name in dataset.data_vars:
        dataset[name].attrs.update({"units": UNITS[str(name)]} if name in UNITS else {})
    return dataset.assign_attrs(changes=[warned.kind for warned in findings.warnings], simulated=simulated)


def _wanted_fields(fields: Sequence[Field], wanted: Wanted, findings: Findings) -> list[Field]:
    """The wanted ones, and what a wanted one is made from."""
    if wanted.variables is None or not fields:
        return list(fields)
    there = {field.name for field in fields}
    needed = set(wanted.variables)
    if "q" in needed - there and "r" in there:
        needed = needed - {"q"} | {"r"}
    absent = [name for name in wanted.variables if name in needed - there]
    if absent:
        reason = f"variable {listed(absent, most=20)} is missing; there are {listed(sorted(there), most=40)}"
        findings.defect(fields[0].part.path, "", reason, "get it, or choose among these")
    made_from = {"t"} if wanted.fix and {"q", "r"} & needed else set()
    return [field for field in fields if field.name in needed | made_from]
