"""Files of forecasts are read by the times that they are for, or refused where those are no series."""

import numpy as np
import pytest
import xarray as xr

from elbowroom.datasets.findings import DataError, Findings
from elbowroom.datasets.weather.normal import Wanted, open_weather, read_weather

STARTS = np.datetime64("2020-01-01", "ns") + np.array([0, 12, 24]) * np.timedelta64(1, "h")
LEADS = np.array([6, 12, 18]).astype("timedelta64[h]").astype("timedelta64[ns]")


def forecasts(fields) -> xr.Dataset:
    """Temperature of three leads of three starts; every value differs."""
    one = fields(steps=9)["2t"]
    values = one.values.reshape(3, 3, *one.shape[1:])
    grid = {name: one[name] for name in ("latitude", "longitude")}
    dimensions = ("time", "prediction_timedelta", *grid)
    return xr.Dataset({"2t": (dimensions, values)}, {"time": STARTS, "prediction_timedelta": LEADS, **grid})


@pytest.mark.parametrize("unit", ["hours", "minutes", "days"])
@pytest.mark.parametrize("scalar", [False, True])
def test_one_forecast_is_a_series_over_its_leads(fields, write, unit, scalar):
    chosen = forecasts(fields).isel(time=1 if scalar else [1])
    chosen["prediction_timedelta"].encoding = {"units": unit, "dtype": "float64"}
    series = open_weather(write(chosen, "a.nc"))
    np.testing.assert_array_equal(series["time"].values, STARTS[1] + LEADS)
    np.testing.assert_array_equal(series["2t"].values, forecasts(fields)["2t"].values[1])
    assert any("forecast read by the times that it is for" in change for change in series.attrs["changes"])


@pytest.mark.parametrize("scalar", [False, True])
def test_one_lead_of_several_forecasts_is_a_series_over_their_starts(fields, write, scalar):
    chosen = forecasts(fields).isel(prediction_timedelta=2 if scalar else [2])
    series = open_weather(write(chosen, "a.zarr"))
    np.testing.assert_array_equal(series["time"].values, STARTS + LEADS[2])
    np.testing.assert_array_equal(series["2t"].values, forecasts(fields)["2t"].values[:, 2])


def test_a_single_time_of_a_single_forecast_is_one_time(fields, write):
    chosen = forecasts(fields).isel(time=0, prediction_timedelta=0)
    series = open_weather(write(chosen, "a.nc"))
    np.testing.assert_array_equal(series["time"].values, STARTS[:1] + LEADS[:1])
    np.testing.assert_array_equal(series["2t"].values, forecasts(fields)["2t"].values[:1, 0])


def test_several_leads_of_several_forecasts_are_no_series(fields, write):
    reason = r"a.nc dimension prediction_timedelta: holds 3 leads of 3 forecasts, which are no steps of one series; w"
    with pytest.raises(DataError, match=reason):
        open_weather(write(forecasts(fields), "a.nc"))


def test_leads_without_a_unit_of_time_are_refused(fields, write):
    chosen = forecasts(fields).isel(time=0).assign_coords(prediction_timedelta=[6.0, 12.0, 18.0])
    with pytest.raises(DataError, match=r"coordinate prediction_timedelta: has no unit of time; write units"):
        open_weather(write(chosen, "a.nc"))


def test_a_file_that_says_itself_what_times_it_is_for_is_not_touched(fields, write):
    dataset = fields(steps=3)[["2t"]].rename(time="valid_time")
    dataset = dataset.assign_coords(prediction_timedelta=np.timedelta64(6, "h").astype("timedelta64[ns]"))
    series = open_weather(write(dataset, "a.nc"))
    np.testing.assert_array_equal(series["time"].values, dataset["valid_time"].values)


def test_check_names_what_it_refuses(fields, write):
    findings = Findings(strict=False)
    read_weather(write(forecasts(fields), "a.nc"), findings, Wanted())
    assert "no steps of one series" in str(findings.defects[0])
