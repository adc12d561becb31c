"""Windows of weather as Stormer's features: channels normalised by what the training data say of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float

from elbowroom.datasets.findings import listed
from elbowroom.datasets.weather.examples import HOURS, VALID, Example
from elbowroom.datasets.weather.statistics import statistics
from elbowroom.datasets.weather.times import regular_step
from elbowroom.studies.metrics.weather import area_weights
from elbowroom.studies.sizes import CaseSizeError, Sizes


@dataclass(frozen=True, kw_only=True)
class Channel:
    """One variable at one level, and what the training data say of it, in the variable's unit."""

    variable: str
    level: float | None
    """hPa; None for what has no levels"""
    mean: float
    std: float
    changes: tuple[float, ...]
    """Standard deviation of the change over 1, 2, ... steps"""

    def __str__(self) -> str:
        return _written(self.variable, self.level)


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """What turns fields into the numbers that a model was trained on, and back. A run keeps it in `run.json`."""

    channels: tuple[Channel, ...]
    """In the order of the model's axis"""
    step_hours: float
    """between the times that leads are counted in"""

    def to_dict(self) -> dict[str, Any]:
        """In types that JSON can hold."""
        rows = [dataclasses.asdict(channel) | {"changes": list(channel.changes)} for channel in self.channels]
        return {"channels": rows, "step_hours": self.step_hours}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Scaling":
        channels = tuple(Channel(**{**row, "changes": tuple(row["changes"])}) for row in stored["channels"])
        return cls(channels=channels, step_hours=stored["step_hours"])

    @property
    def step(self) -> np.timedelta64:
        return np.timedelta64(round(60 * self.step_hours), "m")

    @property
    def variables(self) -> list[str]:
        return list(dict.fromkeys(channel.variable for channel in self.channels))

    @property
    def levels(self) -> list[float]:
        return sorted({channel.level for channel in self.channels if channel.level is not None})


def scaling_of(dataset: xr.Dataset, leads: int) -> Scaling:
    """The statistics of training data in normal form, over all its times, a block of them at a time.

    Static variables are no channels. Raises `CaseSizeError` for data of one time, and for a channel that never changes
    over one of the leads.
    """
    step = regular_step(dataset["time"].values)
    if step is None:
        raise CaseSizeError("the training data have one time; give a series")
    found = statistics(_changing(dataset), leads=range(1, leads + 1))
    channels = []
    for variable, of_variable in found.items():
        for place, level in enumerate(_levels(dataset, variable)):
            channel = Channel(
                variable=variable,
                level=level,
                mean=float(of_variable.values.mean[place]),
                std=float(of_variable.values.std[place]),
                changes=tuple(float(changes.std[place]) for changes in of_variable.changes.values()),
            )
            if not all(spread > 0 for spread in (channel.std, *channel.changes)):
                raise CaseSizeError(
                    f"{channel} never changes in the training data, or they have no two times {leads} steps apart; "
                    "leave it out, or lower --size leads"
                )
            channels.append(channel)
    return Scaling(channels=tuple(channels), step_hours=float(step / np.timedelta64(1, "h")))


def require_sizes(dataset: xr.Dataset, sizes: Sizes) -> None:
    """Raise `CaseSizeError` where training data have other channels or another grid than the sizes say."""
    names = _channel_names(dataset)
    found = {"channels": len(names), **_grid(dataset)}
    other = [f"--size {name}={length}" for name, length in found.items() if sizes[name] != length]
    if other:
        raise CaseSizeError(f"the data hold channels {listed(names, most=80)}: add {' '.join(other)}")


def require_channels(dataset: xr.Dataset, scaling: Scaling, sizes: Sizes) -> None:
    """Raise `CaseSizeError` where data lack a channel that the model was trained on, or have another grid."""
    there = _channel_names(dataset)
    absent = [str(channel) for channel in scaling.channels if str(channel) not in there]
    if absent:
        raise CaseSizeError(f"channel {listed(absent)} is missing; the data hold {listed(there, most=80)}")
    found = _grid(dataset)
    if any(sizes[name] != length for name, length in found.items()):
        own, other = (" x ".join(f"{grid[name]} {name}" for name in found) for grid in (sizes, found))
        raise CaseSizeError(f"the model is for {own}, the data have {other}; interpolate them, or train on their grid")


