"""Statistics equal numpy's on the concatenation of all files."""

import numpy as np
import pytest
import xarray as xr

from elbowroom.datasets.weather import statistics as module
from elbowroom.datasets.weather.normal import open_weather
from elbowroom.datasets.weather.statistics import statistics

CLOSE = {"rtol": 1e-12}
"""float64 on both sides; only the order of sums differs"""


@pytest.fixture
def yearly(fields, write):
    """Three files with a hole between the second and the third, missing values, and what numpy is given."""
    files = [fields(), fields(start="2020-01-02T12", seed=1, steps=5), fields(start="2020-01-04", seed=2, steps=3)]
    files[1]["t"][2, 1, 3, 3] = np.nan
    files[2]["2t"][1] = np.nan
    paths = [write(one, f"{year}.nc") for year, one in enumerate(files)]
    timed = [name for name in files[0].data_vars if "time" in files[0][name].dims]
    return open_weather(paths), xr.concat([one[timed] for one in files], dim="time").astype(np.float64)


@pytest.mark.parametrize("block_bytes", [1, 8 * 2 * 30 * 4, 2**30])
def test_values_equal_numpys_on_the_concatenation(yearly, monkeypatch, block_bytes):
    monkeypatch.setattr(module, "_BLOCK_BYTES", block_bytes)
    dataset, whole = yearly
    found = statistics(dataset)
    for name in whole.data_vars:
        axes = tuple(axis for axis, dimension in enumerate(whole[name].dims) if dimension != "level")
        values = found[name].values
        np.testing.assert_allclose(values.mean, np.atleast_1d(np.nanmean(whole[name], axis=axes)), **CLOSE)
        np.testing.assert_allclose(values.std, np.atleast_1d(np.nanstd(whole[name], axis=axes)), **CLOSE)
        np.testing.assert_array_equal(values.count, np.atleast_1d(np.isfinite(whole[name].values).sum(axis=axes)))


@pytest.mark.parametrize("block_bytes", [1, 8 * 2 * 30 * 4, 2**30])
def test_changes_are_over_the_lead_and_never_across_a_hole(yearly, monkeypatch, block_bytes):
    monkeypatch.setattr(module, "_BLOCK_BYTES", block_bytes)
    dataset, whole = yearly
    found, step = statistics(dataset, leads=(1, 3)), np.timedelta64(6, "h")
    times = whole["time"].values
    for name in whole.data_vars:
        axes = tuple(axis for axis, dimension in enumerate(whole[name].dims) if dimension != "level")
        for lead, changes in found[name].changes.items():
            pairs = [(i, i + lead) for i in range(len(times) - lead) if times[i + lead] - times[i] == lead * step]
            assert 0 < len(pairs) < len(times) - lead
            steps = np.stack([whole[name].values[later] - whole[name].values[now] for now, later in pairs])
            # A mean near zero is a small difference of large sums: it is compared at the size of what was summed.
            size = np.nanmax(np.abs(steps))
            mean, std = (np.atleast_1d(of(steps, axis=axes)) for of in (np.nanmean, np.nanstd))
            np.testing.assert_allclose(changes.mean, mean, atol=1e-13 * size, **CLOSE)
            np.testing.assert_allclose(changes.std, std, **CLOSE)


def test_static_variables_have_values_and_no_changes(yearly):
    dataset, _ = yearly
    found = statistics(dataset)["z_surface"]
    np.testing.assert_allclose(found.values.mean, [dataset["z_surface"].values.astype(np.float64).mean()], **CLOSE)
    assert found.changes == {}


def test_a_variable_without_valid_values_has_none(fields, write):
    stored = fields()[["2t", "msl"]]
    stored["2t"][:] = np.nan
    found = statistics(open_weather(write(stored, "a.nc")))["2t"]
    assert found.values.count.tolist() == [0]
    assert np.isnan([found.values.mean, found.values.std, found.changes[1].mean]).all()


def test_a_single_time_has_no_changes(fields, write):
    found = statistics(open_weather(write(fields(steps=1), "a.nc")))["t"]
    assert found.values.count.tolist() == [30, 30]
    assert found.changes[1].count.tolist() == [0, 0]
