"""Shuffled, prefetched training batches of windows that can be stopped and resumed, and examples to evaluate on."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import grain
import numpy as np
import xarray as xr

from elbowroom.datasets.weather.examples import Example, Fill, example
from elbowroom.datasets.weather.times import written
from elbowroom.datasets.weather.windows import Windows

_THREADS, _BATCHES_AHEAD = 2, 2
"""An example of three steps at 0.25 degrees and 13 levels takes 1 GiB."""
_PASSES = 2**31
"""without end to any run; grain's own endless repeat overflows when a batch is one example (grain 0.2.18)"""


type Change = Callable[[Example, np.random.Generator], Example]
"""Another example that is as likely"""


class WeatherBatch(NamedTuple):
    """What one training step consumes."""

    names: tuple[str, ...]
    """Current time of each example."""
    features: Example
    """Examples on the first axis."""

    @property
    def grid_points(self) -> int:
        """Of all examples, whatever their steps, levels and variables."""
        shape = next(value.shape for name, value in self.features.items() if value.ndim > 2)
        return len(self.names) * shape[-1] * shape[-2]


class WeatherBatches:
    """An endless iterator over batches. Its state is a few numbers and says which batch comes next.

    Every pass has its own order of the windows. It follows from the seed and the place in the sequence of examples:
    threads, prefetching and resuming change nothing. Windows are read one at a time, when they are near.
    """

    def __init__(
        self,
        dataset: xr.Dataset,
        windows: Windows,
        *,
        seed: int,
        batch: int,
        fill: Fill | None = None,
        change: Change | None = None,
    ) -> None:
        if not len(windows):
            raise ValueError("no windows to train on: every one has a missing time step, or the series is too short")

        def read(window: np.ndarray) -> tuple[str, Example]:
            return _name(dataset, windows, window), example(dataset, window, fill=fill)

        def changed(named: tuple[str, Example], random: np.random.Generator) -> tuple[str, Example]:
            name, arrays = named
            return name, arrays if change is None else change(arrays, random)

        order = grain.MapDataset.source(list(windows.steps)).seed(seed).shuffle().repeat(_PASSES)
        examples = order.map(read).random_map(changed)
        ahead = grain.ReadOptions(num_threads=_THREADS, prefetch_buffer_size=_BATCHES_AHEAD)
        self._batches = iter(examples.batch(batch, batch_fn=_stacked).to_iter_dataset(ahead))

    def __iter__(self) -> Iterator[WeatherBatch]:
        return self

    def __next__(self) -> WeatherBatch:
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        """Where the iterator is, in plain types that JSON can hold."""
        return self._batches.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue where an iterator over the same dataset, windows, seed and batch was."""
        self._batches.set_state(state)


def training_batches(
    dataset: xr.Dataset,
    windows: Windows,
    *,
    seed: int,
    batch: int,
    fill: Fill | None = None,
    change: Change | None = None,
) -> WeatherBatches:
    """Endless shuffled batches; every window comes once before any comes again, each time through `change` anew."""
    return WeatherBatches(dataset, windows, seed=seed, batch=batch, fill=fill, change=change)


def evaluation_examples(
    dataset: xr.Dataset, windows: Windows, *, fill: Fill | None = None
) -> Iterator[tuple[str, Example]]:
    """Every window once, by its current time, in order."""
    for window in windows.steps:
        yield _name(dataset, windows, window), example(dataset, window, fill=fill)


def _name(dataset: xr.Dataset, windows: Windows, window: np.ndarray) -> str:
    return written(dataset["time"].values[window[windows.history - 1]])


def _stacked(examples: Sequence[tuple[str, Example]]) -> WeatherBatch:
    names = tuple(name for name, _ in examples)
    return WeatherBatch(names, {key: np.stack([e[key] for _, e in examples]) for key in examples[0][1]})
