"""Forecasts of a trained Stormer against a roll-out by hand: normalised, the predicted change added, put back."""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from flax import nnx
from jaxtyping import PyTree
from rich.console import Console
from tiny_stormer_case import CASE, CHANNELS, HOLE, SIZES, TIMES, fields, records_of
from typer.testing import CliRunner, Result

from elbowroom.datasets.weather.normal import open_weather
from elbowroom.memory.plan import Plan
from elbowroom.models.stormer.config import tiny
from elbowroom.models.stormer.model import Stormer
from elbowroom.models.stormer.weights import load_published, published_names
from elbowroom.studies import cases
from elbowroom.studies.cli import app
from elbowroom.studies.optimizer import averaged_parameters
from elbowroom.studies.train import Training, train

pytestmark = pytest.mark.xdist_group("stormer forecast")
STEPS, FIRST = 2, np.datetime64("2020-01-01", "ns")
CONFIG = dataclasses.replace(tiny(), **{name: SIZES[name] for name in ("channels", "latitudes", "longitudes")})
OPTIMIZER = dataclasses.replace(CASE.optimizer, learning_rate=0.1, warmup_steps=1)
"""Two steps with it make changes that are worth comparing"""


class Run(NamedTuple):
    folder: Path
    parameters: PyTree
    """The running average, from memory"""


@pytest.fixture(scope="module", autouse=True)
def the_tiny_case():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "CASES", {"tiny": CASE})
        yield


def stored(path: Path, dataset: xr.Dataset) -> Path:
    dataset.drop_attrs().to_netcdf(path)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("stormer")
    training = Training(
        case=CASE,
        records=records_of(fields()),
        sizes=SIZES,
        plan=CASE.plan,
        steps=2,
        out=folder / "run",
        optimizer=OPTIMIZER,
    )
    state = train(training, Console(quiet=True))
    stored(folder / "data.nc", fields(seed=1))
    return Run(folder / "run", averaged_parameters(state.optimizer))


def predict(run: Run, out: Path, *more: object, data: Path | None = None, params: Path | None = None) -> Result:
    data, params = data or run.folder.with_name("data.nc"), params or run.folder
    arguments = ["predict", "tiny", data, "--params", params, "--out", out, "--steps", STEPS, *more]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def forecasts(run) -> xr.Dataset:
    """From every time."""
    path = run.folder.with_name("forecasts.nc")
    result = predict(run, path, "--every", 12)
    assert result.exit_code == 0, result.output
    return xr.load_dataset(path)


def by_hand(run: Run, parameters: PyTree, start: int) -> list[np.ndarray]:
    """Physical fields [channel, lat, lon] after each step, and the start itself before them."""
    kept = json.loads((run.folder / "run.json").read_text())["model"]["statistics"]["channels"]

    def column(key: Any) -> np.ndarray:
        return np.array([key(channel) for channel in kept])[:, None, None]

    mean, std, change = (column(key) for key in (lambda c: c["mean"], lambda c: c["std"], lambda c: c["changes"][0]))
    model = nnx.eval_shape(lambda: Stormer(CONFIG, rngs=nnx.Rngs(0)))
    nnx.update(model, parameters)
    forecast = jax.jit(lambda state, known: model(state, known, jnp.float32(12), Plan()))
    given = fields(seed=1).isel(time=start)
    values = np.stack([given[name].values if level is None else given[name].values[level] for name, level in CHANNELS])
    known = np.isfinite(values)
    found, state = [values], np.where(known, (values - mean) / std, 0)
    for _ in range(STEPS):
        state = state + np.asarray(forecast(state.astype(np.float32), known), np.float64) * change / std
        known = np.ones_like(known)
        found.append(state * std + mean)
    return found


def channels(forecasts: xr.Dataset, start: int, step: int) -> np.ndarray:
    at = forecasts.isel(time=start, prediction_timedelta=step)
    return np.stack([at[name].values if level is None else at[name].values[level] for name, level in CHANNELS])


@pytest.mark.parametrize("start", [0, HOLE["time"], TIMES - 1])
def test_a_forecast_is_the_roll_out_by_hand(run, forecasts, start):
    """A value that is missing counts as the mean, and the model is told."""
    now, *later = by_hand(run, run.parameters, start)
    for step, want in enumerate(later):
        found = channels(forecasts, start, step)
        assert np.isfinite(found).all()
        moved = np.nanmax(np.abs(want - now), axis=(1, 2), keepdims=True)
        assert (moved > 0).all()
        # The file holds float32; a change is compared by its own size as well, or by that of what it is added to.
        atol = 1e-4 * moved + 2e-7 * np.nanmax(np.abs(now), axis=(1, 2), keepdims=True)
        assert (np.abs(found - want) <= atol).all()


