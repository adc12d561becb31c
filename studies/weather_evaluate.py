"""Forecasts against what came: scores by variable, level and lead time, beside persistence and climatology.

Scores are WeatherBench 2's (Rasp et al. 2024): weighted by area, the mean over starts of the squared error before its
root. One lead of one start is held at a time; what stays of it is a few numbers, and the sums of the maps.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float

from elbowroom.datasets.weather.climatology import Climatology
from elbowroom.datasets.weather.examples import example
from elbowroom.datasets.weather.times import written
from elbowroom.datasets.weather.windows import Windows
from elbowroom.studies.evaluate import BOOTSTRAP_DRAWS
from elbowroom.studies.forecast import Fields, Forecasts
from elbowroom.studies.forecast_file import described
from elbowroom.studies.metrics.weather import acc, area_weights, bias, mae, mse

MODEL, PERSISTENCE, CLIMATOLOGY = "model", "persistence", "climatology"
METRICS = ("mse", "mae", "bias", "acc")
HEADLINES = ("z500", "t850", "q700", "u850", "v850", "2t", "msl", "10u", "10v")
"""What people look at first"""


class Channel(NamedTuple):
    """One variable on one level, or without any."""

    variable: str
    level: float | None
    """hPa"""

    @property
    def name(self) -> str:
        return self.variable if self.level is None else f"{self.variable}{self.level:g}"

    @property
    def unit(self) -> str:
        return described(self.variable).units


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores of every start, and maps of the last lead."""

    channels: list[Channel]
    starts: list[str]
    lead_hours: list[float]
    scores: dict[str, Float[np.ndarray, "metric start lead channel"]] = field(repr=False)
    """Of each predictor, the metrics in the order of `METRICS`; NaN where undefined."""
    maps: dict[str, Float[np.ndarray, "lat lon"]] = field(repr=False)
    """Root of the mean squared error of the model at every point, of the channels in `shown`"""
    latitudes: Float[np.ndarray, "lat"]
    longitudes: Float[np.ndarray, "lon"]


def channels_of(dataset: xr.Dataset, variables: tuple[str, ...]) -> list[Channel]:
    """In the order of scores."""
    return [
        Channel(name, level)
        for name in variables
        for level in (dataset["level"].values.tolist() if "level" in dataset[name].dims else [None])
    ]


def shown(channels: list[Channel]) -> list[str]:
    """Names of those that tables and plots show: all of a few, else the headlines."""
    names = [channel.name for channel in channels]
    few = names if len(names) <= len(HEADLINES) else [name for name in HEADLINES if name in names]
    return few or names[: len(HEADLINES)]


def evaluate_forecasts(
    forecasts: Forecasts,
    dataset: xr.Dataset,
    windows: Windows,
    climatology: Climatology | None,
    seen: Callable[[str], None],
) -> Evaluation:
    """Forecast from every window, and compare with the times that follow. `seen` is called with each start."""
    forecaster = forecasts.forecaster
    latitudes, history = forecaster.latitudes, windows.history
    channels = channels_of(dataset, tuple(forecaster.variables))
    leads = windows.steps.shape[1] - history
    tally = _Tally(channels, len(windows), leads, area_weights(dataset["latitude"].values)[: len(latitudes)])
    times = dataset["time"].values

    def known(place: int) -> Fields:
        at = dataset.isel(time=place, latitude=slice(len(latitudes)))
        return {name: at[name].values for name in forecaster.variables}

    def usual(time: np.datetime64) -> Fields | None:
        fields = None if climatology is None else climatology.at(time)
        return None if fields is None else {name: of[..., : len(latitudes), :] for name, of in fields.items()}

    for number, window in enumerate(windows.steps):
        start = known(int(window[history - 1]))
        for lead, found in enumerate(forecasts(example(dataset, window[:history]), leads)):
            place = int(window[history + lead])
            tally.add(number, lead, known(place), usual(times[place]), {MODEL: found, PERSISTENCE: start})
        seen(written(times[window[history - 1]]))
    return Evaluation(
        channels=channels,
        starts=[written(times[window[history - 1]]) for window in windows.steps],
        lead_hours=[float((lead + 1) * windows.step / np.timedelta64(1, "h")) for lead in range(leads)],
        scores=tally.scores,
        maps=tally.maps(),
        latitudes=latitudes,
        longitudes=dataset["longitude"].values,
    )


