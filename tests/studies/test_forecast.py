"""Where forecasts start, what of them is shown, and where on the globe they are wrong."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from elbowroom.datasets.weather.examples import VALID, example
from elbowroom.datasets.weather.windows import windows
from elbowroom.memory.plan import Plan
from elbowroom.studies.forecast import Forecaster, ForecastError, Forecasts, chosen_starts
from elbowroom.studies.weather_evaluate import Channel, evaluate_forecasts, shown

LATITUDES, LONGITUDES, LEVELS = (
    np.array([60.0, 0.0, -30.0, -80.0]),
    np.arange(0.0, 360.0, 72.0),
    np.array([300.0, 850.0]),
)
TIMES, LEADS, KEPT, FACTOR = 7, 2, 3, 0.5
STEP = np.timedelta64(6, "h")
TIME = np.datetime64("2020-02-28T18", "ns") + np.arange(TIMES) * STEP


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({"first": None, "every": None}, [[5, 6]]),
        ({"first": "2020-02-29T06:00Z", "every": None}, [[1, 2]]),
        ({"first": None, "every": 12}, [[0, 1], [2, 3], [4, 5]]),
        ({"first": "2020-02-29T18", "every": 12}, [[3, 4], [5, 6]]),
    ],
)
def test_starts_are_those_asked_for_after_the_times_they_need(asked, places):
    assert chosen_starts(TIME, history=2, step=STEP, **asked).tolist() == places


def test_a_longer_step_needs_times_further_apart_and_a_hole_has_no_start():
    assert chosen_starts(TIME, history=2, step=2 * STEP, first=None, every=None).tolist() == [[4, 6]]
    holed = TIME[[0, 1, 3, 4, 6]]
    assert chosen_starts(holed, history=2, step=STEP, first=None, every=6).tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ForecastError, match="the data have no 2 times 5 h apart to start from"):
        chosen_starts(TIME, history=2, step=np.timedelta64(5, "h"), first=None, every=None)


def test_a_few_channels_are_all_shown_and_of_many_the_headlines():
    few = [Channel("2t", None), Channel("t", 300.0), Channel("t", 850.0)]
    assert shown(few) == ["2t", "t300", "t850"]
    many = [Channel(name, level) for name in ("q", "z") for level in (50.0, 100.0, 150.0, 500.0, 700.0, 850.0)]
    assert shown(many) == ["z500", "q700"]


class Halved:
    """Half of everything a step later, without the last latitude; its fields come in another order than its names."""

    parameters: ClassVar = {"factor": jnp.asarray(FACTOR, jnp.float32)}
    chunk_axes: ClassVar = {}
    origin, notes, history, step = "by hand", (), 1, STEP
    variables, latitudes, ladder = ("2t", "t"), LATITUDES[:KEPT], (Plan(),)

    def start(self, given: Any) -> Any:
        return {name: np.where(given[f"{name}/{VALID}"], given[name], 0)[-1, ..., :KEPT, :] for name in self.variables}

    def condition(self, newest: float) -> Any:
        return np.zeros((), np.float32)

    def advance(self, plan: Plan) -> Any:
        def advance(parameters: Any, state: Any, condition: Any) -> Any:
            later = jax.tree.map(lambda field: field * parameters["factor"] + condition, state)
            return later, later

        return advance

    def fields(self, predicted: Any) -> Any:
        return {name: np.asarray(predicted[name]) for name in reversed(self.variables)}


def test_the_map_is_the_error_at_every_point_of_the_last_lead():
    rng, grid = np.random.default_rng(0), ("latitude", "longitude")
    shape = (len(LATITUDES), len(LONGITUDES))
    air = rng.normal(size=(TIMES, len(LEVELS), *shape)).astype(np.float32)
    air[4, 1, 0, 2] = np.nan
    surface = rng.normal(2, size=(TIMES, *shape)).astype(np.float32)
    dataset = xr.Dataset(
        {"2t": (("time", *grid), surface), "t": (("time", "level", *grid), air)},
        {"time": TIME, "level": LEVELS, "latitude": LATITUDES, "longitude": LONGITUDES},
    )
    chosen = windows(TIME, history=1, leads=range(1, LEADS + 1))
    assert isinstance(Halved(), Forecaster)
    forecasts = Forecasts(Halved(), example(dataset, chosen.steps[0, :1]))
    found = evaluate_forecasts(forecasts, dataset, chosen, None, lambda start: None)
    assert found.latitudes.tolist() == LATITUDES[:KEPT].tolist()
    for name, field in (("2t", surface), ("t300", air[:, 0]), ("t850", air[:, 1])):
        truth, start = field[LEADS:, :KEPT].astype(np.float64), np.nan_to_num(field[:-LEADS, :KEPT])
        expected = np.sqrt(np.nanmean((start * FACTOR**LEADS - truth) ** 2, axis=0))
        np.testing.assert_allclose(found.maps[name], expected, rtol=1e-6)
