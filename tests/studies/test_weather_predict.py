"""Forecasts as files: what a model made by hand predicts, readable by others, and written whole or not at all."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from flax import nnx
from rich.console import Console
from tiny_weather import CASE, HOLE, LATITUDES, LEVELS, LONGITUDES, SIZES, TINY, parameters, physical, stored
from typer.testing import CliRunner, Result

from elbowroom.datasets.weather.normal import open_weather
from elbowroom.memory.plan import Plan
from elbowroom.models.aurora.encodings import encodings
from elbowroom.models.aurora.model import Aurora, History
from elbowroom.models.aurora.normalisation import atmosphere_scaling, static_scaling, surface_scaling
from elbowroom.models.aurora.weights import load_published
from elbowroom.studies import cases
from elbowroom.studies.cli import app
from elbowroom.studies.train import Training, train

pytestmark = pytest.mark.xdist_group("weather predict")
TIMES, STEPS = 4, 2
FILE_NAMES = {"2t": "t2m", "10u": "u10", "10v": "v10"}
START = np.datetime64("2020-01-01T06", "ns")
"""The first time that has another before it; the hole is in the next."""


@pytest.fixture(scope="module", autouse=True)
def the_tiny_case():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases, "CASES", {"tiny": CASE})
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Data and parameters."""
    folder = tmp_path_factory.mktemp("weather")
    stored(folder, physical(TIMES))
    np.savez(folder / "parameters.npz", **parameters())
    return folder


def predict(folder: Path, out: Path, *more: object, data: str = "tiny.zarr", params: str = "parameters.npz") -> Result:
    arguments = ["predict", "tiny", folder / data, "--params", folder / params, "--out", out, *more]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(result: Result) -> str:
    """The one line that explains the refusal."""
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("error: ")
    return line


@pytest.fixture(scope="module")
def files(folder) -> dict[str, Path]:
    """Forecasts from every time that can be, in both kinds of file."""
    made = {ending: folder / f"forecast.{ending}" for ending in ("nc", "zarr")}
    for path in made.values():
        result = predict(folder, path, "--steps", STEPS, "--every", 6)
        assert result.exit_code == 0, result.output
    return made


