"""Scores of forecasts against loops over every start, latitude and longitude; the forecaster is made by hand."""

import csv
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner, Result

from elbowroom.datasets.weather.fingerprint import fingerprint
from elbowroom.memory.plan import Plan
from elbowroom.models.stormer.config import tiny
from elbowroom.studies import cases
from elbowroom.studies.case import Records
from elbowroom.studies.cli import app
from elbowroom.studies.stormer import stormer_case

pytestmark = pytest.mark.xdist_group("weather evaluate")
TIMES, STEPS, STEP = 9, 2, np.timedelta64(6, "h")
LATITUDES, LONGITUDES, LEVELS = np.array([90.0, 50.0, 0.0, -20.0, -90.0]), np.arange(0, 360, 90.0), [500.0, 850.0]
KEPT = 4
"""Latitudes that are forecast; the last makes no whole patch"""
FIRST = np.datetime64("2020-01-01", "ns")
CHANNELS = [("u", 0), ("u", 1), ("v", 0), ("v", 1), ("sp", None)]
NAMES = ["u500", "u850", "v500", "v850", "sp"]
DAMPING, DRIFT = 0.8, 0.1
STARTS = range(1, TIMES - STEPS)
"""The first that has another time before it, to the last that has two after it"""


def fields(seed: int = 0, times: int = TIMES) -> xr.Dataset:
    """Wind and pressure, with a point and a whole level that are missing at one time each."""
    rng, grid = np.random.default_rng(seed), ("latitude", "longitude")
    shape = (len(LATITUDES), len(LONGITUDES))
    wind = {
        name: (("time", "level", *grid), mean + 4 * rng.normal(size=(times, 2, *shape)))
        for name, mean in (("u", 10), ("v", 0))
    }
    pressure = (("time", *grid), 1e5 + 800 * rng.normal(size=(times, *shape)))
    dataset = xr.Dataset(
        {**wind, "sp": pressure},
        {
            "time": FIRST + np.arange(times) * STEP,
            "level": LEVELS,
            "latitude": LATITUDES,
            "longitude": LONGITUDES,
        },
        {"simulated": False, "changes": []},
    ).astype(np.float32)
    dataset["u"][4, 1, 2, 3] = np.nan
    dataset["v"][5, 0] = np.nan
    return dataset


@dataclass(frozen=True)
class Damped:
    """Forecasts the mean of the two times given, damped at every step, and moved by the hours since `FIRST`."""

    dataset: xr.Dataset
    parameters: Any = dataclasses.field(default_factory=lambda: jnp.asarray(DAMPING, jnp.float32))
    origin: str = "by hand"
    notes: tuple[str, ...] = ("It damps.",)
    history: int = 2
    step: np.timedelta64 = STEP
    variables: tuple[str, ...] = ("u", "v", "sp")
    ladder: tuple[Plan, ...] = (Plan(),)
    chunk_axes: Any = dataclasses.field(default_factory=dict)

    @property
    def latitudes(self) -> np.ndarray:
        return self.dataset["latitude"].values[:KEPT]

    def start(self, given: Any) -> Any:
        return {name: jnp.asarray(given[name][..., :KEPT, :].mean(0), jnp.float32) for name in self.variables}

    def condition(self, newest: float) -> Any:
        return jnp.asarray(newest - (FIRST - np.datetime64(0, "ns")) / np.timedelta64(1, "h"), jnp.float32)

    def advance(self, plan: Plan) -> Any:
        def advance(damping: Any, state: Any, hours: Any) -> Any:
            later = {name: damping * field + jnp.float32(DRIFT) * hours for name, field in state.items()}
            return later, later

        return advance

    def fields(self, predicted: Any) -> Any:
        return {name: np.asarray(field) for name, field in predicted.items()}


def forecast(data: xr.Dataset, start: int) -> list[dict[str, np.ndarray]]:
    """The same in float64; what is missing counts as 0."""
    found, hours = [], 6.0 * start
    state = {name: np.nan_to_num(data[name].values[start - 1 : start + 1].astype(np.float64)).mean(0) for name in data}
    for _ in range(STEPS):
        state = {name: DAMPING * field + DRIFT * hours for name, field in state.items()}
        found.append(state)
        hours += 6
    return found


