"""Files that cannot be read as weather, or not as one series, are refused in one line that says what to do."""

import os

import numpy as np
import pytest
import xarray as xr

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.weather.normal import Wanted, open_weather


def refusal(*paths, wanted=None) -> str:
    with pytest.raises(DataError, match=r"^[^\n]+; [^\n]+$") as caught:
        open_weather(paths[0] if len(paths) == 1 else list(paths), wanted=wanted)
    return str(caught.value)


def test_a_path_that_does_not_exist(tmp_path):
    assert refusal(tmp_path / "no.nc") == f"{tmp_path}/no.nc: does not exist; check the path"


def test_an_empty_file_and_one_of_no_known_kind(tmp_path):
    for name, reason in (("a.nc", "the file is empty"), ("a.txt", "is of no known kind (.zarr, .nc, ")):
        (tmp_path / name).touch()
        assert f"{name}: {reason}" in refusal(tmp_path / name)


@pytest.mark.parametrize("name", ["a.nc", "a.npz"])
def test_a_file_that_is_not_what_it_is_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"not what it says\n" * 50)
    assert f"{name}: is no readable {'netcdf' if name == 'a.nc' else 'packed npz'} (" in refusal(tmp_path / name)


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_truncated_netcdf_file(fields, write, share):
    path = write(fields(), "a.nc")
    os.truncate(path, int(path.stat().st_size * share))
    assert "a.nc: is no readable netcdf (" in refusal(path)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("layout", ["NETCDF3_CLASSIC", "NETCDF3_64BIT"])
def test_a_truncated_netcdf_file_of_the_classic_kind(fields, tmp_path, layout, share):
    """Its coordinates may be whole; then the library would give zeros for the fields that are gone."""
    dataset = fields()[["level", "latitude", "longitude", "time", "z"]].astype({"z": np.float64})
    path = tmp_path / "a.nc"
    dataset.to_netcdf(path, engine="scipy", format=layout)
    assert open_weather(path).sizes["time"] == dataset.sizes["time"]
    os.truncate(path, int(path.stat().st_size * share))
    assert "a.nc: is no readable netcdf (OSError: it is shorter than its header says)" in refusal(path)


def test_a_truncated_packed_file(tmp_path):
    np.savez(tmp_path / "a.npz", t=np.zeros((2, 2), np.uint16))
    os.truncate(tmp_path / "a.npz", 100)
    assert "a.npz: is no readable packed npz (" in refusal(tmp_path / "a.npz")


def test_a_packed_file_of_something_else(tmp_path):
    np.savez(tmp_path / "a.npz", t=np.zeros((2, 2), np.uint16))
    assert "is no readable packed npz (" in refusal(tmp_path / "a.npz")


def test_a_chunk_that_is_damaged_is_named_with_its_variable(fields, write):
    path = write(fields(), "a.zarr")
    chunk = next(p for p in sorted((path / "t" / "c").rglob("*")) if p.is_file())
    chunk.write_bytes(b"damaged")
    assert f"{path} variable t: cannot be read (" in refusal(path)


def test_folders_without_zarr_metadata(tmp_path):
    (tmp_path / "a.zarr" / "t").mkdir(parents=True)
    assert "a.zarr: has no zarr metadata (zarr.json, .zmetadata, .zgroup); copy the whole" in refusal(
        tmp_path / "a.zarr"
    )
    assert "t: holds neither zarr metadata (zarr.json, " in refusal(tmp_path / "a.zarr" / "t")


def test_a_file_without_time_steps_and_one_whose_time_says_no_date(fields, write):
    empty = write(fields().isel(time=slice(0, 0)), "a.nc")
    assert "a.nc coordinate time: has no time steps" in refusal(empty)
    plain = write(fields().assign_coords(time=np.arange(6)), "b.nc")
    assert "b.nc coordinate time: has no units that say since when" in refusal(plain)


def test_a_file_without_anything_that_changes(fields, write):
    path = write(fields()[["lsm"]], "a.nc")
    assert "a.nc coordinate time: no variable changes with time" in refusal(path)


def test_a_file_without_weather(write):
    assert "a.nc coordinate latitude: is not there" in refusal(write(xr.Dataset({"x": ("x", [1, 2])}), "a.nc"))