@pytest.fixture(scope="module")
def by_hand() -> list[dict[str, np.ndarray]]:
    """Two steps from `START`: fields normalised in numpy, the model called, its prediction put back as the newest."""
    dataset, kept = physical(TIMES), len(LATITUDES) - 1
    model = nnx.eval_shape(lambda: Aurora(TINY, rngs=nnx.Rngs(0)))
    load_published(model, parameters())
    surface, air = surface_scaling(TINY.surface), atmosphere_scaling(TINY.atmosphere, np.array(LEVELS))
    static = static_scaling(TINY.static)

    def normal(names: Any, scaling: Any, *times: slice) -> Any:
        fields = np.stack([dataset[name].values[*times, ..., :kept, :] for name in names], axis=int(bool(times)))
        return jnp.asarray((fields - scaling[0]) / scaling[1], jnp.float32)

    given = slice(0, 2)
    history = History(
        jnp.moveaxis(normal(TINY.surface, surface, given), 0, 1),
        normal(("lsm", "z_surface", "slt"), static),
        jnp.moveaxis(normal(TINY.atmosphere, air, given), 0, 1),
    )
    found, hours = [], (START - np.datetime64("1970-01-01", "ns")) / np.timedelta64(1, "h")
    for step in range(STEPS):
        where = encodings(TINY, LATITUDES[:kept], LONGITUDES, np.array(LEVELS), 6.0, float(hours) + 6 * step)
        new = jax.jit(lambda history, where: model(history, where, Plan()))(history, where)
        fields = {
            name: np.asarray(new.surface[i]) * surface[1, i] + surface[0, i] for i, name in enumerate(TINY.surface)
        }
        fields |= {
            name: np.asarray(new.atmosphere[i]) * air[1, i] + air[0, i] for i, name in enumerate(TINY.atmosphere)
        }
        found.append(fields)
        history = History(
            jnp.stack([history.surface[:, 1], new.surface], axis=1),
            history.static,
            jnp.stack([history.atmosphere[:, 1], new.atmosphere], axis=1),
        )
    return found


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_a_forecast_is_what_steps_made_by_hand_predict(files, by_hand, kind):
    with xr.open_dataset(files[kind]) as forecast:
        for step, fields in enumerate(by_hand):
            at = forecast.sel(time=START, prediction_timedelta=np.timedelta64(6 * (step + 1), "h"))
            for name, field in fields.items():
                scale = np.abs(field).max()  # of one order of magnitude; the programs differ in how they are fused
                np.testing.assert_allclose(at[FILE_NAMES.get(name, name)], field, rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_a_file_says_in_the_words_of_cf_what_it_holds(files, kind):
    with xr.open_dataset(files[kind]) as forecast:
        assert forecast.attrs["Conventions"] == "CF-1.10"
        assert forecast["t"].dims == ("time", "prediction_timedelta", "level", "latitude", "longitude")
        assert forecast["t"].dtype == np.float32
        assert forecast["time"].attrs["standard_name"] == "forecast_reference_time"
        assert forecast["prediction_timedelta"].attrs["standard_name"] == "forecast_period"
        assert forecast["level"].attrs == {
            "standard_name": "air_pressure",
            "units": "hPa",
            "positive": "down",
            "axis": "Z",
        }
        wanted = {
            "t2m": ("air_temperature", "K", 2.0),
            "v10": ("northward_wind", "m s-1", 10.0),
            "msl": ("air_pressure_at_mean_sea_level", "Pa", None),
            "z": ("geopotential", "m2 s-2", None),
            "q": ("specific_humidity", "kg kg-1", None),
        }
        for name, (standard, unit, height) in wanted.items():
            told = forecast[name].attrs
            assert (told["standard_name"], told["units"]) == (standard, unit)
            place = forecast[name].encoding.get("coordinates")
            assert (None if place is None else float(forecast[place])) == height
        assert forecast["time"].values.tolist() == [
            (START + i * np.timedelta64(6, "h")).astype(int) for i in range(TIMES - 1)
        ]


def test_the_row_that_makes_no_whole_patch_is_left_out_and_the_file_says_so(files):
    with xr.open_dataset(files["nc"]) as forecast:
        assert forecast["latitude"].values.tolist() == LATITUDES[:-1].tolist()
        assert "Latitude -90 is neither given to the model nor forecast" in forecast.attrs["comment"]
        assert "simulated" not in forecast.attrs
        assert "not marked as simulated" in forecast.attrs["source"]
        assert "file parameters.npz" in forecast.attrs["source"]
        assert forecast.attrs["plan"] == "plain float32"


def test_a_hole_in_what_is_given_is_counted_and_everything_stays_finite(files):
    with xr.open_dataset(files["nc"]) as forecast:
        assert forecast["missing_inputs"].values.tolist() == [0, 1, 1]
        assert all(np.isfinite(forecast[name]).all() for name in forecast.data_vars)


def test_a_hole_is_forecast_from_as_if_the_mean_stood_there(folder, files, tmp_path):
    dataset = physical(TIMES)
    mean = atmosphere_scaling(("t",), np.array(LEVELS))[0, 0, HOLE["level"], 0, 0]
    filled = dataset.assign(t=dataset["t"].fillna(float(mean)))
    stored(tmp_path, filled)
    np.savez(tmp_path / "parameters.npz", **parameters())
    assert predict(tmp_path, tmp_path / "filled.nc", "--steps", 1).exit_code == 0
    with xr.open_dataset(files["nc"]) as forecast, xr.open_dataset(tmp_path / "filled.nc") as other:
        np.testing.assert_allclose(forecast["t"][-1, 0], other["t"][0, 0], rtol=1e-5)


@pytest.fixture(scope="module")
def newest(folder) -> Path:
    """One forecast, from the newest time, in a folder."""
    result = predict(folder, folder / "out", "--steps", STEPS)
    assert result.exit_code == 0, result.output
    return folder / "out" / "2020-01-01T18.nc"


def test_one_forecast_is_read_back_as_a_series_over_the_times_that_it_is_for(newest, files):
    series = open_weather(newest)
    start = np.datetime64("2020-01-01T18", "ns")
    assert series["time"].values.tolist() == [(start + h * np.timedelta64(1, "h")).astype(int) for h in (6, 12)]
    with xr.open_dataset(newest) as one, xr.open_dataset(files["zarr"]) as all_starts:
        for name in (*TINY.surface, *TINY.atmosphere):
            stored_name = FILE_NAMES.get(name, name)
            np.testing.assert_array_equal(series[name], one[stored_name][0])
            np.testing.assert_array_equal(one[stored_name][0], all_starts[stored_name][-1])


def test_what_was_forecast_before_is_kept_unless_asked_again(folder, newest):
    before = newest.read_bytes()
    newest.write_bytes(b"kept")
    kept = predict(folder, newest.parent, "--steps", STEPS)
    assert newest.read_bytes() == b"kept"
    assert "forecast before and kept; --again" in kept.stderr
    assert "compiled" not in kept.stderr
    assert predict(folder, newest.parent, "--steps", STEPS, "--again").exit_code == 0
    assert len(newest.read_bytes()) == len(before)


@pytest.mark.filterwarnings("default:chunk.rows = 1 leaves whole")
def test_a_leaner_plan_gives_the_same_forecast(folder, newest, tmp_path):
    (tmp_path / "plan.toml").write_text("[chunk]\nrows = 1\n")
    result = predict(folder, tmp_path / "lean.nc", "--steps", STEPS, "--plan", tmp_path / "plan.toml")
    assert result.exit_code == 0
    with xr.open_dataset(newest) as plain, xr.open_dataset(tmp_path / "lean.nc") as lean:
        assert lean.attrs["plan"] == "float32 · chunk 1 rows"
        for name in plain.data_vars:
            scale = float(np.abs(plain[name]).max())
            np.testing.assert_allclose(lean[name], plain[name], rtol=0, atol=2e-5 * scale)


def test_the_plan_is_the_first_that_fits_the_budget(folder, tmp_path):
    result = predict(folder, tmp_path / "a.nc", "--steps", 1, "--budget", "1KiB")
    line = refused(result)
    assert "a step needs" in line
    assert "chunk 1 rows, there are 1.00 KiB" in line
    tried = [said for said in result.stderr.splitlines() if "(compiled)" in said]
    assert tried[0].startswith("plain float32")
    assert not (tmp_path / "a.nc").exists()


def test_a_simulation_is_called_so_and_known_again(folder, tmp_path):
    stored(tmp_path, physical(TIMES).assign_attrs(simulated="true"))
    np.savez(tmp_path / "parameters.npz", **parameters())
    assert predict(tmp_path, tmp_path / "a.zarr", "--steps", 1).exit_code == 0
    assert "(simulated)" in xr.open_zarr(tmp_path / "a.zarr").attrs["source"]
    assert open_weather(tmp_path / "a.zarr").attrs["simulated"]


def test_a_forecast_that_is_not_finite_leaves_no_file(folder, tmp_path):
    broken = {
        **parameters(),
        "decoder.surf_heads.2t.bias": np.full_like(parameters()["decoder.surf_heads.2t.bias"], np.nan),
    }
    stored(tmp_path, physical(TIMES))
    np.savez(tmp_path / "parameters.npz", **broken)
    for name in ("a.nc", "a.zarr"):
        assert "2t is not finite in step 1" in refused(predict(tmp_path, tmp_path / name))
    assert {path.name for path in tmp_path.iterdir()} == {"tiny.zarr", "parameters.npz"}


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            ("--start", "2020-01-01T00"),
            "nothing can start there; starts with the 2 times they need are 2020-01-01T06:00",
        ),
        (("--start", "2021-01-01"), "nothing can start there"),
        (("--start", "noon"), "--start 'noon' is no time; write it as 2020-01-31T12"),
        (("--start", "2020-02-30"), "--start '2020-02-30' is no time"),
        (("--start", "2020-01-01T00+01:00"), "nothing can start there"),
        (("--template", "a.cif"), "--template means nothing to tiny"),
        (("--size", "latitudes=9"), "--size means nothing to tiny"),
        (("--budget", "4"), "'4' is not a size"),
    ],
)
def test_what_cannot_be_forecast_is_refused(folder, tmp_path, more, reason):
    assert reason in refused(predict(folder, tmp_path / "a.nc", *more))


