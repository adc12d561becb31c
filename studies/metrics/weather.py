"""Scores of weather forecasts over the sphere, as WeatherBench 2 defines them (Rasp et al. 2024, section 3).

Fields are [time, lat, lon]; further axes, such as level, may stand between time and lat. Everything is float64.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float, Int

type Scores = np.ndarray | np.float64
"""One number for each time, or for each that is left after a mean"""
type Missing = Literal["spread", "skip"]
"""`spread`: a missing point makes its time's score NaN. `skip`: scores are means over the valid points."""


def area_weights(latitude: Float[np.ndarray, "lat"], *, kind: Literal["cell", "cosine"] = "cell") -> np.ndarray:
    """Weight of each latitude, with mean 1.

    `cell` is the area between bounds half-way to the neighbours, and the poles at the ends; `cosine` gives poles none.
    Raises ValueError unless there are two latitudes or more that increase or decrease within -90..90.

    Args:
      latitude: degrees.
    """
    steps = np.diff(latitude)
    if len(latitude) < 2 or not ((steps > 0).all() or (steps < 0).all()) or np.abs(latitude).max() > 90:
        raise ValueError(
            f"latitudes {latitude[:3]}... of {len(latitude)}: give two or more, increasing or decreasing in -90..90"
        )
    if kind == "cosine":
        weights = np.cos(np.deg2rad(latitude.astype(np.float64)))
    else:
        middles = (latitude[1:] + latitude[:-1]).astype(np.float64) / 2
        pole = 90.0 if steps[0] > 0 else -90.0
        weights = np.abs(np.diff(np.sin(np.deg2rad(np.concatenate([[-pole], middles, [pole]])))))
    return weights / weights.mean()


def area_mean(
    field: Float[np.ndarray, "*time lat lon"], weights: Float[np.ndarray, "lat"], *, missing: Missing = "spread"
) -> Scores:
    """Weighted mean over the sphere; NaN where no point is valid."""
    field = field.astype(np.float64)
    spread = np.broadcast_to(weights[:, None], field.shape)
    if missing == "skip":
        valid = np.isfinite(field)
        field, spread = np.where(valid, field, 0.0), np.where(valid, spread, 0.0)
    total = spread.sum(axis=(-2, -1))
    with np.errstate(invalid="ignore"):
        return (field * spread).sum(axis=(-2, -1)) / total


def mse(
    forecast: Float[np.ndarray, "*time lat lon"],
    truth: Float[np.ndarray, "*time lat lon"],
    weights: Float[np.ndarray, "lat"],
    *,
    missing: Missing = "spread",
) -> Scores:
    """Mean squared error at each time, in the field's unit squared."""
    return area_mean(_error(forecast, truth) ** 2, weights, missing=missing)


def mae(
    forecast: Float[np.ndarray, "*time lat lon"],
    truth: Float[np.ndarray, "*time lat lon"],
    weights: Float[np.ndarray, "lat"],
    *,
    missing: Missing = "spread",
) -> Scores:
    """Mean absolute error at each time, in the field's unit."""
    return area_mean(np.abs(_error(forecast, truth)), weights, missing=missing)


def bias(
    forecast: Float[np.ndarray, "*time lat lon"],
    truth: Float[np.ndarray, "*time lat lon"],
    weights: Float[np.ndarray, "lat"],
    *,
    missing: Missing = "spread",
) -> Scores:
    """Mean of forecast - truth at each time, in the field's unit."""
    return area_mean(_error(forecast, truth), weights, missing=missing)


def acc(
    forecast: Float[np.ndarray, "*time lat lon"],
    truth: Float[np.ndarray, "*time lat lon"],
    climatology: Float[np.ndarray, "*time lat lon"],
    weights: Float[np.ndarray, "lat"],
    *,
    missing: Missing = "spread",
) -> Scores:
    """Anomaly correlation at each time: <f'o'> / sqrt(<f'f'> <o'o'>), anomalies from the climatology, not centred.

    With `skip` each of the three means is over its own valid points, as in WeatherBench 2: a forecast counts in <f'f'>
    where the truth is missing too. NaN where an anomaly is zero everywhere.

    Args:
      climatology: of each time, see `climatology_at`.
    """
    ahead, seen = _error(forecast, climatology), _error(truth, climatology)
    product, first, second = (area_mean(field, weights, missing=missing) for field in (ahead * seen, ahead**2, seen**2))
    with np.errstate(invalid="ignore"):
        return product / np.sqrt(first * second)


def rmse(mse_of_time: Float[np.ndarray, "time *level"]) -> Scores:
    """Root of the mean over time of the mean squared error: WeatherBench 2's RMSE."""
    return np.sqrt(mse_of_time.mean(axis=0))


def rmse_root_first(mse_of_time: Float[np.ndarray, "time *level"]) -> Scores:
    """Mean over time of the root of the mean squared error, as older papers have it; never above `rmse`."""
    return np.sqrt(mse_of_time).mean(axis=0)


def climatology_at(
    climatology: Float[np.ndarray, "hour day *field"],
    climatology_hours: Int[np.ndarray, "hour"],
    climatology_days: Int[np.ndarray, "day"],
    hours: Int[np.ndarray, "time"],
    days: Int[np.ndarray, "time"],
) -> np.ndarray:
    """The climatology [time, ...] at each time's hour of the day and day of the year.

    Raises ValueError for an hour or day that the climatology does not have.
    """
    hour = _places("hour", climatology_hours, hours)
    return climatology[hour, _places("day of the year", climatology_days, days)]


def _places(what: str, there: Int[np.ndarray, "place"], wanted: Int[np.ndarray, "time"]) -> Int[np.ndarray, "time"]:
    absent = np.setdiff1d(wanted, there)
    if len(absent):
        raise ValueError(f"the climatology has no {what} {absent[0]}; it has {there.min()} to {there.max()}")
    order = np.argsort(there)
    return order[np.searchsorted(there, wanted, sorter=order)]


def _error(one: Float[np.ndarray, "*field"], other: Float[np.ndarray, "*field"]) -> np.ndarray:
    return one.astype(np.float64) - other.astype(np.float64)
