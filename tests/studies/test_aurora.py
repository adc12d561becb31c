"""The Aurora cases: from fields in normal form to features, a loss, and a run."""

import dataclasses
import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console
from tiny_weather import CASE, HOLE, SIZES, TINY, physical, stored
from typer.testing import CliRunner, Result

from elbowroom.memory.plan import Plan
from elbowroom.models.aurora.normalisation import UnknownVariableError, atmosphere_scaling, surface_scaling
from elbowroom.studies.aurora import AURORA
from elbowroom.studies.cli import app
from elbowroom.studies.run_folder import RunError
from elbowroom.studies.sizes import CaseSizeError
from elbowroom.studies.train import Training, train

TIMES = 5


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    return stored(tmp_path_factory.mktemp("weather"), physical(TIMES))


@pytest.fixture(scope="module")
def records(store):
    return CASE.read(store, None)


def test_examples_have_the_shapes_that_the_case_promises(records):
    promised = {name: (leaf.shape, leaf.dtype) for name, leaf in CASE.example(SIZES).items()}
    examples = CASE.held_out(records, SIZES)
    assert len(examples) == TIMES - TINY.history
    for _, features in examples:
        assert {name: (array.shape, array.dtype) for name, array in features.items()} == promised


def test_features_are_the_fields_normalised_without_the_row_too_many(records):
    _, features = CASE.held_out(records, SIZES)[0]
    fields, (mean, scale) = physical(), surface_scaling(TINY.surface)
    want = (fields["2t"].values[:3, :8] - mean[0]) / scale[0]
    np.testing.assert_allclose(features["surface"][0], want[:2], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(features["target_surface"][0, 0], want[2], rtol=1e-4, atol=1e-5)
    assert features["valid_surface"].all()


def test_a_hole_is_zero_where_it_is_given_and_not_compared_where_it_is_predicted(records):
    examples = CASE.held_out(records, SIZES)
    variable, place = TINY.atmosphere.index("t"), (HOLE["level"], HOLE["latitude"], HOLE["longitude"])
    predicted, given = examples[0][1], examples[1][1]
    assert not predicted["valid_atmosphere"][0, variable][place]
    assert (~predicted["valid_atmosphere"]).sum() == 1
    assert given["atmosphere"][variable, 1][place] == 0
    for _, features in examples:
        assert all(np.isfinite(array).all() for array in features.values())


def test_what_stands_in_a_hole_changes_no_loss(records):
    example = dict(CASE.held_out(records, SIZES)[0][1])
    parameters = CASE.parameters(SIZES, jax.random.key(0))
    score = jax.jit(lambda example: CASE.loss(SIZES, Plan())(parameters, example, None)[0])
    other = example["target_atmosphere"].copy()
    other[~example["valid_atmosphere"]] = np.nan
    assert score(example) == score({**example, "target_atmosphere": other})


def test_persistence_is_scored_as_the_model_is(records):
    """A model whose prediction is the newest given time would have this loss."""
    prior = CASE.prior(records)
    _, features = CASE.held_out(records, SIZES)[0]
    errors = []
    for part in ("surface", "atmosphere"):
        weight = np.broadcast_to(features["area"][:, None], features[f"target_{part}"].shape)
        weight = weight * features[f"valid_{part}"]
        apart = np.abs(features[f"target_{part}"] - features[part][:, -1]) * weight
        axes = tuple(range(2, apart.ndim))
        errors += (apart.sum(axes) / weight.sum(axes))[0].tolist()
    assert prior(features) == pytest.approx(np.mean(errors))
    assert prior({**features, **{f"target_{p}": features[p][:, -1][None] for p in ("surface", "atmosphere")}}) == 0


def test_a_run_learns_and_resumes(store, records, tmp_path):
    training = Training(
        case=CASE,
        records=records,
        sizes={**SIZES, "steps": 2},
        plan=CASE.plan,
        steps=2,
        out=tmp_path / "run",
        seed=0,
        optimizer=dataclasses.replace(CASE.optimizer, warmup_steps=1),
        checkpoint_every=1,
        resume=False,
    )
    train(training, Console(quiet=True))
    state = train(dataclasses.replace(training, steps=3, resume=True), Console(quiet=True))
    assert int(state.step) == 3


def test_another_grid_is_refused_with_the_sizes_to_give(records):
    with pytest.raises(CaseSizeError, match="--size latitudes=9 --size longitudes=12 --size levels=2"):
        CASE.held_out(records, {name: size.default for name, size in AURORA.sizes.items()})


def test_a_series_too_short_for_one_example_is_refused(records):
    with pytest.raises(CaseSizeError, match="no 12 times in a row"):
        CASE.held_out(records, {**SIZES, "steps": 10})


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_check_counts_what_weather_files_hold_and_names_the_hole(store):
    result = command("check", store, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["times"], found["latitudes"], found["longitudes"], found["step_hours"]) == (5, 9, 12, 6.0)
    table = command("check", store.parent).stdout
    assert re.sub(r"[\s│]+", " ", table).count("t: 1 missing values") == 1


def test_a_broken_weather_file_is_a_defect_and_no_traceback(tmp_path):
    (tmp_path / "broken.nc").write_bytes(b"not a netCDF file")
    result = command("check", tmp_path / "broken.nc")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "is no readable netcdf" in result.stdout


def test_training_on_files_without_auroras_variables_names_them(tmp_path):
    physical()[["t", "u"]].to_netcdf(tmp_path / "few.nc")
    result = command("train", "aurora-small", "--data", tmp_path / "few.nc", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "variable 2t, 10u, 10v, msl, lsm, z_surface, slt, z, v, q is missing" in result.stderr


def test_there_is_no_embedded_weather(records):
    with pytest.raises(RunError, match="give --data"):
        CASE.demo("train")


def test_a_level_that_aurora_was_not_trained_on_is_refused():
    with pytest.raises(UnknownVariableError, match="z at 775 hPa: Aurora was trained at 50, 100"):
        atmosphere_scaling(("z",), np.array([775.0]))