def test_a_plan_that_cuts_nothing_is_refused(folder, tmp_path):
    (tmp_path / "plan.toml").write_text("[chunk]\nrows = 64\n")
    assert "chunk.rows = 64 cuts nothing" in refused(
        predict(folder, tmp_path / "a.nc", "--plan", tmp_path / "plan.toml")
    )


def test_the_data_are_not_written_over(folder):
    assert "is the data to forecast from" in refused(predict(folder, folder / "tiny.zarr", "--again"))


def test_data_of_one_time_are_refused(tmp_path):
    stored(tmp_path, physical(TIMES).isel(time=[0]))
    np.savez(tmp_path / "parameters.npz", **parameters())
    assert "the data have one time" in refused(predict(tmp_path, tmp_path / "a.nc"))


def test_parameters_that_are_not_there_or_of_another_model_are_refused(folder, tmp_path):
    (tmp_path / "aurora.ckpt").write_bytes(b"")
    np.savez(tmp_path / "other.npz", weights=np.zeros(3))
    for name, reason in (
        ("no.npz", "no.npz cannot be read"),
        ("aurora.ckpt", "write its arrays under their names with numpy.savez"),
        ("other.npz", "not part of the model: weights"),
        ("", "holds no run"),
    ):
        result = predict(folder, tmp_path / "a.nc", params=str(tmp_path / name))
        assert reason in refused(result)


