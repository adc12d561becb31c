"""Examples hold a window and its masks; batches come in any order, the same again after a stop."""

import json

import numpy as np
import pytest

from elbowroom.datasets.weather.examples import example
from elbowroom.datasets.weather.fingerprint import fingerprint
from elbowroom.datasets.weather.loader import evaluation_examples, training_batches
from elbowroom.datasets.weather.normal import open_weather
from elbowroom.datasets.weather.windows import windows


@pytest.fixture
def holed(fields, write):
    """Seven windows of two steps and one ahead, with one missing value."""
    stored = fields(steps=9)
    stored["t"][3, 1, 2, 4] = np.nan
    return open_weather(write(stored, "a.nc")), stored


def of(dataset):
    return windows(dataset["time"].values, history=2, leads=(1,))


def take(batches, count):
    return [next(batches) for _ in range(count)]


def same(one, other) -> bool:
    return one.names == other.names and all((one.features[k] == other.features[k]).all() for k in one.features)


def test_an_example_holds_the_windows_fields_and_hours(holed):
    dataset, stored = holed
    arrays = example(dataset, of(dataset).steps[4])
    assert {name: array.shape for name, array in arrays.items() if "/" not in name} == {
        "hours": (3,),
        **dict.fromkeys(("2t", "10u", "10v", "msl"), (3, 5, 6)),
        **dict.fromkeys(("z", "u", "v", "t", "q"), (3, 2, 5, 6)),
        **dict.fromkeys(("z_surface", "lsm"), (5, 6)),
    }
    assert {str(array.dtype) for name, array in arrays.items() if "/" not in name} == {"float32", "int32"}
    np.testing.assert_array_equal(arrays["t"], stored["t"].values[4:7])
    assert arrays["hours"].tolist() == [438288 + 24, 438288 + 30, 438288 + 36]  # 18,262 days from 1970 to 2020
    assert arrays["t/valid"].all()


def test_a_missing_value_is_masked_filled_and_changes_nothing_else(holed):
    dataset, stored = holed
    window = of(dataset).steps[2]
    plain, filled = example(dataset, window), example(dataset, window, fill={"t": np.array([250.0, 281.0])})
    assert np.argwhere(~plain["t/valid"]).tolist() == [[1, 1, 2, 4]]
    assert plain["t"][1, 1, 2, 4] == 0
    assert filled["t"][1, 1, 2, 4] == 281
    for arrays in (plain, filled):
        known = arrays["t/valid"]
        np.testing.assert_array_equal(arrays["t"][known], stored["t"].values[2:5][known])
        assert all(values.all() for name, values in arrays.items() if name.endswith("/valid") and name != "t/valid")


def test_every_pass_has_each_window_once_in_an_order_of_its_own(holed):
    dataset, _ = holed
    batches = take(training_batches(dataset, of(dataset), seed=0, batch=2), 7)
    names = [name for batch in batches for name in batch.names]
    assert sorted(names[:7]) == sorted(names[7:]) == [str(time)[:16] for time in dataset["time"].values[1:8]]
    assert names[:7] != names[7:]
    assert batches[0].features["t"].shape == (2, 3, 2, 5, 6)
    assert batches[0].grid_points == 60


def test_a_stored_state_continues_with_the_next_batch(holed):
    dataset, _ = holed
    batches = training_batches(dataset, of(dataset), seed=5, batch=2)
    take(batches, 3)
    state = json.loads(json.dumps(batches.get_state()))
    expected = take(batches, 3)
    resumed = training_batches(dataset, of(dataset), seed=5, batch=2)
    resumed.set_state(state)
    assert all(same(a, b) for a, b in zip(expected, take(resumed, 3), strict=True))


def test_the_seed_decides_everything_and_threads_nothing(holed, monkeypatch):
    dataset, _ = holed
    first = take(training_batches(dataset, of(dataset), seed=3, batch=3), 4)
    other = take(training_batches(dataset, of(dataset), seed=4, batch=3), 4)
    monkeypatch.setattr("elbowroom.datasets.weather.loader._THREADS", 1)
    again = take(training_batches(dataset, of(dataset), seed=3, batch=3), 4)
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert not all(same(a, b) for a, b in zip(first, other, strict=True))


def test_evaluation_examples_come_once_each_in_order(holed):
    dataset, stored = holed
    examples = list(evaluation_examples(dataset, of(dataset)))
    assert [name for name, _ in examples] == [str(time)[:16] for time in dataset["time"].values[1:8]]
    np.testing.assert_array_equal(examples[6][1]["msl"], stored["msl"].values[6:9])


def test_no_windows_are_refused(holed):
    dataset, _ = holed
    with pytest.raises(ValueError, match="no windows to train on"):
        training_batches(dataset, windows(dataset["time"].values, history=9, leads=(5,)), seed=0, batch=1)


def test_fingerprints_are_equal_for_equal_data_in_any_layout_and_differ_otherwise(fields, write):
    plain = fingerprint(open_weather(write(fields(), "a.nc")))
    assert plain == fingerprint(open_weather(write(fields().isel(latitude=slice(None, None, -1)), "b.zarr")))
    changed = fields()
    changed["q"].values[3, 1, 2] += 1e-3
    others = [fields(seed=1), fields(steps=5), fields(start="2021-01-01"), fields().drop_vars("q"), changed]
    others.append(fields().rename(u="v", v="u"))
    found = [fingerprint(open_weather(write(one, f"{place}.nc"))) for place, one in enumerate(others)]
    assert len({plain, *found}) == 1 + len(others)
