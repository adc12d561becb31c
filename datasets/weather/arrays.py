"""Fields in normal form that are read when they are indexed, from as many files as there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Final

import numpy as np
import xarray as xr
from jaxtyping import Int, Num
from xarray.backends import BackendArray
from xarray.core.indexing import ExplicitIndexer, IndexingSupport, LazilyIndexedArray, explicit_indexing_adapter

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.weather.names import VERSION

FILES: Final = RLock()
"""Held to open, read or write weather files. netCDF's library crashes when two threads use it at once, even on two
files, and xarray locks only what it reads; zarr has threads of its own."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one file holds of a variable."""

    path: Path
    name: str
    """in the file"""
    variable: xr.Variable
    """Not read yet; `expver` is the only dimension beside those of `places`."""
    dimensions: Mapping[str, str]
    """From a dimension's name in normal form to the file's, in the order of the normal form; without those that the
    file's variable lacks."""
    places: Mapping[str, Int[np.ndarray, "_"]]
    """For each dimension of the normal form, where in the file each of its values is."""
    factor: float = 1.0
    offset: float = 0.0
    """Right values are factor * stored + offset."""

    @property
    def dtype(self) -> np.dtype:
        stored = self.variable.dtype
        return stored if stored.kind == "f" else np.dtype(np.float32)

    def read(self, wanted: Mapping[str, Int[np.ndarray, "_"]]) -> Num[np.ndarray, "..."]:
        """The values at these places of the normal form, in the order of `wanted`.

        Each dimension is read from its first wanted place to its last, in one piece: a file gives a run of places at
        the price of one. Raises `DataError` where the file cannot be read.
        """
        runs, within = {}, {}
        for dimension, name in self.dimensions.items():
            places = self.places[dimension][wanted[dimension]]
            runs[name] = slice(places.min(), places.max() + 1)
            within[dimension] = places - places.min()
        order = [*([VERSION] if VERSION in self.variable.dims else []), *self.dimensions.values()]
        try:
            with FILES:
                block = self.variable.isel(runs).transpose(*order).values
        except Exception as error:  # each format's library has its own exceptions, of no common kind
            reason = f"cannot be read ({type(error).__name__}: {error})"
            raise DataError(self.path, f"variable {self.name}", reason, "get the file again") from error
        if VERSION in self.variable.dims:
            block = _merged(block)
        for axis, dimension in enumerate(self.dimensions):
            block = np.take(block, within[dimension], axis=axis)
        lacking = tuple(axis for axis, dimension in enumerate(wanted) if dimension not in self.dimensions)
        block = np.expand_dims(block, lacking).astype(self.dtype, copy=False)
        if (self.factor, self.offset) != (1.0, 0.0):
            block = block * self.dtype.type(self.factor) + self.dtype.type(self.offset)
        return block


class FieldArray(BackendArray):
    """One variable over all its files."""

    def __init__(
        self, parts: Sequence[Part], shape: Mapping[str, int], origins: Int[np.ndarray, "time 2"] | None
    ) -> None:
        """`origins` says for each time which part it is in, and where in that part's times; None without times."""
        self.dtype = np.result_type(*(part.dtype for part in parts))
        self.shape = tuple(shape.values())
        self._dimensions, self._parts, self._origins = tuple(shape), tuple(parts), origins

    def __getitem__(self, key: ExplicitIndexer) -> Any:
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        places = [np.arange(size)[chosen] for size, chosen in zip(self.shape, key, strict=True)]
        wanted = {name: np.atleast_1d(chosen) for name, chosen in zip(self._dimensions, places, strict=True)}
        if any(len(chosen) == 0 for chosen in wanted.values()):
            values = np.empty([len(chosen) for chosen in wanted.values()], self.dtype)
        elif self._origins is None:
            values = self._parts[0].read(wanted)
        else:
            runs = _runs(self._origins[wanted["time"]])
            values = np.concatenate([self._parts[part].read({**wanted, "time": run}) for part, run in runs])
        return values.astype(self.dtype, copy=False)[tuple(0 if chosen.ndim == 0 else slice(None) for chosen in places)]


class HumidityArray(BackendArray):
    """Specific humidity, kg/kg, from relative humidity over water.

    Saturation pressure by Bolton 1980, equation 10; q = 0.622 e / (p - 0.378 e).
    """

    def __init__(
        self,
        relative: xr.Variable,
        temperature: xr.Variable,
        pressure_hpa: Num[np.ndarray, "level"],
        *,
        share: float,
    ) -> None:
        """`share` makes a share of `relative`: 0.01 if it is in percent. Both fields are [time, level, lat, lon]."""
        self.shape, self.dtype = relative.shape, relative.dtype
        self._relative, self._temperature, self._pressure, self._share = relative, temperature, pressure_hpa, share

    def __getitem__(self, key: ExplicitIndexer) -> Any:
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        chosen = dict(zip(self._relative.dims, key, strict=True))
        relative, temperature = self._relative.isel(chosen), self._temperature.isel(chosen)
        pressure = xr.Variable(("level",), self._pressure).isel(level=chosen["level"])
        celsius = temperature.astype(np.float64) - 273.15
        vapour = relative * self._share * 6.112 * np.exp(17.67 * celsius / (celsius + 243.5))
        specific = 0.622 * vapour / (pressure - 0.378 * vapour)
        return specific.transpose(*relative.dims).values.astype(self.dtype)


def lazy(dimensions: Sequence[str], array: BackendArray) -> xr.Variable:
    """A variable that reads from `array` what it is indexed by, when its values are asked for."""
    return xr.Variable(dimensions, LazilyIndexedArray(array))


def _runs(origins: Int[np.ndarray, "time 2"]) -> list[tuple[int, Int[np.ndarray, "run"]]]:
    """Times that lie next to each other in one part, together."""
    breaks = np.flatnonzero((np.diff(origins, axis=0) != (0, 1)).any(axis=1)) + 1
    return [(int(run[0, 0]), run[:, 1]) for run in np.split(origins, breaks)]


def _merged(versions: Num[np.ndarray, "version *field"]) -> Num[np.ndarray, "*field"]:
    """The first version's values, and the next one's where it has none."""
    merged = versions[0]
    for version in versions[1:]:
        merged = np.where(np.isnan(merged), version, merged)
    return merged