def usual(data: xr.Dataset, time: int) -> dict[str, np.ndarray]:
    """The mean of every time at the same hour."""
    same = [place for place in range(data.sizes["time"]) if (place - time) % 4 == 0]
    return {name: np.nanmean(data[name].values[same].astype(np.float64), axis=0) for name in data}


def channel(fields: dict[str, np.ndarray], number: int) -> np.ndarray:
    name, level = CHANNELS[number]
    return fields[name] if level is None else fields[name][level]


def weighted_mean(field: np.ndarray) -> float:
    """Over the points that are known, by the area between bounds half-way to the neighbours."""
    bounds = np.array([90.0, 70.0, 25.0, -10.0, -55.0, -90.0])
    total = weight = 0.0
    for row in range(KEPT):
        area = np.sin(np.deg2rad(bounds[row])) - np.sin(np.deg2rad(bounds[row + 1]))
        for column in range(len(LONGITUDES)):
            if np.isfinite(field[row, column]):
                total, weight = total + area * field[row, column], weight + area
    return total / weight if weight else np.nan


def by_hand(data: xr.Dataset, climate: xr.Dataset, lead: int, number: int) -> dict[str, dict[str, np.ndarray]]:
    """Scores of every predictor at each start."""
    scores: dict[str, dict[str, list[float]]] = {}
    for start in STARTS:
        place = start + lead + 1
        truth = channel({name: data[name].values[place].astype(np.float64) for name in data}, number)
        normal = channel(usual(climate, place), number)
        still = channel({name: data[name].values[start].astype(np.float64) for name in data}, number)
        predicted = {
            "model": channel(forecast(data, start)[lead], number),
            "persistence": still,
            "climatology": normal,
        }
        for predictor, field in predicted.items():
            kept = scores.setdefault(predictor, {"mse": [], "mae": [], "bias": [], "acc": []})
            error, ahead, seen = field - truth, field - normal, truth - normal
            kept["mse"].append(weighted_mean(error**2))
            kept["mae"].append(weighted_mean(abs(error)))
            kept["bias"].append(weighted_mean(error))
            spread = weighted_mean(ahead**2) * weighted_mean(seen**2)
            kept["acc"].append(weighted_mean(ahead * seen) / np.sqrt(spread) if spread else np.nan)
    return {predictor: {key: np.array(of) for key, of in kept.items()} for predictor, kept in scores.items()}


def records(dataset: xr.Dataset) -> Records:
    return Records(items=[dataset], fingerprint=fingerprint(dataset))


CASE = dataclasses.replace(
    stormer_case("damped", tiny()),
    forecaster=lambda place, dataset: Damped(dataset),
    demo=lambda split: records(fields() if split == "test" else fields(seed=1)),
)


@pytest.fixture(scope="module", autouse=True)
def the_damped_case():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "CASES", {"damped": CASE})
        yield