def test_a_file_of_coordinates_alone_and_no_file(fields, write):
    path = write(
        fields()[["2t"]].rename({"2t": "x"}).isel(longitude=0, drop=True).assign_coords(longitude=[0.0]), "a.nc"
    )
    assert "a.nc: holds no field over latitude and longitude" in refusal(path)
    with pytest.raises(ValueError, match="no file of weather given"):
        open_weather([])


def test_a_grid_that_is_not_regular(fields, write):
    stored = fields().rename(latitude="y", longitude="x").reset_index(["y", "x"]).reset_coords(drop=True)
    latitude, longitude = np.meshgrid(np.arange(5.0), np.arange(6.0), indexing="ij")
    stored = stored.assign_coords(lat=(("y", "x"), latitude), lon=(("y", "x"), longitude))
    stored = stored.assign_coords(time=fields()["time"])
    assert "coordinate latitude: has 2 dimensions; interpolate to a regular grid" in refusal(write(stored, "a.nc"))


@pytest.mark.parametrize(
    ("dimension", "values", "reason"),
    [
        ("latitude", [90.0, 45.0, 0.0, 0.0, -90.0], "coordinate latitude: holds 0 twice"),
        ("latitude", [99.0, 45.0, 0.0, -45.0, -90.0], "coordinate latitude: holds 99; give degrees from -90 to 90"),
        ("longitude", [0.0, 60.0, 120.0, 180.0, 240.0, 3000.0], "coordinate longitude: holds 3000; give degrees"),
        ("level", [500.0, 500.0], "coordinate level: holds 500 twice"),
        ("level", [0.0, 500.0], "coordinate level: holds a level that is not above 0"),
    ],
)
def test_coordinates_that_make_no_grid(fields, write, dimension, values, reason):
    assert reason in refusal(write(fields().assign_coords({dimension: values}), "a.nc"))


def test_a_time_that_is_there_twice_in_one_file_or_in_two(fields, write):
    one = write(fields().isel(time=[0, 1, 1, 2]), "a.nc")
    assert "a.nc variable 2t: time 2020-01-01T06:00 is there more than once; keep one of each" in refusal(one)
    first, second = write(fields(), "b.nc"), write(fields(start="2020-01-02T06:00"), "c.nc")
    assert f"is there more than once (in {first}, {second})" in refusal(first, second)


def calendar(dataset: xr.Dataset, name: str, unit: str = "hours since 2020-02-28") -> xr.Dataset:
    times = ("time", 6 * np.arange(dataset.sizes["time"]), {"units": unit, "calendar": name})
    return dataset.assign_coords(time=times)


def test_files_in_two_calendars(fields, write):
    first = write(fields(), "a.nc")
    second = write(calendar(fields(), "noleap"), "b.nc")
    assert f"b.nc coordinate time: is in calendar noleap, but {first} is in standard" in refusal(first, second)


def test_a_day_that_the_standard_calendar_lacks(fields, write):
    path = write(calendar(fields(steps=12), "360_day"), "a.nc")
    assert "calendar 360_day has 2020-02-30 00:00:00 and 3 more, which the standard calendar lacks" in refusal(path)


def test_files_on_two_grids_or_on_two_sets_of_levels(fields, write):
    first = write(fields(), "a.nc")
    coarse = write(fields(start="2020-02-01").isel(latitude=[0, 2, 4]), "b.nc")
    assert f"b.nc variable 2t: is on another grid than 2t of {first}" in refusal(first, coarse)
    fewer = write(fields(start="2020-02-01").isel(level=[0]), "c.nc")
    assert f"c.nc variable z: has levels 500, but {first} has 500, 850" in refusal(first, fewer)


def test_a_variable_on_levels_in_one_file_and_on_none_in_another(fields, write):
    first = write(fields()[["t"]], "a.nc")
    second = write(fields(start="2020-02-01")[["t"]].isel(level=0, drop=True), "b.nc")
    told = refusal(first, second)
    assert f"b.nc variable t: has dimensions time, latitude, longitude, but in {first} time, level, latitude" in told


def test_files_that_share_no_time(fields, write):
    first = write(fields()[["2t"]], "a.nc")
    second = write(fields(start="2021-01-01")[["msl"]], "b.nc")
    assert "coordinate time: no time is in every variable" in refusal(first, second)


def test_two_variables_of_one_name(fields, write):
    assert "variable t2m: 2t and t2m are both 2t; keep one" in refusal(
        write(fields().assign(t2m=fields()["2t"]), "a.nc")
    )