class _Tally:
    """What stays of forecasts."""

    def __init__(self, channels: list[Channel], starts: int, leads: int, weights: Float[np.ndarray, "lat"]) -> None:
        self.scores: dict[str, np.ndarray] = {}
        self._shape = (len(METRICS), starts, leads, len(channels))
        self._channels, self._weights, self._shown = channels, weights, shown(channels)
        self._squares: dict[str, np.ndarray] = {}
        self._counts: dict[str, np.ndarray] = {}

    def add(self, start: int, lead: int, truth: Fields, usual: Fields | None, predicted: Mapping[str, Fields]) -> None:
        """Score one lead of one start; the climatology is a predictor too."""
        if usual is not None:
            predicted = {**predicted, CLIMATOLOGY: usual}
        for predictor, fields in predicted.items():
            into = self.scores.setdefault(predictor, np.full(self._shape, np.nan))
            into[:, start, lead] = self._scored(fields, truth, usual)
        if lead == self._shape[2] - 1:
            self._map(predicted[MODEL], truth)

    def maps(self) -> dict[str, Float[np.ndarray, "lat lon"]]:
        with np.errstate(invalid="ignore"):
            return {name: np.sqrt(self._squares[name] / self._counts[name]) for name in self._squares}

    def _scored(self, fields: Fields, truth: Fields, usual: Fields | None) -> Float[np.ndarray, "metric channel"]:
        columns = []
        for name in dict.fromkeys(channel.variable for channel in self._channels):
            field = fields[name]
            pair = (field, truth[name], self._weights)
            correlation = np.full(field.shape[:-2], np.nan)
            if usual is not None and field is not usual[name]:
                correlation = acc(field, truth[name], usual[name], self._weights, missing="skip")
            of_metric = [score(*pair, missing="skip") for score in (mse, mae, bias)]
            columns.append(np.stack([np.atleast_1d(values) for values in (*of_metric, correlation)]))
        return np.concatenate(columns, axis=1)

    def _map(self, fields: Fields, truth: Fields) -> None:
        for name, (found, true) in _by_channel(self._channels, fields, truth):
            if name in self._shown:
                squares = (found.astype(np.float64) - true.astype(np.float64)) ** 2
                known = np.isfinite(squares)
                self._squares[name] = self._squares.get(name, 0) + np.where(known, squares, 0)
                self._counts[name] = self._counts.get(name, 0) + known


def _by_channel(channels: list[Channel], *of_time: Fields) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The field of each channel by its name."""
    levels: dict[str, int] = {}
    for channel in channels:
        place = levels.get(channel.variable, 0)
        levels[channel.variable] = place + 1
        whole = [fields[channel.variable] for fields in of_time]
        yield channel.name, [one if channel.level is None else one[place] for one in whole]


def rows_of(evaluation: Evaluation) -> list[dict[str, Any]]:
    """A row for each channel, lead and predictor, with bootstrap 95 % intervals over starts.

    `gain` is how much lower the model's RMSE is, over the starts of which both are known, in the same draws. What is
    undefined is None.
    """
    starts = len(evaluation.starts)
    draws = (
        np.random.default_rng(0).multinomial(starts, np.full(starts, 1 / starts), BOOTSTRAP_DRAWS).astype(np.float64)
    )
    rows = []
    for lead, hours in enumerate(evaluation.lead_hours):
        of_lead = {name: scores[:, :, lead] for name, scores in evaluation.scores.items()}
        roots = {name: _roots(scores[0], draws) for name, scores in of_lead.items()}
        gains = {name: _gains(scores[0], of_lead[MODEL][0], draws) for name, scores in of_lead.items()}
        for number, channel in enumerate(evaluation.channels):
            for predictor, scores in of_lead.items():
                rmse, gain = (_interval(*(part[..., number] for part in of[predictor])) for of in (roots, gains))
                means = dict(zip(METRICS[1:], (_mean(scores[metric, :, number]) for metric in (1, 2, 3)), strict=True))
                rows.append(
                    {
                        "channel": channel.name,
                        "variable": channel.variable,
                        "level_hpa": channel.level,
                        "unit": channel.unit,
                        "lead_hours": hours,
                        "predictor": predictor,
                        "rmse": rmse,
                        "gain": None if predictor == MODEL else gain,
                        **means,
                        "starts": int(np.isfinite(scores[0, :, number]).sum()),
                    }
                )
    return rows


def _roots(
    squares: Float[np.ndarray, "start channel"], draws: Float[np.ndarray, "draw start"]
) -> tuple[Float[np.ndarray, "channel"], Float[np.ndarray, "draw channel"]]:
    """Root of the mean over starts, and the same of starts drawn anew; a draw counts how often it has each start."""
    known = np.isfinite(squares)
    total = np.where(known, squares, 0.0)
    with np.errstate(invalid="ignore"):
        return np.sqrt(total.sum(0) / known.sum(0)), np.sqrt((draws @ total) / (draws @ known.astype(np.float64)))


def _gains(
    squares: Float[np.ndarray, "start channel"],
    of_model: Float[np.ndarray, "start channel"],
    draws: Float[np.ndarray, "draw start"],
) -> tuple[Float[np.ndarray, "channel"], Float[np.ndarray, "draw channel"]]:
    """How much lower the model's root is, over the starts of which both are known."""
    both = np.isfinite(squares) & np.isfinite(of_model)
    other, own = (_roots(np.where(both, part, np.nan), draws) for part in (squares, of_model))
    return other[0] - own[0], other[1] - own[1]


def _interval(value: Any, drawn: Float[np.ndarray, "draw"]) -> dict[str, float] | None:
    if not np.isfinite(value):
        return None
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return {"value": float(value), "low": float(low), "high": float(high)}


def _mean(values: Float[np.ndarray, "start"]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