def test_a_file_that_cannot_be_written_is_refused(folder, tmp_path):
    (tmp_path / "file").write_text("kept")
    assert "--out must name a folder" in refused(predict(folder, tmp_path / "file" / "a.nc"))


@pytest.fixture(scope="module")
def run(folder) -> Path:
    training = Training(
        case=CASE,
        records=CASE.read(folder / "tiny.zarr", None),
        sizes=SIZES,
        plan=CASE.plan,
        steps=1,
        out=folder / "run",
        optimizer=CASE.optimizer,
    )
    train(training, Console(quiet=True))
    return folder / "run"


def test_a_run_forecasts_and_so_does_what_is_exported_from_it(folder, run, tmp_path):
    exported = CliRunner().invoke(app, ["export", str(run), "--out", str(tmp_path / "mine.npz")])
    assert exported.exit_code == 0, exported.output
    assert predict(folder, tmp_path / "run.nc", params="run").exit_code == 0
    assert predict(folder, tmp_path / "file.nc", params=str(tmp_path / "mine.npz")).exit_code == 0
    with xr.open_dataset(tmp_path / "run.nc") as one, xr.open_dataset(tmp_path / "file.nc") as other:
        assert "run run, step 1" in one.attrs["source"]
        xr.testing.assert_equal(one, other)
    with np.load(tmp_path / "mine.npz") as arrays:
        assert set(arrays.files) == set(parameters())


def test_training_goes_on_from_exported_parameters(folder):
    case = CASE.starting_from(folder / "parameters.npz")
    given = dict(nnx.to_flat_state(case.parameters(SIZES, jax.random.key(0))))
    latents = next(leaf for path, leaf in given.items() if "atmos_latents" in path)
    np.testing.assert_array_equal(latents.get_value(), parameters()["encoder.atmos_latents"])
    assert case.start != CASE.start


def test_a_run_on_another_grid_is_told_so(folder, run, tmp_path):
    stored(tmp_path, physical(TIMES).isel(longitude=slice(0, 8)))
    result = predict(tmp_path, tmp_path / "a.nc", "--steps", 1, params=str(run))
    assert result.exit_code == 0
    assert "note: Trained on 9 latitudes, 12 longitudes and 2 levels, but the data have 9 latitudes, 8" in result.stderr


def test_a_run_of_another_model_is_refused(folder, run, tmp_path):
    record = (run / "run.json").read_text().replace('"history"', '"something"')
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(record)
    assert "is a run of tiny, or of another version" in refused(
        predict(folder, tmp_path / "a.nc", params=str(tmp_path / "run"))
    )
