"""Mean and standard deviation of values and of their changes over some steps, from all times and files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int

from elbowroom.datasets.weather.times import Times, regular_step

_BLOCK_BYTES: Final = 128 * 2**20
"""of one variable that are held at a time, in float64"""


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Of every valid point, unweighted; one for each level, or a single one."""

    count: Int[np.ndarray, "level"]
    mean: Float[np.ndarray, "level"]
    """NaN where nothing is valid."""
    squares: Float[np.ndarray, "level"]
    """Sum of squared distances to the mean"""

    @property
    def std(self) -> Float[np.ndarray, "level"]:
        """Population standard deviation, as numpy's; NaN where nothing is valid."""
        return np.sqrt(self.squares / np.where(self.count == 0, np.nan, self.count))


@dataclass(frozen=True, kw_only=True)
class VariableStatistics:
    """In the variable's unit."""

    values: Moments
    changes: Mapping[int, Moments]
    """By lead in regular steps: from each time to the one a lead later, where both are valid. Empty for static ones."""


def statistics(dataset: xr.Dataset, leads: Sequence[int] = (1,)) -> dict[str, VariableStatistics]:
    """By variable, of a dataset in normal form; holds a block of times at once, whatever the number of files.

    Chan, Golub, LeVeque 1979: moments of blocks, merged in float64.
    """
    step = regular_step(dataset["time"].values)
    return {str(name): _of_variable(variable, leads, step) for name, variable in dataset.data_vars.items()}


def _of_variable(variable: xr.DataArray, leads: Sequence[int], step: np.timedelta64 | None) -> VariableStatistics:
    levels = variable.sizes.get("level", 1)
    if "time" not in variable.dims:
        return VariableStatistics(values=_moments(_by_level(variable.expand_dims("time"))), changes={})
    values, changes = _nothing(levels), dict.fromkeys(leads, _nothing(levels))
    times, before = variable["time"].values, np.empty((0, levels, 1))
    for start, block in _blocks(variable):
        values = _merged(values, _moments(block))
        joint = np.concatenate([before, block]) if len(before) else block
        stamps = times[start - len(before) : start + len(block)]
        for lead in leads:
            later = np.arange(max(lead, len(before)), len(joint))
            later = later[_apart(stamps, later, lead, step)]
            changes[lead] = _merged(changes[lead], _moments(joint[later] - joint[later - lead]))
        before = joint[-max(leads) :]
    return VariableStatistics(values=values, changes=changes)


def _blocks(variable: xr.DataArray) -> Iterator[tuple[int, Float[np.ndarray, "time level point"]]]:
    """Runs of times with the place of their first."""
    bytes_of_time = 8 * variable.size // max(1, variable.sizes["time"])
    at_once = max(1, _BLOCK_BYTES // max(1, bytes_of_time))
    for start in range(0, variable.sizes["time"], at_once):
        yield start, _by_level(variable.isel(time=slice(start, start + at_once)))


def _by_level(variable: xr.DataArray) -> Float[np.ndarray, "time level point"]:
    values = variable.values.astype(np.float64)
    return values.reshape(len(values), variable.sizes.get("level", 1), -1)


def _apart(
    times: Times, later: Int[np.ndarray, "pair"], lead: int, step: np.timedelta64 | None
) -> Bool[np.ndarray, "pair"]:
    """Which times are `lead` regular steps after the one `lead` places before."""
    return np.zeros(len(later), bool) if step is None else times[later] - times[later - lead] == lead * step


def _nothing(levels: int) -> Moments:
    return _moments(np.empty((0, levels, 1)))


def _moments(values: Float[np.ndarray, "time level point"]) -> Moments:
    valid = np.isfinite(values)
    count = valid.sum(axis=(0, 2))
    held = np.where(count == 0, np.nan, count)
    mean = np.where(valid, values, 0.0).sum(axis=(0, 2)) / held
    away = np.where(valid, values - mean[None, :, None], 0.0)
    return Moments(count=count, mean=mean, squares=(away**2).sum(axis=(0, 2)))


def _merged(one: Moments, other: Moments) -> Moments:
    count = one.count + other.count
    share = other.count / np.maximum(count, 1)
    apart = np.where((one.count == 0) | (other.count == 0), 0.0, other.mean - one.mean)
    mean = np.where(one.count == 0, other.mean, one.mean + apart * share)
    squares = one.squares + other.squares + apart**2 * one.count * share
    return Moments(count=count, mean=mean, squares=squares)
