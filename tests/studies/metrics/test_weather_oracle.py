"""Scores equal WeatherBench 2's on every stored grid, with both weights and with missing points.

The environment variable `ELBOWROOM_ORACLES` names another folder laid out like `tests/oracles`.
"""

from pathlib import Path

import numpy as np
import pytest
from oracle_folders import found

from elbowroom.studies.metrics.weather import (
    acc,
    area_weights,
    bias,
    climatology_at,
    mae,
    mse,
    rmse,
    rmse_root_first,
)

EXACT = {"rtol": 1e-12, "atol": 1e-12}
"""float64 on both sides; only the order of sums differs"""


def groups() -> list[tuple[Path, str, str]]:
    """File, grid and group of each stored set of scores."""
    return [(path, grid, group) for path in found("metrics_*.npz", scores_of) for grid, group in scores_of(path)]


def scores_of(path: Path) -> list[tuple[str, ...]]:
    with np.load(path) as stored:
        return sorted({tuple(key.split("/")[:2]) for key in stored.files if key.endswith("/mse")})


@pytest.mark.parametrize(("path", "grid", "group"), groups(), ids=lambda v: v.stem if isinstance(v, Path) else v)
def test_every_score_equals_the_oracle(path, grid, group):
    with np.load(path) as stored:
        own = {k.removeprefix(f"{grid}/"): stored[k] for k in stored.files if k.startswith(f"{grid}/")}
        hours, days = stored["hour"], stored["dayofyear"]
        normal = climatology_at(
            own["climatology"], stored["climatology_hour"], stored["climatology_dayofyear"], hours, days
        )
    weights = area_weights(own["lat"], kind="cosine" if group.startswith("cos") else "cell")
    np.testing.assert_allclose(weights, own["cos_weights" if group.startswith("cos") else "area_weights"], **EXACT)
    skip = group.endswith("skipna")
    truth = own["truth_nan" if skip else "truth"]
    assert np.isnan(truth).any() == skip
    how = {"missing": "skip" if skip else "spread"}
    fields = own["forecast"], truth
    scores = {
        "mse": mse(*fields, weights, **how),
        "mae": mae(*fields, weights, **how),
        "bias": bias(*fields, weights, **how),
        "acc": acc(*fields, normal, weights, **how),
    }
    for name, of_time in scores.items():
        np.testing.assert_allclose(of_time, own[f"{group}/{name}_per_time"], **EXACT, err_msg=name)
        np.testing.assert_allclose(of_time.mean(), own[f"{group}/{name}"], **EXACT, err_msg=name)
    np.testing.assert_allclose(rmse(scores["mse"]), own[f"{group}/rmse"], **EXACT)
    np.testing.assert_allclose(rmse_root_first(scores["mse"]), own[f"{group}/rmse_root_first"], **EXACT)
