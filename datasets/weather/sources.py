"""Which files hold weather, and their content as it is stored, not read yet."""

import importlib
import importlib.util
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
import xarray as xr
from scipy.io import netcdf_file

from elbowroom.datasets.findings import Findings

type Kind = Literal["zarr", "netcdf", "grib", "packed npz"]

KIND_OF_SUFFIX: Final[dict[str, Kind]] = {
    ".zarr": "zarr",
    **dict.fromkeys((".nc", ".nc4", ".netcdf", ".cdf"), "netcdf"),
    **dict.fromkeys((".grib", ".grib2", ".grb", ".grb2"), "grib"),
    ".npz": "packed npz",
}
_KNOWN: Final = ", ".join(KIND_OF_SUFFIX)
_ZARR_METADATA: Final = ("zarr.json", ".zmetadata", ".zgroup")
_PACKED_AXES: Final = {3: ("time", "lon", "lat"), 4: ("time", "sigma", "lon", "lat")}
"""Of packed files that do not name their dimensions"""
_CLASSIC: Final = (b"CDF\x01", b"CDF\x02")
"""How netCDF-3 files begin; the others notice by themselves that they are cut short, save for 64-bit data (CDF-5)."""
_NOMINAL_START: Final = "2000-01-01"
"""What a simulation without dates counts its time from"""


def holds_weather(place: Path) -> bool:
    """Whether a file or folder is to be read as weather, by its name and its files' names."""
    if _kind(place) is not None or not place.is_dir():
        return _kind(place) is not None
    return any(_kind(path) not in (None, "packed npz") for path in place.iterdir())


def find_sources(places: Path | Sequence[Path], findings: Findings) -> list[tuple[Path, Kind]]:
    """Files and zarr folders, in the order given; a plain folder stands for all those in it, by name."""
    found: list[tuple[Path, Kind]] = []
    places = [places] if isinstance(places, Path) else places
    if not places:
        raise ValueError("no file of weather given: name one or more, or a folder")
    for place in places:
        if not place.exists():
            findings.defect(place, "", "does not exist", "check the path")
        elif kind := _kind(place):
            found.append((place, kind))
        elif place.is_file():
            findings.defect(place, "", f"is of no known kind ({_KNOWN})", "rename it by what it holds")
        else:
            before = len(found)
            for path in sorted(place.iterdir()):
                if inside := _kind(path):
                    found.append((path, inside))
            if len(found) == before:
                metadata = ", ".join(_ZARR_METADATA)
                reason = f"holds neither zarr metadata ({metadata}) nor a file of a known kind ({_KNOWN})"
                findings.defect(place, "", reason, "name the zarr folder itself, or the folder that has your files")
    return found


def open_source(path: Path, kind: Kind, findings: Findings) -> list[xr.Dataset]:
    """The file's variables under its own names, times not decoded; several datasets for the level types of GRIB."""
    if path.is_file() and path.stat().st_size == 0:
        findings.defect(path, "", "the file is empty", "get it again, or leave it out")
        return []
    if kind == "zarr" and not any((path / name).exists() for name in _ZARR_METADATA):
        reason = f"has no zarr metadata ({', '.join(_ZARR_METADATA)})"
        findings.defect(path, "", reason, "copy the whole folder, with the files that begin with a dot")
        return []
    if kind == "grib" and importlib.util.find_spec("cfgrib") is None:
        findings.defect(path, "", "is GRIB, which needs cfgrib", "run pip install 'elbowroom[grib]'")
        return []
    try:
        return _OPENERS[kind](path)
    except Exception as error:  # each format's library has its own exceptions, of no common kind
        reason = f"is no readable {kind} ({type(error).__name__}: {error})"
        findings.defect(path, "", reason, "get it again, or name it by what it is")
        return []


def _kind(path: Path) -> Kind | None:
    if path.is_dir() and any((path / name).exists() for name in _ZARR_METADATA):
        return "zarr"
    kind = KIND_OF_SUFFIX.get(path.suffix.lower())
    return None if kind != "zarr" and path.is_dir() else kind


def _netcdf(path: Path) -> list[xr.Dataset]:
    with path.open("rb") as file:
        if file.read(len(_CLASSIC[0])) in _CLASSIC:
            # The library gives zeros for what a classic file lacks at its end; scipy maps it all and notices.
            file.seek(0)
            try:
                netcdf_file(file, mmap=True).close()
            except ValueError:
                raise OSError("it is shorter than its header says") from None
    return [xr.open_dataset(path, engine="netcdf4", decode_times=False, cache=False)]


def _zarr(path: Path) -> list[xr.Dataset]:
    # Consolidated metadata only spare a remote store's round trips, and xarray warns where there are none.
    return [xr.open_dataset(path, engine="zarr", decode_times=False, cache=False, consolidated=False, chunks=None)]


def _grib(path: Path) -> list[xr.Dataset]:
    cfgrib = importlib.import_module("cfgrib")
    # No index files beside the user's data, and no message left out because it is damaged.
    how = {"indexpath": "", "errors": "raise"}
    return cfgrib.open_datasets(str(path), backend_kwargs=how, decode_times=False, cache=False)


def _packed(path: Path) -> list[xr.Dataset]:
    """Fields as uint16 with NAME_scale and NAME_offset, 65535 where missing; unpacked whole, as they are small."""
    try:
        # Given a path, numpy leaves a damaged archive open.
        with path.open("rb") as file, np.load(file) as stored:
            arrays = dict(stored)
    except zipfile.BadZipFile as error:
        raise ValueError("damaged archive") from error
    names = [name for name in arrays if f"{name}_scale" in arrays]
    simulated = "dims" not in arrays
    coordinates = _simulated_axes(arrays) if simulated else _named_axes(arrays)
    fields = {}
    for name in names:
        dimensions = _PACKED_AXES[arrays[name].ndim] if simulated else tuple(str(d) for d in arrays["dims"])
        packing = {"scale_factor": arrays[f"{name}_scale"][()], "add_offset": arrays[f"{name}_offset"][()]}
        fields[name] = xr.Variable(dimensions, arrays[name], {**packing, "_FillValue": np.uint16(65535)})
    dataset = xr.decode_cf(xr.Dataset(fields, coordinates), decode_times=False)
    return [dataset.assign_attrs(simulated="true", time_origin=_NOMINAL_START) if simulated else dataset]


def _simulated_axes(arrays: dict[str, np.ndarray]) -> dict[str, xr.Variable]:
    steps = max(len(arrays[name]) for name in arrays if f"{name}_scale" in arrays)
    units = {"units": f"hours since {_NOMINAL_START}"}
    return {
        "time": xr.Variable(("time",), np.arange(steps) * int(arrays["step_hours"]), units),
        **{name: xr.Variable((name,), arrays[name]) for name in ("sigma", "lon", "lat")},
    }


def _named_axes(arrays: dict[str, np.ndarray]) -> dict[str, xr.Variable]:
    seconds = {"units": "seconds since 1970-01-01"}
    return {
        name: xr.Variable((name,), arrays[f"coord_{name}"], seconds if "time" in name else {})
        for name in (str(dimension) for dimension in arrays["dims"])
    }


_OPENERS: Final = {"zarr": _zarr, "netcdf": _netcdf, "grib": _grib, "packed npz": _packed}