UNITS = {
    "2t in Celsius": ("2t", lambda v: v - 273.15, "2t is degrees Celsius instead of K; add 273.15"),
    "t in Celsius": ("t", lambda v: v - 273.15, "t is degrees Celsius instead of K; add 273.15"),
    "msl in hPa": ("msl", lambda v: v / 100, "msl is hPa instead of Pa; multiply by 100"),
    "height": (
        "z",
        lambda v: v / 9.80665,
        "z is a height in m instead of geopotential in m^2/s^2; multiply by 9.80665",
    ),
    "grams": ("q", lambda v: v * 1000, "q is g/kg instead of kg/kg; multiply by 0.001"),
}


@pytest.mark.parametrize(("name", "change", "told"), UNITS.values(), ids=UNITS)
def test_wrong_units_are_refused_with_their_factor_or_fixed_on_demand(fields, write, name, change, told):
    stored = fields()
    stored[name].values = change(stored[name].values)
    path = write(stored, "a.nc")
    assert refusal(path) == f"{path} variable {name}: {told}, or read it with fix"
    fixed = open_weather(path, wanted=Wanted(fix=True))
    np.testing.assert_allclose(fixed[name].values, fields()[name].values, rtol=1e-6)
    assert [change for change in fixed.attrs["changes"] if change.endswith(f"{told.split('; ')[1]}: done")]
    assert fixed[name].attrs.get("units") != stored[name].attrs.get("units", "none given") or name != "2t"


def test_a_wrong_unit_in_one_of_several_files_is_fixed_there_alone(fields, write):
    second = fields(start="2020-01-02T12", seed=1)
    stored = second.copy(deep=True)
    stored["2t"].values = stored["2t"].values - 273.15
    paths = [write(fields(), "a.nc"), write(stored, "b.nc")]
    assert "b.nc variable 2t: 2t is degrees Celsius" in refusal(*paths)
    fixed = open_weather(paths, wanted=Wanted(fix=True))["2t"].values
    np.testing.assert_allclose(fixed, np.concatenate([fields()["2t"], second["2t"]]), rtol=1e-6)


def relative_humidity(dataset: xr.Dataset) -> np.ndarray:
    """In percent over water, by Bolton 1980, in float64."""
    celsius = dataset["t"].values.astype(np.float64) - 273.15
    saturated = 6.112 * np.exp(17.67 * celsius / (celsius + 243.5))
    q = dataset["q"].values.astype(np.float64)
    vapour = q * dataset["level"].values[None, :, None, None] / (0.622 + 0.378 * q)
    return 100 * vapour / saturated


@pytest.mark.parametrize("name", ["q", "r", "relative_humidity"])
@pytest.mark.parametrize("unit", ["percent", "share"])
def test_relative_humidity_is_refused_or_made_specific_on_demand(fields, write, name, unit):
    wet = np.random.default_rng(0).uniform(5.0, 99.0, fields()["q"].shape)
    stored = fields().drop_vars("q").assign({name: (fields()["q"].dims, wet / (100 if unit == "share" else 1))})
    path = write(stored, "a.nc")
    told = refusal(path)
    assert f"variable {name}: q is relative humidity" in told
    assert "times the specific humidity of saturation at t and level" in told
    got = open_weather(path, wanted=Wanted(fix=True))
    assert got["q"].dims == ("time", "level", "latitude", "longitude")
    np.testing.assert_allclose(relative_humidity(got), wet, rtol=1e-6)
    chosen = {"time": slice(1, 3), "level": 1, "latitude": [0, 4]}
    alone = open_weather(path, wanted=Wanted(variables=("q",), fix=True))
    assert list(alone.data_vars) == ["q"]
    np.testing.assert_array_equal(alone["q"].isel(chosen).values, got["q"].values[1:3, 1][:, [0, 4]])


def test_relative_humidity_without_temperature_stays_refused(fields, write):
    stored = fields()[["z"]].assign(q=(fields()["q"].dims, relative_humidity(fields())))
    assert "or read it with fix (which needs t)" in refusal(write(stored, "a.nc"), wanted=Wanted(fix=True))


def test_units_that_the_file_states_decide_where_values_cannot(fields, write):
    stored = fields().isel(level=[1]).assign_coords(level=[1000.0])
    for units, wrong in (("m", True), ("m**2 s**-2", False)):
        stored["z"].attrs["units"] = units
        path = write(stored, f"{wrong}.nc")
        assert ("z is a height" in refusal(path)) if wrong else open_weather(path)["z"].shape == (6, 1, 5, 6)