def _grid(dataset: xr.Dataset) -> dict[str, int]:
    return {f"{name}s": dataset.sizes[name] for name in ("latitude", "longitude")}


def persistence_error(example: Mapping[str, np.ndarray]) -> float:
    """The score of the forecast that nothing changes."""
    weight = example["target_mask"] * example["area"][:, None].astype(np.float64)
    return float(np.sqrt((weight * np.square(example["target"])).sum() / max(weight.sum(), 1e-30)))


class FeatureMaker:
    """Makes features of windows of two times, the later of which is to be forecast from the earlier."""

    def __init__(self, scaling: Scaling, dataset: xr.Dataset) -> None:
        """`dataset` is in normal form and holds all channels."""
        self._scaling, self._levels = scaling, dataset.get("level", xr.DataArray([])).values.tolist()
        self._area = area_weights(dataset["latitude"].values).astype(np.float32)

    def __call__(self, example: Example) -> dict[str, np.ndarray]:
        """The state, its change and the hours between them; 0, the mean, where a value is not known."""
        (now, later), (known, known_later) = self._stacked(example)
        hours = float(example[HOURS][1] - example[HOURS][0])
        lead = round(hours / self._scaling.step_hours)
        spread = _column([channel.changes[lead - 1] for channel in self._scaling.channels])
        both = known & known_later
        return {
            "state": self._normalised(now, known),
            "mask": known,
            "target": np.where(both, (later - now) / spread, 0).astype(np.float32),
            "target_mask": both,
            "lead_hours": np.array(hours, np.float32),
            "area": self._area,
        }

    def newest(
        self, example: Example
    ) -> tuple[Float[np.ndarray, "channel lat lon"], Bool[np.ndarray, "channel lat lon"]]:
        """The state at the last time, and where it is known."""
        values, known = self._stacked(example)
        return self._normalised(values[-1], known[-1]), known[-1]

    def _normalised(
        self, values: Float[np.ndarray, "channel lat lon"], known: Bool[np.ndarray, "channel lat lon"]
    ) -> Float[np.ndarray, "channel lat lon"]:
        mean, std = (_column([getattr(c, name) for c in self._scaling.channels]) for name in ("mean", "std"))
        return np.where(known, (values - mean) / std, 0).astype(np.float32)

    def _stacked(
        self, example: Example
    ) -> tuple[Float[np.ndarray, "time channel lat lon"], Bool[np.ndarray, "time channel lat lon"]]:
        """Values and where they are known."""
        picked = [self._picked(example, channel) for channel in self._scaling.channels]
        return np.stack([values for values, _ in picked], axis=1), np.stack([known for _, known in picked], axis=1)

    def _picked(self, example: Example, channel: Channel) -> tuple[np.ndarray, np.ndarray]:
        both = example[channel.variable], example[f"{channel.variable}/{VALID}"]
        if channel.level is None:
            return both
        place = self._levels.index(channel.level)
        return both[0][:, place], both[1][:, place]


def _changing(dataset: xr.Dataset) -> xr.Dataset:
    return dataset[[name for name, variable in dataset.data_vars.items() if "time" in variable.dims]]


def _channel_names(dataset: xr.Dataset) -> list[str]:
    names = [str(name) for name in _changing(dataset).data_vars]
    return [_written(name, level) for name in names for level in _levels(dataset, name)]


def _levels(dataset: xr.Dataset, variable: str) -> list[float] | list[None]:
    return [float(level) for level in dataset["level"].values] if "level" in dataset[variable].dims else [None]


def _written(variable: str, level: float | None) -> str:
    return variable if level is None else f"{variable} {level:g}"


def _column(numbers: Sequence[float]) -> Float[np.ndarray, "channel 1 1"]:
    return np.array(numbers)[:, None, None]
