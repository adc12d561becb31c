"""The linear forecast that a trained model must beat: ridge regression on a patch around each point."""

from collections.abc import Sequence
from itertools import pairwise
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
        series = _both(fields, mirrored)
        early, late = ([one[part] for one in series] for part in (slice(kept), slice(kept - 1, None)))
        equations = _equations(early)
        errors = {penalty: _error(_solved(equations, penalty), late[0]) for penalty in PENALTIES}
        self.penalty = min(errors, key=lambda penalty: errors[penalty])
        rest = _equations(late)
        self._coefficients = _solved((equations[0] + rest[0], equations[1] + rest[1]), self.penalty)

    def __call__(self, fields: Fields) -> Fields:
        """The change of each field over one step."""
        return np.stack([_change(self._coefficients, field) for field in fields])


def _both(fields: Fields, mirrored: Float[np.ndarray, "channel"] | None) -> list[Fields]:
    return [fields] if mirrored is None else [fields, fields[:, :, ::-1] * mirrored[:, None, None]]


def _equations(series: Sequence[Fields]) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the normal equations of every latitude: inputs x inputs, inputs x changes."""
    count = series[0].shape[1] * LATITUDES * LONGITUDES + 1
    gram = np.zeros((series[0].shape[2], count, count))
    target = np.zeros((*gram.shape[:2], series[0].shape[1]))
    for fields in series:
        for now, later in pairwise(fields):
            patches = _patches(now)
            gram += patches @ patches.swapaxes(1, 2)
            target += patches @ (later - now).transpose(1, 2, 0)
    return gram, target


def _solved(equations: tuple[np.ndarray, np.ndarray], penalty: float) -> Float[np.ndarray, "lat input channel"]:
    gram, target = equations
    return np.linalg.solve(gram + penalty * np.eye(gram.shape[-1]), target)


def _change(
    coefficients: Float[np.ndarray, "lat input channel"], field: Float[np.ndarray, "channel lat lon"]
) -> Float[np.ndarray, "channel lat lon"]:
    return (coefficients.swapaxes(1, 2) @ _patches(field)).swapaxes(0, 1)


def _error(coefficients: Float[np.ndarray, "lat input channel"], fields: Fields) -> float:
    changes = pairwise(fields)
    return float(np.mean([np.square(later - now - _change(coefficients, now)) for now, later in changes]))


def _patches(field: Float[np.ndarray, "channel lat lon"]) -> Float[np.ndarray, "lat input lon"]:
    """All channels of the patch around each point, and a 1."""
    (_, rows, columns), (beyond, around) = field.shape, (LATITUDES // 2, LONGITUDES // 2)
    wide = np.pad(field, ((0, 0), (beyond, beyond), (0, 0)), mode="edge")
    wide = np.pad(wide, ((0, 0), (0, 0), (around, around)), mode="wrap")
    shifted = [wide[:, i : i + rows, j : j + columns] for i in range(LATITUDES) for j in range(LONGITUDES)]
    return np.concatenate([*shifted, np.ones((1, rows, columns))]).swapaxes(0, 1)
