"""The Stormer cases: channels and statistics from the data, and a run that keeps them."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from rich.console import Console
from tiny_stormer_case import CASE, CHANNELS, HOLE, LONGITUDES, SIZES, TIMES, fields, records_of
from typer.testing import CliRunner, Result

from elbowroom.datasets.findings import DataError
from elbowroom.memory.plan import Plan
from elbowroom.models.stormer.config import tiny
from elbowroom.studies.case import Case
from elbowroom.studies.choose_plan import check_plan, default_plan
from elbowroom.studies.cli import app
from elbowroom.studies.run_folder import RunError
from elbowroom.studies.sizes import CaseSizeError
from elbowroom.studies.stormer import STORMER, STORMER_SYMMETRIC, stormer_case
from elbowroom.studies.stormer_features import Scaling
from elbowroom.studies.train import Training, train

SYMMETRIC = stormer_case("tiny-symmetric", tiny(), symmetric=True)


@cache
def measured() -> Case:
    assert CASE.measured_on is not None
    return CASE.measured_on(records_of(fields()), SIZES)


def channel(dataset: xr.Dataset, number: int) -> np.ndarray:
    name, level = CHANNELS[number]
    values = dataset[name].values
    return values if level is None else values[:, level]


def test_examples_have_the_shapes_that_the_case_promises():
    promised = {name: (leaf.shape, leaf.dtype) for name, leaf in CASE.example(SIZES).items()}
    examples = measured().held_out(records_of(fields()), SIZES)
    assert len(examples) == (TIMES - 1) + (TIMES - 2)
    for _, features in examples:
        assert {name: (array.shape, array.dtype) for name, array in features.items()} == promised


def test_states_and_changes_are_normalised_by_numpys_statistics_over_each_lead():
    data = fields()
    examples = measured().held_out(records_of(data), SIZES)
    for number in range(len(CHANNELS)):
        values = channel(data, number)
        state = (values - np.nanmean(values)) / np.nanstd(values)
        np.testing.assert_allclose(examples[0][1]["state"][number], state[0], rtol=1e-4, atol=1e-5)
        for lead, place in ((1, 3), (2, TIMES - 1 + 3)):  # the fourth example of each lead starts at the fourth time
            name, features = examples[place]
            change = (values[3 + lead] - values[3]) / np.nanstd(values[lead:] - values[:-lead])
            np.testing.assert_allclose(features["target"][number], change, rtol=1e-3, atol=1e-4)
            assert features["lead_hours"] == 12 * lead
            assert name == f"2020-01-02T12:00 +{12 * lead} h"


def test_statistics_are_those_of_the_training_times_whatever_comes_later():
    seen, later = fields().isel(time=slice(6)), fields().isel(time=slice(6, None))
    case = CASE.measured_on(records_of(seen), SIZES)
    kept = case.model["statistics"]["channels"][4]
    np.testing.assert_allclose([kept["mean"], kept["std"]], [seen["sp"].mean(), seen["sp"].std()], rtol=1e-10)
    plain = case.held_out(records_of(later), SIZES)[0][1]
    larger = case.held_out(records_of(later.assign(sp=later["sp"] * 10)), SIZES)[0][1]
    want = (10 * later["sp"].values[0] - kept["mean"]) / kept["std"]
    np.testing.assert_allclose(larger["state"][4], want, rtol=1e-5)
    np.testing.assert_array_equal(plain["state"][:4], larger["state"][:4])


def test_a_case_that_has_not_seen_training_data_normalises_no_others():
    with pytest.raises(ValueError, match="use `measured_on` the training ones"):
        CASE.held_out(records_of(fields()), SIZES)


def test_a_missing_value_is_the_mean_when_given_and_not_compared_when_predicted():
    examples = measured().held_out(records_of(fields()), SIZES)
    place = (1, HOLE["latitude"], HOLE["longitude"])
    predicted, given = examples[1][1], examples[2][1]
    assert np.argwhere(~predicted["target_mask"]).tolist() == np.argwhere(~given["mask"]).tolist() == [list(place)]
    assert given["state"][place] == 0
    assert not given["target_mask"][place]
    assert all(np.isfinite(array).all() for _, features in examples for array in features.values())


def test_what_stands_in_a_hole_changes_neither_loss_nor_gradient():
    example = dict(measured().held_out(records_of(fields()), SIZES)[2][1])
    rng, shapes = np.random.default_rng(1), jax.eval_shape(lambda: CASE.parameters(SIZES, jax.random.key(0)))
    parameters = jax.tree.map(lambda leaf: jnp.asarray(0.3 * rng.normal(size=leaf.shape), leaf.dtype), shapes)
    loss, masks = CASE.loss(SIZES, Plan()), {"state": "mask", "target": "target_mask"}
    score = jax.jit(jax.value_and_grad(lambda parameters, example: loss(parameters, example, None)[0]))
    other = {part: np.where(example[mask], example[part], np.nan) for part, mask in masks.items()}
    assert all(np.isnan(field).any() for field in other.values())
    (value, gradient), (again, same) = score(parameters, example), score(parameters, {**example, **other})
    assert np.isfinite(value)
    assert value == again
    jax.tree.map(np.testing.assert_array_equal, gradient, same)


def test_persistence_is_scored_as_a_model_that_predicts_no_change():
    case = measured()
    _, features = case.held_out(records_of(fields()), SIZES)[1]
    still = case.parameters(SIZES, jax.random.key(0))  # its head begins at zero
    _, metrics = jax.jit(lambda features: case.loss(SIZES, Plan())(still, features, None))(features)
    assert case.prior(records_of(fields()))(features) == pytest.approx(float(metrics["error"]), rel=1e-6)
    assert case.prior(records_of(fields()))({**features, "target": 0 * features["target"]}) == 0


def test_every_start_and_lead_comes_once_in_a_pass():
    batches = measured().batches(records_of(fields()), {**SIZES, "batch": 1}, 0)
    count = (TIMES - 1) + (TIMES - 2)
    drawn = [next(batches) for _ in range(count)]
    found = {(batch.names[0], float(batch.features["lead_hours"][0])) for batch in drawn}
    assert len(found) == count
    assert {hours for _, hours in found} == {12.0, 24.0}


def test_only_the_symmetric_case_turns_and_mirrors_what_it_trains_on():
    data, sizes = fields().isel(time=slice(2)), {**SIZES, "batch": 1, "leads": 1}
    moved = {}
    for case in (CASE, SYMMETRIC):
        batches = case.batches(records_of(data), sizes, 0)
        moved[case.name] = {next(batches).features["state"].tobytes() for _ in range(60)}
    assert len(moved["tiny"]) == 1
    assert len(moved["tiny-symmetric"]) == 2 * len(LONGITUDES)
    assert moved["tiny"] < moved["tiny-symmetric"]


def test_a_region_cannot_be_trained_on_as_if_it_were_symmetric():
    data = fields().isel(latitude=slice(1, None))
    with pytest.raises(RunError, match="nothing can be mirrored; train `stormer`"):
        SYMMETRIC.batches(records_of(data), {**SIZES, "latitudes": 5}, 0)


@pytest.fixture
def training(tmp_path):
    return Training(
        case=SYMMETRIC,
        records=records_of(fields()),
        sizes=SIZES,
        plan=Plan(),
        steps=3,
        out=tmp_path / "run",
        optimizer=dataclasses.replace(SYMMETRIC.optimizer, warmup_steps=1),
    )


def test_a_run_keeps_its_statistics_and_resumes_as_if_it_had_never_stopped(training, tmp_path):
    quiet = Console(quiet=True)
    straight = train(dataclasses.replace(training, out=tmp_path / "straight"), quiet)
    train(dataclasses.replace(training, steps=2), quiet)
    resumed = train(dataclasses.replace(training, resume=True), quiet)
    jax.tree.map(np.testing.assert_array_equal, resumed.parameters, straight.parameters)
    kept = json.loads((training.out / "run.json").read_text())["model"]["statistics"]
    assert Scaling.from_dict(kept) == Scaling.from_dict(measured().model["statistics"])
    other = dataclasses.replace(training, case=SYMMETRIC, records=records_of(fields(seed=1)), resume=True)
    with pytest.raises(RunError, match="with other training data; other statistics of the training data; resume"):
        train(other, quiet)


def test_channels_that_the_model_is_not_made_for_are_listed_with_the_sizes_to_give():
    with pytest.raises(CaseSizeError, match="u 300, u 850, v 300, v 850, sp: add --size channels=5"):
        CASE.measured_on(records_of(fields()), {**SIZES, "channels": 7})
    with pytest.raises(
        CaseSizeError, match="the model is for 32 latitudes x 64 longitudes, the data have 6 latitudes x 8"
    ):
        measured().held_out(records_of(fields()), {**SIZES, "latitudes": 32, "longitudes": 64})


def test_a_channel_that_later_data_lack_is_named(tmp_path):
    without = fields().drop_vars("sp")
    with pytest.raises(CaseSizeError, match="channel sp is missing; the data hold u 300, u 850, v 300, v 850"):
        measured().held_out(records_of(without), SIZES)
    del without.attrs["simulated"]
    without.to_netcdf(tmp_path / "few.nc")
    with pytest.raises(DataError, match="variable sp is missing"):
        measured().read(tmp_path / "few.nc", None)


def test_a_channel_that_never_changes_is_refused():
    data = fields()
    data["v"][:, 1] = 0
    with pytest.raises(CaseSizeError, match="v 850 never changes in the training data"):
        CASE.measured_on(records_of(data), SIZES)


@pytest.mark.parametrize(("times", "message"), [(1, "have one time; give a series"), (2, "no two times 2 steps apart")])
def test_a_series_too_short_for_the_leads_is_refused(times, message):
    with pytest.raises(CaseSizeError, match=message):
        CASE.measured_on(records_of(fields().isel(time=slice(times))), SIZES)


def test_data_of_another_step_are_read_at_the_models_leads():
    """Six-hourly times serve a model of twelve hours; daily ones do not."""
    finer = fields().assign_coords(time=fields()["time"][0].values + np.arange(TIMES) * np.timedelta64(6, "h"))
    names = [name for name, _ in measured().held_out(records_of(finer), SIZES)]
    assert names[:2] == ["2020-01-01T00:00 +12 h", "2020-01-01T06:00 +12 h"]
    with pytest.raises(CaseSizeError, match="no two times 12 h apart"):
        measured().held_out(records_of(fields().isel(time=slice(None, None, 3))), {**SIZES, "leads": 1})


def test_the_embedded_season_is_simulated_and_ends_after_training():
    sizes = {name: size.default for name, size in STORMER.sizes.items()}
    seen, later = STORMER.demo("train"), STORMER.demo("test")
    assert "the weather is simulated, not observed" in seen.warnings
    assert seen.items[0]["time"].values[-1] < later.items[0]["time"].values[0]
    assert len(seen.items[0]["time"]) + len(later.items[0]["time"]) == 180
    assert STORMER.measured_on is not None
    case = STORMER.measured_on(seen, sizes)
    assert len(case.held_out(later, sizes)) == 35 + 34


@pytest.mark.parametrize("case", [STORMER, STORMER_SYMMETRIC])
def test_every_plan_of_the_case_does_what_it_says(case):
    sizes = {name: size.default for name, size in case.sizes.items()}
    for plan in (*case.techniques(sizes).values(), *(default_plan(case, sizes, accelerator=a) for a in (False, True))):
        check_plan(case, sizes, plan)


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_training_on_a_file_of_another_shape_says_which_sizes_to_give(tmp_path):
    data = fields()
    del data.attrs["simulated"]
    data.to_netcdf(tmp_path / "mine.nc")
    result = command("train", "stormer", "--data", tmp_path / "mine.nc", "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "add --size channels=5 --size latitudes=6 --size longitudes=8" in " ".join(result.stderr.split())
    assert not Path(tmp_path / "run").exists()