def test_leads_and_starts_are_the_times_of_the_training_data(forecasts):
    hours = np.timedelta64(1, "h")
    assert (forecasts["prediction_timedelta"].values / hours).tolist() == [12, 24]
    assert ((forecasts["time"].values - FIRST) / hours).tolist() == [12.0 * time for time in range(TIMES)]
    assert forecasts["missing_inputs"].values.tolist() == [int(time == HOLE["time"]) for time in range(TIMES)]
    assert forecasts["sp"].attrs["units"] == "Pa"


def test_six_hourly_data_are_forecast_at_the_models_own_step(run, forecasts, tmp_path):
    """Every other time of them are the times above."""
    finer = fields(seed=1).assign_coords(time=FIRST + np.arange(TIMES) * np.timedelta64(6, "h"))
    result = predict(run, tmp_path / "a.nc", "--start", "2020-01-01", data=stored(tmp_path / "finer.nc", finer))
    assert result.exit_code == 0, result.output
    with xr.open_dataset(tmp_path / "a.nc") as found:
        for name in ("u", "v", "sp"):
            np.testing.assert_array_equal(found[name][0], forecasts[name][0])


def test_what_is_exported_has_the_published_names_and_gives_the_same_forecast(run, tmp_path):
    result = CliRunner().invoke(app, ["export", str(run.folder), "--out", str(tmp_path / "mine.npz")])
    assert result.exit_code == 0, result.output
    with np.load(tmp_path / "mine.npz") as file:
        arrays = dict(file)
    model = nnx.eval_shape(lambda: Stormer(CONFIG, rngs=nnx.Rngs(0)))
    assert {name: array.shape for name, array in arrays.items()} == published_names(model)
    assert "blocks.0.attn.qkv.weight" in arrays
    load_published(model, arrays)
    again = by_hand(run, nnx.state(model, nnx.Param), 3)
    for found, want in zip(again, by_hand(run, run.parameters, 3), strict=True):
        np.testing.assert_array_equal(found, want)


def test_a_forecast_can_itself_be_forecast_from(run, tmp_path):
    assert predict(run, tmp_path / "first.nc", "--start", "2020-01-02").exit_code == 0
    assert predict(run, tmp_path / "again.nc", data=tmp_path / "first.nc").exit_code == 0
    assert open_weather(tmp_path / "again.nc")["time"].values[0] == np.datetime64("2020-01-03T12", "ns")


def refused(result: Result) -> str:
    """The one line that explains the refusal."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    return line


def test_data_that_the_model_does_not_know_are_refused(run, tmp_path):
    data = fields(seed=1)
    further = data.isel(level=[0]).assign_coords(level=[500.0])
    wider = xr.concat([data, further], "level", data_vars="minimal", compat="equals", coords="minimal", join="outer")
    for name, other, reason in (
        (
            "coarse",
            data.isel(longitude=slice(None, None, 2)),
            "the model is for 6 latitudes x 8 longitudes, the data have 6 latitudes x 4 longitudes; interpolate",
        ),
        ("few", data.drop_vars("sp"), "channel sp is missing; the data hold u 300, u 850, v 300, v 850"),
        ("levels", data.isel(level=[0]), "channel u 850, v 850 is missing"),
        ("more", wider, "levels that the model does not forecast: 500 hPa; leave them out"),
    ):
        line = refused(predict(run, tmp_path / "a.nc", data=stored(tmp_path / f"{name}.nc", other)))
        assert reason in line


def test_parameters_of_something_else_are_refused(run, tmp_path):
    np.savez(tmp_path / "mine.npz", weights=np.zeros(3))
    line = refused(predict(run, tmp_path / "a.nc", params=tmp_path / "mine.npz"))
    assert "mine.npz: parameters alone do not say how fields are normalised; give the folder of a run" in line
    assert "holds no run" in refused(predict(run, tmp_path / "a.nc", params=tmp_path / "none"))
    record = json.loads((run.folder / "run.json").read_text())
    del record["model"]["statistics"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text(json.dumps({**record, "case": "aurora"}))
    line = refused(predict(run, tmp_path / "a.nc", params=tmp_path / "other"))
    assert "other is a run of aurora, not of Stormer; give a run of the case that you name" in line
