"""Scores of weather forecasts against plain loops, at their limits and with wrong input."""

import numpy as np
import pytest

from elbowroom.studies.metrics.weather import acc, area_mean, area_weights, climatology_at, mse, rmse, rmse_root_first

NORTH_TO_SOUTH = np.array([90.0, 60.0, 0.0, -45.0, -90.0])


def test_cells_cover_the_sphere_whichever_way_latitude_runs():
    weights = area_weights(NORTH_TO_SOUTH)
    bounds = np.sin(np.deg2rad([90, 75, 30, -22.5, -67.5, -90]))
    np.testing.assert_allclose(weights, -np.diff(bounds) / 2 * 5, rtol=1e-14)
    np.testing.assert_allclose(area_weights(NORTH_TO_SOUTH[::-1]), weights[::-1], rtol=1e-14)


def test_levels_between_time_and_latitude_are_scored_apart():
    random = np.random.default_rng(0)
    forecast, truth = random.normal(size=(2, 3, 2, 5, 4))
    weights = area_weights(NORTH_TO_SOUTH)
    together = mse(forecast, truth, weights)
    apart = [mse(forecast[:, level], truth[:, level], weights) for level in range(2)]
    np.testing.assert_array_equal(together, np.stack(apart, axis=1))
    assert rmse(together).shape == (2,)
    assert (rmse_root_first(together) < rmse(together)).all()


def test_skipped_points_leave_the_weighted_mean_of_the_rest():
    field = np.random.default_rng(1).normal(size=(2, 5, 4))
    field[0, 1, 2], field[1] = np.nan, np.nan
    weights = area_weights(NORTH_TO_SOUTH)
    assert np.isnan(area_mean(field, weights)).all()
    first, empty = area_mean(field, weights, missing="skip")
    pairs = [(field[0, i, j], weights[i]) for i in range(5) for j in range(4) if (i, j) != (1, 2)]
    assert first == pytest.approx(sum(v * w for v, w in pairs) / sum(w for _, w in pairs), rel=1e-13)
    assert np.isnan(empty)


def test_each_mean_of_the_correlation_skips_its_own_missing_points():
    forecast, truth = np.random.default_rng(2).normal(size=(2, 1, 5, 4))
    normal, weights = np.zeros_like(truth), area_weights(NORTH_TO_SOUTH)
    hole = truth.copy()
    hole[0, 2, 1] = np.nan
    product, seen = (area_mean(field, weights, missing="skip") for field in (forecast * hole, hole**2))
    expected = product / np.sqrt(area_mean(forecast**2, weights) * seen)
    np.testing.assert_allclose(acc(forecast, hole, normal, weights, missing="skip"), expected, rtol=1e-14)
    np.testing.assert_allclose(acc(truth, truth, normal, weights), 1.0, rtol=1e-14)


def test_the_climatology_follows_hour_and_day_in_any_stored_order():
    stored = np.arange(6.0).reshape(2, 3)
    chosen = climatology_at(stored, np.array([12, 0]), np.array([60, 61, 59]), np.array([0, 12]), np.array([59, 61]))
    assert chosen.tolist() == [5.0, 1.0]


def test_a_climatology_without_the_hour_is_refused():
    with pytest.raises(ValueError, match="no hour 6; it has 0 to 12"):
        climatology_at(np.zeros((2, 1)), np.array([0, 12]), np.array([1]), np.array([6]), np.array([1]))


@pytest.mark.parametrize("latitude", [[0.0], [0.0, 0.0], [10.0, 30.0, 20.0], [0.0, 91.0]])
def test_latitudes_without_order_have_no_areas(latitude):
    with pytest.raises(ValueError, match=r"give two or more, increasing or decreasing in -90\.\.90"):
        area_weights(np.array(latitude))
