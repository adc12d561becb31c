"""The linear forecast that a trained model must beat: ridge regression on a patch around each point."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from jaxtyping import Float

LATITUDES, LONGITUDES = 5, 9
"""Points of a patch"""
PENALTIES: Final = (1.0, 10.0, 100.0, 1000.0)
"""Of which the one that forecasts the last fifth of the training times best is taken"""

type Fields = Float[np.ndarray, "time channel lat lon"]


class RidgeForecast:
    """The change from one time to the next, linear in all channels of the patch around a point.

    Each latitude has its own coefficients, shared by its longitudes. Patches go around the globe, and repeat the last
    latitude beyond it. Float64.
    """

    def __init__(self, fields: Fields, mirrored: Float[np.ndarray, "channel"] | None = None) -> None:
        """Learn from a series of regular times, normalised channel by channel.

        Args:
          mirrored: 1 for each channel, -1 where it changes its sign in a mirror at the equator: the mirrored series
            is learned from too. None learns from the series alone.
        """
        kept = len(fields) - len(fields) // 5
        series = [fields] if mirrored is None else [fields, fields[:, :, ::-1] * mirrored[:, None, None]]
        early, late = ([one[part] for one in series] for part in (slice(kept), slice(kept - 1, None)))
        first, rest = _equations(early), _equations(late)
        errors = {penalty: _error(_solved(first, penalty), late[0]) for penalty in PENALTIES}
        self.penalty = min(errors, key=lambda penalty: errors[penalty])
        self._coefficients = _solved([one + more for one, more in zip(first, rest, strict=True)], self.penalty)

    def __call__(self, fields: Fields) -> Fields:
        """The change of each field over one step."""
        return _changes(self._coefficients, fields)


def _equations(series: Sequence[Fields]) -> list[np.ndarray]:
    """Sums of every latitude's normal equations: [lat, input, input] and [lat, input, channel]."""
    gram, target = [], []
    for lat in range(series[0].shape[2]):
        patches = [_patches(fields[:-1], lat) for fields in series]
        changes = [_points(np.diff(fields[:, :, lat], axis=0)) for fields in series]
        gram.append(sum(inputs.T @ inputs for inputs in patches))
        target.append(sum(inputs.T @ change for inputs, change in zip(patches, changes, strict=True)))
    return [np.stack(gram), np.stack(target)]


def _solved(equations: Sequence[np.ndarray], penalty: float) -> Float[np.ndarray, "lat input channel"]:
    gram, target = equations
    return np.linalg.solve(gram + penalty * np.eye(gram.shape[-1]), target)


def _changes(coefficients: Float[np.ndarray, "lat input channel"], fields: Fields) -> Fields:
    times, channels, latitudes, longitudes = fields.shape
    found = [_patches(fields, lat) @ coefficients[lat] for lat in range(latitudes)]
    return np.stack(found).reshape(latitudes, times, longitudes, channels).transpose(1, 3, 0, 2)


def _error(coefficients: Float[np.ndarray, "lat input channel"], fields: Fields) -> float:
    return float(np.square(np.diff(fields, axis=0) - _changes(coefficients, fields[:-1])).mean())


def _patches(fields: Fields, lat: int) -> Float[np.ndarray, "point input"]:
    """All channels of the patch around every point of a latitude at all times, and a 1."""
    rows = np.clip(np.arange(lat - LATITUDES // 2, lat + LATITUDES // 2 + 1), 0, fields.shape[2] - 1)
    around = np.pad(fields[:, :, rows], ((0, 0), (0, 0), (0, 0), (LONGITUDES // 2, LONGITUDES // 2)), mode="wrap")
    windows = np.lib.stride_tricks.sliding_window_view(around, LONGITUDES, axis=3)
    points = windows.transpose(0, 3, 1, 2, 4).reshape(len(fields) * fields.shape[3], -1)
    return np.concatenate([points, np.ones((len(points), 1))], axis=1)


def _points(fields: Float[np.ndarray, "time channel lon"]) -> Float[np.ndarray, "point channel"]:
    return fields.transpose(0, 2, 1).reshape(-1, fields.shape[1])
