"""What is usual: means at each hour of the day, and stored climatologies, on the grid of the data."""

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.weather.climatology import mean_by_hour, open_climatology

NAMES = ["2t", "t"]
LONG_NAMES = {"2t": "2m_temperature", "t": "temperature"}


type Build = Callable[..., xr.Dataset]


def hour(time: str) -> np.datetime64:
    return np.datetime64(time, "ns")


def stored(fields: Build, *, days: int = 366) -> xr.Dataset:
    """As WeatherBench 2 stores it, in which every value says its hour, day, level and place."""
    like = fields(steps=1)
    shape = {"hour": 4, "dayofyear": days, **{name: like.sizes[name] for name in ("level", "latitude", "longitude")}}
    places = dict(zip(shape, np.indices(tuple(shape.values())), strict=True))
    values = sum(places[name] * factor for name, factor in zip(shape, (1e-1, 1e-1, 2, 1e-2, 1e-3), strict=True))
    grid = ("hour", "dayofyear", "latitude", "longitude")
    return xr.Dataset(
        {
            LONG_NAMES["t"]: (tuple(shape), 250 + values, {"units": "K"}),
            LONG_NAMES["2t"]: (grid, 270 + values[:, :, 0], {"units": "K"}),
        },
        {
            "hour": [0, 6, 12, 18],
            "dayofyear": np.arange(1, days + 1),
            **{name: like[name].values for name in ("level", "latitude", "longitude")},
        },
    )


@pytest.mark.parametrize("start", ["2020-02-27T06", "1969-12-30T12", "1850-12-31T18"])
def test_the_mean_at_each_hour_of_the_day_is_what_xarray_groups(fields, start):
    series = fields(steps=11, start=start)
    climatology = mean_by_hour(series, NAMES, "made up")
    grouped = series[NAMES].astype(np.float64).groupby("time.hour").mean()
    for time in series["time"].values:
        usual = climatology.at(time)
        for name in NAMES:
            want = grouped[name].sel(hour=xr.DataArray(time).dt.hour.item())
            np.testing.assert_allclose(usual[name], want, rtol=1e-7)
    assert climatology.meaning == "mean of the 11 times of made up at that hour of the day, of any season"


def test_a_missing_value_drops_out_of_its_mean_and_a_point_never_known_has_none(fields):
    series = fields(steps=9)
    series["t"][0, 1, 2, 3] = np.nan
    series["2t"][:, 4, 5] = np.nan
    usual = mean_by_hour(series, NAMES, "made up").at(hour("2031-07-01T00"))
    np.testing.assert_allclose(usual["t"][1, 2, 3], series["t"][[4, 8], 1, 2, 3].mean(), rtol=1e-6)
    assert np.argwhere(np.isnan(usual["2t"])).tolist() == [[4, 5]]
    assert np.isfinite(usual["t"]).all()


def test_an_hour_that_the_series_lacks_is_refused(fields):
    series = fields(steps=9).isel(time=slice(None, None, 2))
    climatology = mean_by_hour(series, NAMES, "twice_daily.nc")
    with pytest.raises(DataError, match=r"twice_daily.nc: has no time at hour 6 of the day; there are 0, 12; give"):
        climatology.at(hour("2020-01-01T06"))


def test_a_series_in_a_file_is_brought_to_normal_form_before_its_mean(fields, write):
    """Upside down, and with a level more."""
    data, series = fields(), fields(steps=8, seed=1)
    further = series["t"].isel(level=[0]).assign_coords(level=[300.0])
    path = write(series.assign(t=xr.concat([further, series["t"]], "level")).drop_vars(["z", "u", "v", "q"]), "a.nc")
    write(xr.open_dataset(path).isel(latitude=slice(None, None, -1)), "b.nc")
    found = open_climatology(path.with_name("b.nc"), data, NAMES).at(hour("1999-05-05T12"))
    np.testing.assert_allclose(found["t"], series["t"].isel(time=[2, 6]).mean("time"), rtol=1e-6)


@pytest.mark.parametrize("name", ["climatology.nc", "climatology.zarr"])
@pytest.mark.parametrize(
    ("time", "place"), [("2020-12-31T18:00", (3, 365)), ("2021-12-31T00", (0, 364)), ("1960-02-29T06", (1, 59))]
)
def test_a_stored_climatology_gives_its_day_of_the_year_and_hour(fields, write, name, time, place):
    usual = open_climatology(write(stored(fields), name), fields(), NAMES).at(hour(time))
    for short, long in LONG_NAMES.items():
        np.testing.assert_allclose(usual[short], stored(fields)[long].values[place], rtol=1e-12)


def test_a_stored_climatology_comes_to_the_order_and_levels_of_the_data(fields, write):
    data = fields().sel(level=[850.0])
    turned = stored(fields).isel(latitude=slice(None, None, -1), level=slice(None, None, -1))
    turned = turned.transpose("latitude", "hour", "level", "longitude", "dayofyear")
    usual = open_climatology(write(turned, "a.nc"), data, NAMES).at(hour("2020-01-03T12"))
    np.testing.assert_allclose(usual["t"], stored(fields)["temperature"].values[2, 2, 1:], rtol=1e-12)
    np.testing.assert_allclose(usual["2t"], stored(fields)["2m_temperature"].values[2, 2], rtol=1e-12)


def test_a_climatology_without_the_leap_day_is_refused_on_the_last_day_of_a_leap_year(fields, write):
    usual = open_climatology(write(stored(fields, days=365), "a.nc"), fields(), NAMES)
    with pytest.raises(DataError, match=r"a.nc coordinate dayofyear: has no dayofyear 366; there are 1 to 365; give"):
        usual.at(hour("2020-12-31T00"))


@pytest.mark.parametrize("make", [stored, None])
def test_a_climatology_on_another_grid_or_without_a_variable_is_refused(fields, write, make):
    made = fields() if make is None else make(fields, days=2)
    coarser = write(made.isel(longitude=slice(None, None, 2)), "coarse.nc")
    reason = r"coarse.nc coordinate longitude: is not that of the data: 3 values from 0, not 6 from 0; interpolate"
    with pytest.raises(DataError, match=reason):
        open_climatology(coarser, fields(), NAMES)
    few = write(made.drop_vars([name for name in ("t", "temperature") if name in made]), "few.nc")
    with pytest.raises(DataError, match=r"few.nc: variable t is missing"):
        open_climatology(few, fields(), NAMES)


def test_a_stored_climatology_in_another_unit_is_refused(fields, write):
    celsius = stored(fields, days=2)
    celsius["2m_temperature"] = (celsius["2m_temperature"] - 273.15).assign_attrs(units="degC")
    with pytest.raises(DataError, match=r"2t is degrees Celsius instead of K"):
        open_climatology(write(celsius, "a.nc"), fields(), NAMES)