def stored(dataset: xr.Dataset, path: Path) -> Path:
    dataset.drop_attrs().to_netcdf(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("evaluation")
    stored(fields(), folder / "data.nc")
    stored(fields(seed=1), folder / "usual.nc")
    return folder


def evaluate(out: Path, *more: object) -> Result:
    arguments = ["evaluate", "damped", "--params", "none", "--steps", STEPS, "--out", out, *more]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def report(folder) -> dict[str, Any]:
    """Of a user's data, with a climatology."""
    result = evaluate(folder / "out", "--data", folder / "data.nc", "--climatology", folder / "usual.nc", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def row(report: dict[str, Any], number: int, lead: int, predictor: str) -> dict[str, Any]:
    wanted = {"channel": NAMES[number], "lead_hours": 6.0 * (lead + 1), "predictor": predictor}
    (found,) = [row for row in report["rows"] if wanted.items() <= row.items()]
    return found


@pytest.mark.parametrize("lead", range(STEPS))
@pytest.mark.parametrize("number", range(len(CHANNELS)), ids=NAMES)
def test_scores_are_those_of_loops_over_starts_and_points(report, number, lead):
    """WeatherBench 2: the mean over starts of the squared error, then its root; a missing point drops out alone."""
    for predictor, scores in by_hand(fields(), fields(seed=1), lead, number).items():
        found = row(report, number, lead, predictor)
        close = {"rel": 2e-5, "abs": 1e-6}  # the forecast, and the climatology's mean, are float32
        assert found["rmse"]["value"] == pytest.approx(root(scores["mse"]), **close)
        assert found["mae"] == pytest.approx(np.nanmean(scores["mae"]), **close)
        assert found["bias"] == pytest.approx(np.nanmean(scores["bias"]), rel=2e-4, abs=1e-3)
        assert found["starts"] == np.isfinite(scores["mse"]).sum()
        if predictor == "climatology":
            assert found["acc"] is None
        else:
            assert found["acc"] == pytest.approx(np.nanmean(scores["acc"]), rel=1e-3, abs=1e-4)


def test_a_level_that_is_missing_takes_away_only_its_own_starts(report):
    """The truth of the fourth start, and what the fifth persists from."""
    counts = {p: row(report, NAMES.index("v500"), 0, p)["starts"] for p in ("model", "persistence", "climatology")}
    assert counts == {"model": len(STARTS) - 1, "persistence": len(STARTS) - 2, "climatology": len(STARTS) - 1}
    assert row(report, NAMES.index("v850"), 0, "persistence")["starts"] == len(STARTS)


def root(squares: np.ndarray) -> float:
    known = squares[np.isfinite(squares)]
    return float(np.sqrt(known.mean())) if len(known) else np.nan


@pytest.mark.parametrize("name", ["u850", "v500"])
@pytest.mark.parametrize("predictor", ["persistence", "climatology"])
def test_intervals_are_of_starts_drawn_again_and_gains_of_the_same_draws(report, name, predictor):
    lead, number = 0, NAMES.index(name)
    scores = by_hand(fields(), fields(seed=1), lead, number)
    own, other = scores["model"]["mse"], scores[predictor]["mse"]
    draws = np.random.default_rng(0).multinomial(len(STARTS), np.full(len(STARTS), 1 / len(STARTS)), 10_000)
    both = np.where(np.isfinite(own) & np.isfinite(other), [other, own], np.nan)

    def gain(drawn: np.ndarray) -> float:
        return root(both[0, drawn]) - root(both[1, drawn])

    every = [np.repeat(np.arange(len(STARTS)), draw) for draw in draws]
    alone, gains = [root(other[drawn]) for drawn in every], [gain(drawn) for drawn in every]
    found = row(report, number, lead, predictor)
    for key, values in (("rmse", alone), ("gain", gains)):
        want = np.nanpercentile(values, [2.5, 97.5])
        assert [found[key]["low"], found[key]["high"]] == pytest.approx(want.tolist(), rel=2e-4, abs=2e-5)
    assert found["gain"]["value"] == pytest.approx(gain(np.arange(len(STARTS))), rel=2e-4, abs=2e-5)
    assert row(report, number, lead, "model")["gain"] is None


def test_the_table_the_rows_and_the_pictures_are_files(report, folder):
    out = folder / "out"
    assert {path.name for path in out.iterdir()} == {
        *("evaluation.md", "evaluation.csv", "evaluation.json"),
        *("rmse.png", "error_map.png"),
    }
    assert json.loads((out / "evaluation.json").read_text()) == report
    with (out / "evaluation.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(report["rows"]) == len(CHANNELS) * STEPS * 3
    for line, told in zip(lines, report["rows"], strict=True):
        assert float(line["rmse"]) == pytest.approx(told["rmse"]["value"], rel=1e-3)
        assert line["predictor"] == told["predictor"]
    table = (out / "evaluation.md").read_text()
    assert table.count("\n| ") >= len(CHANNELS) * STEPS
    assert "It damps." in table
    assert "data.nc (not marked as simulated)" in table
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in ("rmse.png", "error_map.png"))


def test_a_report_says_what_was_compared(report):
    assert report["starts"] == [str((FIRST + start * STEP).astype("datetime64[m]")) for start in STARTS]
    assert (report["case"], report["parameters"], report["simulated"]) == ("damped", "by hand", False)
    assert report["climatology"] == "mean of the 9 times of usual.nc at that hour of the day, of any season"


def test_embedded_data_are_compared_with_a_climatology_of_the_training_times_alone(report, tmp_path):
    """Nothing of the times that are scored is in it: the numbers are those of the same data given as files."""
    result = evaluate(tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["climatology"].startswith("mean of the 9 times of the embedded training data")
    for own, other in zip(found["rows"], report["rows"], strict=True):
        assert own["rmse"]["value"] == pytest.approx(other["rmse"]["value"], rel=1e-6)


def test_without_a_climatology_there_is_no_anomaly_correlation(folder, report, tmp_path):
    result = evaluate(tmp_path, "--data", folder / "data.nc", "--json")
    found = json.loads(result.stdout)
    assert {line["predictor"] for line in found["rows"]} == {"model", "persistence"}
    assert all(line["acc"] is None for line in found["rows"])
    assert row(found, 0, 1, "model")["rmse"] == row(report, 0, 1, "model")["rmse"]
    assert "not given, so there is no anomaly correlation" in (tmp_path / "evaluation.md").read_text()


def test_starts_lie_as_far_apart_as_asked(folder, tmp_path):
    found = json.loads(evaluate(tmp_path, "--data", folder / "data.nc", "--every", 12, "--json").stdout)
    assert found["starts"] == ["2020-01-01T06:00", "2020-01-01T18:00", "2020-01-02T06:00"]


def test_a_climatology_of_every_day_of_the_year_is_read_at_the_hour_that_is_forecast(folder, report, tmp_path):
    """Made of the same means, it gives the same scores."""
    mean = fields(seed=1).groupby("time.hour").mean().expand_dims(dayofyear=np.arange(1, 367), axis=1)
    stored(mean, tmp_path / "climatology.nc")
    result = evaluate(
        tmp_path / "out", "--data", folder / "data.nc", "--climatology", tmp_path / "climatology.nc", "--json"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    for own, other in zip(found["rows"], report["rows"], strict=True):
        assert own["rmse"]["value"] == pytest.approx(other["rmse"]["value"], rel=1e-5)
        assert own["acc"] == pytest.approx(other["acc"], rel=1e-4)


def refused(result: Result) -> str:
    """The one line that explains the refusal."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--steps", 9), "the data have no start with 2 times up to it and 9 steps after it; give a longer series"),
        (("--climatology", "coarse.nc"), "coordinate longitude: is not that of the data: 2 values from 0, not 4"),
        (("--climatology", "few.nc"), "variable v is missing"),
        (("--climatology", "midnight.nc"), "has no time at hour 12 of the day; there are 0"),
        (("--climatology", "none.nc"), "none.nc: does not exist"),
        (("--structures", "."), "--structures means nothing to damped"),
        (("--size", "leads=3"), "--size means nothing to damped"),
        (("--budget", "4"), "'4' is not a size"),
        (("--data", "one.nc"), "nothing to evaluate on: 1 time step has no regular step"),
        (("--data", "none.nc"), "none.nc: does not exist"),
        (("--out", "data.nc"), "data.nc"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(folder, tmp_path, monkeypatch, more, reason):
    monkeypatch.chdir(tmp_path)
    stored(fields(), tmp_path / "data.nc")
    stored(fields().isel(longitude=[0, 2]), tmp_path / "coarse.nc")
    stored(fields().drop_vars("v"), tmp_path / "few.nc")
    stored(fields().isel(time=[0, 4]), tmp_path / "midnight.nc")
    stored(fields().isel(time=[0]), tmp_path / "one.nc")
    assert reason in refused(evaluate(tmp_path / "out", "--data", "data.nc", *more))
    assert not (tmp_path / "out" / "evaluation.json").exists()
