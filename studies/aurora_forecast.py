"""A trained Aurora: from the folder of a run or a file of published parameters, to forecasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from flax import nnx
from jaxtyping import Float, PyTree

from elbowroom.datasets.weather.examples import Example
from elbowroom.datasets.weather.times import regular_step
from elbowroom.memory.plan import Chunk, Plan
from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.encodings import Encodings
from elbowroom.models.aurora.model import Aurora, History, Weather, chunk_axes
from elbowroom.models.aurora.normalisation import atmosphere_scaling, surface_scaling
from elbowroom.models.aurora.weights import load_published, published_arrays, separated
from elbowroom.models.published import WeightsError
from elbowroom.studies.aurora_features import FeatureMaker
from elbowroom.studies.forecast import Advance, Fields, ForecastError
from elbowroom.studies.parameter_file import read_arrays
from elbowroom.studies.trained import learned, run_record

ROWS = (24, 6, 1)
"""Of patches, at a time: four rows of the published windows, one, and the least"""


@dataclass(frozen=True, kw_only=True)
class AuroraForecaster:
    """A `Forecaster` whose steps are those of the data."""

    config: AuroraConfig
    parameters: PyTree
    origin: str
    features: FeatureMaker
    trained_grid: str | None
    """In the words of `_grid`; None where nobody knows."""

    @property
    def notes(self) -> list[str]:
        dataset, notes = self.features.dataset, []
        here = _grid({f"{name}s": dataset.sizes[name] for name in ("latitude", "longitude", "level")})
        if self.trained_grid not in (None, here):
            notes.append(f"Trained on {self.trained_grid}, but the data have {here}.")
        for latitude in dataset["latitude"].values[len(self.latitudes) :]:
            notes.append(f"Latitude {latitude:g} is neither given to the model nor forecast: its patches end before.")
        return notes

    @property
    def history(self) -> int:
        return self.config.history

    @property
    def step(self) -> np.timedelta64:
        return np.timedelta64(round(60 * self.features.lead_hours), "m")

    @property
    def variables(self) -> tuple[str, ...]:
        return (*self.config.surface, *self.config.atmosphere)

    @property
    def latitudes(self) -> Float[np.ndarray, "lat"]:
        return self.features.latitudes

    @property
    def ladder(self) -> Sequence[Plan]:
        longest = max(self.chunk_axes["rows"].values())
        return [Plan(), *(Plan(chunk=Chunk(rows=rows)) for rows in ROWS if rows < longest)]

    @property
    def chunk_axes(self) -> Mapping[str, Mapping[str, int]]:
        return chunk_axes(self.config, len(self.latitudes))

    def start(self, given: Example) -> History:
        made: dict[str, Any] = self.features(given)
        return History(*(made[part] for part in History._fields))

    def condition(self, newest: float) -> Encodings:
        return self.features.encodings(newest)

    def advance(self, plan: Plan) -> Advance:
        graph, _ = nnx.split(_shapes(self.config), nnx.Param)

        def advance(parameters: PyTree, history: Any, encodings: Any) -> tuple[History, Weather]:
            found = nnx.merge(graph, parameters)(history, encodings, plan)
            return history.after(found), found

        return advance

    def fields(self, predicted: Weather) -> Fields:
        """The published mean and scale put back."""
        mean, scale = surface_scaling(self.config.surface)
        air_mean, air_scale = atmosphere_scaling(self.config.atmosphere, self.features.dataset["level"].values)
        surface = np.asarray(predicted.surface) * scale + mean
        atmosphere = np.asarray(predicted.atmosphere) * air_scale + air_mean
        pairs = (self.config.surface, surface), (self.config.atmosphere, atmosphere)
        return {name: field for names, fields in pairs for name, field in zip(names, fields, strict=True)}


def aurora_forecaster(place: Path, dataset: xr.Dataset, config: AuroraConfig) -> AuroraForecaster:
    """On the grid of a dataset in normal form.

    Args:
      place: the folder of a run, or a file of published parameters.
      config: of the model that a file holds; a run knows its own.

    Raises `RunError` or `WeightsError` naming the place, `ForecastError` for a dataset of one time.
    """
    step = regular_step(dataset["time"].values)
    if step is None:
        raise ForecastError("the data have one time; Aurora starts from two or more, as far apart as its steps")
    trained_grid = None
    if place.is_dir():
        config, parameters, record, steps = _of_run(place)
        origin, trained_grid = f"run {place.name}, step {steps}", _grid(record["sizes"])
    else:
        parameters, origin = published_parameters(place, config), f"file {place.name}"
    features = FeatureMaker(config, dataset, float(step / np.timedelta64(1, "h")), 1)
    return AuroraForecaster(
        config=config, parameters=parameters, origin=origin, features=features, trained_grid=trained_grid
    )


def published_parameters(path: Path, config: AuroraConfig) -> PyTree:
    """The parameters in an `.npz` file with the names of the published checkpoints, as they are or after `export`.

    Raises `WeightsError` naming the file, and every array that does not fit.
    """
    model, arrays = _shapes(config), read_arrays(path, "an .npz file with Aurora's published names")
    try:
        load_published(model, separated(arrays, config))
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    return nnx.split(model, nnx.Param)[1]


def published_of_run(folder: Path) -> dict[str, Any]:
    """A run's parameters under their published names."""
    return published_arrays(_of_run(folder)[1])


def _of_run(folder: Path) -> tuple[AuroraConfig, PyTree, dict[str, Any], int]:
    record = run_record(folder, AuroraConfig)
    told: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in record["model"].items()
    }
    config = AuroraConfig(**told)
    parameters, steps = learned(folder, record, nnx.split(_shapes(config), nnx.Param)[1])
    return config, parameters, record, steps


def _shapes(config: AuroraConfig) -> Aurora:
    """A model without parameters, only their shapes."""
    return nnx.eval_shape(lambda: Aurora(config, rngs=nnx.Rngs(0)))


def _grid(sizes: Mapping[str, int]) -> str:
    return f"{sizes['latitudes']} latitudes, {sizes['longitudes']} longitudes and {sizes['levels']} levels"
