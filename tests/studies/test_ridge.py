"""The ridge forecast is what solving each latitude's equations from lists of points gives."""

from itertools import pairwise

import numpy as np
import pytest

from elbowroom.studies.ridge import PENALTIES, RidgeForecast

SHAPE = (2, 7, 10)
"""channel, lat, lon"""
SIGNS = np.array([1.0, -1.0])


def series(times: int = 25) -> np.ndarray:
    """Waves that move, with noise."""
    random, place = np.random.default_rng(0), np.arange(SHAPE[2])
    waves = [np.sin(2 * np.pi * (place - t / 3) / 10) for t in range(times)]
    return np.stack(waves)[:, None, None] + 0.5 * random.normal(size=(times, *SHAPE))


def inputs_at(field: np.ndarray, lat: int, lon: int) -> list[float]:
    rows = [min(max(lat + i, 0), SHAPE[1] - 1) for i in range(-2, 3)]
    columns = [(lon + j) % SHAPE[2] for j in range(-4, 5)]
    return [*(field[c, i, j] for i in rows for j in columns for c in range(SHAPE[0])), 1.0]


def by_hand(fields: np.ndarray, others: list[np.ndarray], lat: int, penalty: float) -> np.ndarray:
    """Changes of `fields` at one latitude, fitted to the changes of all `others`: augmented least squares."""
    pairs = [(now, later) for one in others for now, later in pairwise(one)]
    left = [inputs_at(now, lat, lon) for now, _ in pairs for lon in range(SHAPE[2])]
    right = [(later - now)[:, lat, lon] for now, later in pairs for lon in range(SHAPE[2])]
    ballast = np.sqrt(penalty) * np.eye(len(left[0]))
    left, right = np.concatenate([left, ballast]), np.concatenate([right, np.zeros((len(ballast), SHAPE[0]))])
    coefficients = np.linalg.lstsq(left, right, rcond=None)[0]
    return np.array([[inputs_at(field, lat, lon) for lon in range(SHAPE[2])] for field in fields]) @ coefficients


@pytest.mark.parametrize("mirrored", [None, SIGNS])
def test_changes_equal_least_squares_from_lists_of_points(mirrored):
    fields = series()
    ridge = RidgeForecast(fields[:20], mirrored)
    others = [fields[:20]] + ([] if mirrored is None else [fields[:20, :, ::-1] * SIGNS[:, None, None]])
    for lat in (0, 3, 6):
        want = by_hand(fields[20:], others, lat, ridge.penalty)
        np.testing.assert_allclose(ridge(fields[20:])[:, :, lat].swapaxes(1, 2), want, atol=1e-8)


def test_the_penalty_forecasts_the_last_fifth_best():
    fields, errors = series(), {}
    for penalty in PENALTIES:
        changes = [by_hand(fields[19:24], [fields[:20]], lat, penalty) for lat in range(SHAPE[1])]
        truth = np.diff(fields[19:], axis=0).transpose(2, 0, 3, 1)
        errors[penalty] = np.square(changes - truth).mean()
    assert RidgeForecast(fields).penalty == min(errors, key=lambda penalty: errors[penalty])
