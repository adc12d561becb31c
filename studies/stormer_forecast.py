"""A trained Stormer: from the folder of a run to forecasts, one step of its training data after the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr
from flax import nnx
from jaxtyping import Array, Bool, Float, PyTree

from elbowroom.datasets.weather.examples import Example
from elbowroom.memory.plan import Chunk, Plan
from elbowroom.models.stormer.config import StormerConfig
from elbowroom.models.stormer.model import Stormer, chunk_axes
from elbowroom.models.stormer.weights import published_arrays
from elbowroom.studies.forecast import Advance, Fields, ForecastError
from elbowroom.studies.run_folder import RunError
from elbowroom.studies.stormer_features import FeatureMaker, Scaling, require_channels
from elbowroom.studies.trained import learned, run_record

TILES = (256, 64)
"""Patches, queries and keys at a time"""

type State = tuple[Float[Array, "channel lat lon"], Bool[Array, "channel lat lon"]]
"""Normalised, and where it is known"""


@dataclass(frozen=True, kw_only=True)
class StormerForecaster:
    """A `Forecaster` by the shortest lead that the model knows, again and again."""

    config: StormerConfig
    parameters: PyTree
    origin: str
    scaling: Scaling
    dataset: xr.Dataset
    """In normal form"""

    @property
    def notes(self) -> list[str]:
        return []

    @property
    def history(self) -> int:
        return 1

    @property
    def step(self) -> np.timedelta64:
        return self.scaling.step

    @property
    def variables(self) -> list[str]:
        return self.scaling.variables

    @property
    def latitudes(self) -> Float[np.ndarray, "lat"]:
        return self.dataset["latitude"].values

    @property
    def ladder(self) -> Sequence[Plan]:
        longest = max(self.chunk_axes["rows"].values())
        cuts = [Plan(chunk=Chunk(rows=size, queries=size, keys=size)) for size in TILES if size < longest]
        return [Plan(), *cuts]

    @property
    def chunk_axes(self) -> Mapping[str, Mapping[str, int]]:
        config = self.config
        return chunk_axes({"patch": config.patch, "latitudes": config.latitudes, "longitudes": config.longitudes})

    def start(self, given: Example) -> State:
        state, known = FeatureMaker(self.scaling, self.dataset).newest(given)
        return jnp.asarray(state), jnp.asarray(known)

    def condition(self, newest: float) -> Float[Array, ""]:
        """The lead in hours; the model is not told the date."""
        return jnp.asarray(self.scaling.step_hours, jnp.float32)

    def advance(self, plan: Plan) -> Advance:
        forecast = forecast_of(self.config, plan)
        channels = self.scaling.channels
        spread = np.array([channel.changes[0] / channel.std for channel in channels], np.float32)[:, None, None]

        def advance(parameters: PyTree, now: Any, lead_hours: Any) -> tuple[State, Float[Array, "channel lat lon"]]:
            state, known = now
            change = forecast(parameters, {"state": state, "mask": known, "lead_hours": lead_hours})
            later = state + change * spread
            return (later, jnp.ones_like(known)), later

        return advance

    def fields(self, predicted: Float[Array, "channel lat lon"]) -> Fields:
        """The training data's mean and deviation put back."""
        found: dict[str, list[np.ndarray]] = {}
        for channel, field in zip(self.scaling.channels, np.asarray(predicted, np.float64), strict=True):
            found.setdefault(channel.variable, []).append(field * channel.std + channel.mean)
        leveled = {channel.variable for channel in self.scaling.channels if channel.level is not None}
        return {name: np.stack(fields) if name in leveled else fields[0] for name, fields in found.items()}


def stormer_forecaster(place: Path, dataset: xr.Dataset) -> StormerForecaster:
    """On a dataset in normal form with the channels and the grid of the training data.

    Args:
      place: the folder of a run. A file of parameters does not say how fields are normalised.

    Raises `RunError` naming the place, `CaseSizeError` or `ForecastError` for data of another kind.
    """
    if place.is_file():
        raise RunError(f"{place}: parameters alone do not say how fields are normalised; give the folder of a run")
    config, parameters, record, steps = _of_run(place)
    scaling = Scaling.from_dict(record["model"]["statistics"])
    require_channels(dataset, scaling, record["sizes"])
    further = sorted({float(level) for level in dataset.get("level", xr.DataArray([])).values} - set(scaling.levels))
    if further:
        listed = ", ".join(f"{level:g}" for level in further)
        raise ForecastError(f"the data hold levels that the model does not forecast: {listed} hPa; leave them out")
    origin = f"run {place.name}, step {steps}"
    return StormerForecaster(config=config, parameters=parameters, origin=origin, scaling=scaling, dataset=dataset)


def published_of_run(folder: Path) -> dict[str, Any]:
    """A run's parameters under their published names."""
    config, parameters, _, _ = _of_run(folder)
    model = _shapes(config)
    nnx.update(model, parameters)
    return published_arrays(model)


def forecast_of(config: StormerConfig, plan: Plan) -> Callable[[PyTree, Any], Float[Array, "channel lat lon"]]:
    """The model as a function from parameters and an example's features to the normalised change of every channel."""
    graph, _ = nnx.split(_shapes(config), nnx.Param)

    def forecast(parameters: PyTree, example: Any) -> Float[Array, "channel lat lon"]:
        return nnx.merge(graph, parameters)(example["state"], example["mask"], example["lead_hours"], plan)

    return forecast


def _of_run(folder: Path) -> tuple[StormerConfig, PyTree, dict[str, Any], int]:
    record = run_record(folder)
    told = record["model"]
    if "statistics" not in told:
        raise RunError(f"{folder} is a run of {record['case']}, not of Stormer; give a run of the case that you name")
    shape = {key: told[key] for key in ("patch", "width", "depth", "heads", "mlp_factor")}
    grid = {key: record["sizes"][key] for key in ("channels", "latitudes", "longitudes")}
    config = StormerConfig(**shape, **grid)
    parameters, steps = learned(folder, record, nnx.split(_shapes(config), nnx.Param)[1])
    return config, parameters, record, steps


def _shapes(config: StormerConfig) -> Stormer:
    """A model without parameters, only their shapes."""
    return nnx.eval_shape(lambda: Stormer(config, rngs=nnx.Rngs(0)))
