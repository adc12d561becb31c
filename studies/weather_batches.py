"""The weather loader's windows as features of a model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from elbowroom.datasets.weather.examples import Example
from elbowroom.datasets.weather.loader import WeatherBatches
from elbowroom.studies.case import Batch, Features


class FeatureBatches:
    """`Batches` of features, counted in grid points."""

    def __init__(self, batches: WeatherBatches, make: Callable[[Example], Features]) -> None:
        self._batches, self._make = batches, make

    def __next__(self) -> Batch:
        names, examples = batch = next(self._batches)
        each = [self._make({key: held[i] for key, held in examples.items()}) for i in range(len(names))]
        return Batch(names, {key: np.stack([one[key] for one in each]) for key in each[0]}, amount=batch.grid_points)

    def get_state(self) -> dict[str, Any]:
        return self._batches.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        self._batches.set_state(state)
