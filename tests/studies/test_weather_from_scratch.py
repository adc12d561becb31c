"""The committed page of the weather model is made from its rows, and says what is claimed of it."""

import importlib.util
import json
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "results"
SPEC = importlib.util.spec_from_file_location("weather_from_scratch", RESULTS / "weather_from_scratch.py")
MODULE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MODULE)
FOUND = json.loads((RESULTS / "weather_from_scratch.json").read_text())
PERSISTENCE, RIDGE = (0.48, 0.45, 0.58, 0.51, 0.51, 0.37, 0.32), (0.35, 0.30, 0.35, 0.30, 0.39, 0.28, 0.23)
"""Of the same forecasts, known before: every point alike, u u v v t t ps"""


def errors(forecast: str, weighting: str = MODULE.POINTS) -> list[float]:
    (row,) = [r for r in FOUND["scores"] if (r["forecast"], r["weighting"]) == (forecast, weighting)]
    return list(row["rmse"].values())


def test_page_and_table_are_rendered_from_the_rows():
    assert (RESULTS / "weather_from_scratch.md").read_text() == MODULE.report(FOUND)
    table = MODULE.csv_table(MODULE.score_columns(FOUND["scores"]), FOUND["scores"])
    assert (RESULTS / "weather_from_scratch.csv").read_text() == table


def test_the_baselines_are_those_that_were_known():
    for name, known in (("persistence", PERSISTENCE), ("ridge regression", RIDGE)):
        assert all(abs(found - want) < 0.0125 for found, want in zip(errors(name), known, strict=True)), name


def test_the_model_beats_every_baseline_in_every_channel():
    for weighting in (MODULE.POINTS, MODULE.AREA):
        for other in ("persistence", "ridge regression", MODULE.MIRRORED):
            pairs = zip(errors(MODULE.MODEL, weighting), errors(other, weighting), strict=True)
            assert all(own < theirs for own, theirs in pairs), (other, weighting)
    assert all(row["gain"] is None or row["gain"]["low"] > 0 for row in FOUND["scores"])


def test_exact_plans_give_the_plain_models_forecasts_with_less_memory():
    plain, *others = FOUND["plans"]
    mean = sum(errors(MODULE.MODEL)) / len(errors(MODULE.MODEL))
    assert abs(plain["error"] - mean) < 1e-9
    for row in others:
        exact = "bfloat16" not in row["name"]
        assert abs(row["error"] - plain["error"]) < (1e-6 if exact else 0.01), row["name"]
        assert row["footprint"]["peak"] < plain["footprint"]["peak"], row["name"]


def test_it_took_half_an_hour_at_most_and_says_that_the_weather_is_simulated():
    assert FOUND["minutes"] <= 30
    assert FOUND["simulated"]
    assert "SIMULATED" in MODULE.report(FOUND)
