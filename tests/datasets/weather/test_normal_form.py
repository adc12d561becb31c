"""Files of every layout become the same dataset, and each change is said."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from elbowroom.datasets.findings import DataError, Findings
from elbowroom.datasets.weather.normal import Wanted, open_weather

WEATHERBENCH = {
    "2t": "2m_temperature",
    "10u": "10m_u_component_of_wind",
    "10v": "10m_v_component_of_wind",
    "msl": "mean_sea_level_pressure",
    "z": "geopotential",
    "u": "u_component_of_wind",
    "v": "v_component_of_wind",
    "t": "temperature",
    "q": "specific_humidity",
    "z_surface": "geopotential_at_surface",
    "lsm": "land_sea_mask",
}
STORE = {"2t": "t2m", "10u": "u10", "10v": "v10", "time": "valid_time", "level": "pressure_level"}


def same(got: xr.Dataset, want: xr.Dataset) -> bool:
    return set(got.data_vars) == set(want.data_vars) and all(
        got[name].dims == want[name].dims and np.array_equal(got[name].values, want[name].values, equal_nan=True)
        for name in [*want.data_vars, *want.coords]
    )


def test_a_file_in_normal_form_is_read_as_it_is(fields, write):
    got = open_weather(write(fields(), "a.nc"))
    assert same(got, fields())
    assert got.attrs["changes"] == []
    assert got["time"].dtype == "datetime64[ns]"


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_weatherbench_names_and_its_longitude_before_latitude(fields, write, name):
    stored = fields().rename(WEATHERBENCH).transpose("time", "level", "longitude", "latitude", missing_dims="ignore")
    got = open_weather(write(stored, name))
    assert same(got, fields())
    assert got.attrs["changes"] == ["dimensions reordered to time, level, latitude, longitude"]


def test_the_older_zarr_format_with_consolidated_metadata_is_read(fields, tmp_path):
    fields().to_zarr(tmp_path / "a.zarr", zarr_format=2, consolidated=True)
    assert same(open_weather(tmp_path / "a.zarr"), fields())


def test_graphcast_files_with_a_batch_and_times_relative_to_a_date(fields, write):
    stored = fields().drop_vars(["z_surface", "lsm"])
    times = stored["time"].values
    stored = stored.assign_coords(time=times - times[0], datetime=(("batch", "time"), times[None]))
    stored = stored.rename({**{k: v for k, v in WEATHERBENCH.items() if k in stored}, "latitude": "lat"})
    stored = stored.rename(longitude="lon").isel(lat=slice(None, None, -1))
    for name in stored.data_vars:
        stored[name] = stored[name].expand_dims("batch")
    got = open_weather(write(stored, "a.nc"))
    assert same(got, fields().drop_vars(["z_surface", "lsm"]))


def test_the_real_layout_of_one_time_as_a_scalar_before_longitude_and_latitude(fields, write):
    stored = fields(steps=1)[["z", "t"]].isel(time=0, latitude=slice(None, None, -1)).rename(z="geopotential")
    got = open_weather(write(stored.transpose("level", "longitude", "latitude"), "a.nc"))
    assert same(got, fields(steps=1)[["z", "t"]])
    assert "latitude reversed to run from north to south" in got.attrs["changes"]


def test_latitudes_that_ascend_are_reversed_and_it_is_said(fields, write):
    got = open_weather(write(fields().isel(latitude=slice(None, None, -1)), "a.nc"))
    assert same(got, fields())
    assert got.attrs["changes"] == ["latitude reversed to run from north to south"]


def test_longitudes_from_minus_180_are_moved_and_it_is_said(fields, write):
    moved = fields().roll(longitude=3, roll_coords=True)
    moved = moved.assign_coords(longitude=(moved["longitude"].values + 180) % 360 - 180)
    assert moved["longitude"].values.tolist() == [-180, -120, -60, 0, 60, 120]
    got = open_weather(write(moved, "a.nc"))
    assert same(got, fields())
    assert got.attrs["changes"] == ["longitudes -180..180 moved to 0..360"]


def test_longitude_360_that_repeats_0_is_dropped_and_it_is_said(fields, write):
    twice = fields().pad(longitude=(0, 1), mode="wrap").assign_coords(longitude=np.arange(0.0, 361.0, 60.0))
    got = open_weather(write(twice, "a.nc"))
    assert same(got, fields())
    assert got.attrs["changes"] == ["longitude 360 repeats 0: dropped"]


def test_both_ends_of_minus_180_to_180_are_one_meridian(fields, write):
    moved = fields().roll(longitude=3, roll_coords=True).pad(longitude=(0, 1), mode="wrap")
    got = open_weather(write(moved.assign_coords(longitude=np.arange(-180.0, 181.0, 60.0)), "a.nc"))
    assert same(got, fields())
    assert got.attrs["changes"] == ["longitude 180 repeats -180: dropped", "longitudes -180..180 moved to 0..360"]


def test_levels_that_descend_are_reordered_and_it_is_said(fields, write):
    got = open_weather(write(fields().isel(level=slice(None, None, -1)), "a.nc"))
    assert same(got, fields())
    assert got.attrs["changes"] == ["levels reordered to run from low to high pressure"]


@pytest.mark.parametrize("units", ["Pa", ""])
def test_levels_in_pascal_are_converted_and_it_is_said(fields, write, units):
    stored = fields().assign_coords(level=("level", fields()["level"].values * 100, {"units": units} if units else {}))
    got = open_weather(write(stored, "a.nc"))
    assert same(got, fields())
    assert got.attrs["changes"] == ["levels in Pa divided by 100"]


def test_a_missing_level_is_refused_by_name(fields, write):
    with pytest.raises(DataError, match=r"a\.nc coordinate level: level 300, 700 hPa is missing; there are 500, 850; "):
        open_weather(write(fields(), "a.nc"), wanted=Wanted(levels=(300, 500, 700)))


def test_only_wanted_variables_and_levels_are_kept(fields, write):
    got = open_weather(write(fields(), "a.nc"), wanted=Wanted(variables=("t", "2t"), levels=(850,)))
    assert same(got, fields()[["t", "2t"]].sel(level=[850]))


def test_a_missing_variable_is_refused_by_name(fields, write):
    with pytest.raises(DataError, match=r"a\.nc: variable slt, w is missing; there are 10u, 10v, 2t, lsm, msl, q, t"):
        open_weather(write(fields(), "a.nc"), wanted=Wanted(variables=("slt", "2t", "w")))


def test_names_of_the_climate_data_store_and_its_coordinates_are_accepted(fields, write):
    stored = fields().rename(STORE).isel(pressure_level=slice(None, None, -1))
    stored = stored.assign_coords(expver=("valid_time", ["0001"] * 6), number=0)
    assert same(open_weather(write(stored, "a.nc")), fields())


def test_preliminary_data_fill_final_ones_where_these_are_missing(fields, write):
    final, preliminary = fields(), fields()
    for name in ("t", "2t"):
        final[name][4:], preliminary[name][:4] = np.nan, np.nan
    stored = xr.concat([final[["t", "2t"]], preliminary[["t", "2t"]]], dim=xr.DataArray([1, 5], dims="expver"))
    stored = stored.transpose("time", "expver", ...).assign_coords(expver=[1, 5])
    assert same(open_weather(write(stored, "a.nc")), fields()[["t", "2t"]])


def test_one_member_of_an_ensemble_is_read_and_it_is_said(fields, write):
    members = xr.concat([fields(seed=0), fields(seed=1)], dim="number", data_vars="all").assign_coords(number=[0, 1])
    path = write(members, "a.nc")
    assert same(open_weather(path), fields(seed=0))
    got = open_weather(path, wanted=Wanted(member=1))
    assert same(got, fields(seed=1))
    assert got.attrs["changes"][0] == "member 1 of the 2 along number is read"
    with pytest.raises(
        DataError, match="dimension number: has 2 members, but member 2 is asked for; choose from 0 to 1"
    ):
        open_weather(path, wanted=Wanted(member=2))


def test_forecasts_of_several_lead_times_are_refused(fields, write):
    stored = fields()[["2t"]].expand_dims(step=2)
    with pytest.raises(DataError, match="dimension step: has 2 places, which are no steps of one series"):
        open_weather(write(stored, "a.nc"))


def test_static_variables_with_time_lose_it_and_surface_geopotential_is_told_from_geopotential(fields, write):
    stored = fields()[["2t", "lsm", "z_surface"]].rename(z_surface="z")
    for name in ("lsm", "z"):
        stored[name] = stored[name].expand_dims(time=stored["time"])
    got = open_weather(write(stored, "a.nc"))
    assert same(got, fields()[["2t", "lsm", "z_surface"]])
    assert got.attrs["changes"] == ["static variable with time: its first step is read"]


def test_surface_and_pressure_level_files_are_joined(fields, write):
    surface = write(fields().drop_dims("level"), "surface.nc")
    upper = write(fields()[["z", "u", "v", "t", "q"]], "upper.zarr")
    assert same(open_weather([surface, upper]), fields())
    assert same(open_weather(surface.parent), fields())


def test_yearly_files_are_joined_in_the_order_of_their_times(fields, write):
    first, second = fields(), fields(start="2020-01-02T12", seed=1)
    write(second.isel(latitude=slice(None, None, -1)), "a.nc")
    got = open_weather(write(first, "b.nc").parent)
    timed = [name for name in first.data_vars if "time" in first[name].dims]
    assert same(got[timed], xr.concat([first[timed], second[timed]], dim="time"))
    chosen = {"time": [7, 1, 2], "longitude": slice(1, 4), "latitude": -1}
    np.testing.assert_array_equal(
        got["t"].isel(chosen).values, xr.concat([first["t"], second["t"]], dim="time").isel(chosen).values
    )


def test_packed_integers_are_unpacked(fields, tmp_path):
    packing = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32767}
    holed = fields()[["2t"]]
    holed["2t"][1, 2, 3] = np.nan
    holed.to_netcdf(tmp_path / "a.nc", engine="netcdf4", encoding={"2t": packing})
    got = open_weather(tmp_path / "a.nc")["2t"].values
    np.testing.assert_allclose(got, holed["2t"].values, atol=0.00501)
    assert np.isnan(got).sum() == 1


def test_nothing_but_one_step_of_each_variable_is_read_before_it_is_indexed(fields, write, monkeypatch):
    path = write(fields(), "a.nc")
    read = []
    values = xr.Variable.values.fget
    monkeypatch.setattr(xr.Variable, "values", property(lambda v: read.append(v.shape) or values(v)))
    open_weather(path)
    assert max(shape[0] for shape in read if len(shape) > 2) == 1


def test_other_variables_keep_their_names_and_unknown_dimensions_are_left_out(fields, write):
    stored = fields()[["2t"]].assign(swvl1=fields()["2t"], soil=fields()["2t"].expand_dims(depth=2))
    findings = Findings(strict=True)
    got = open_weather(write(stored, "a.nc"), findings)
    assert list(got.data_vars) == ["2t", "swvl1"]
    (warned,) = findings.warnings
    assert str(warned).startswith("1 x variable with unknown dimension depth, left out (first: ")


def packed(values: np.ndarray, scale: float, offset: float) -> np.ndarray:
    stored = np.round((values - offset) / scale).astype(np.uint16)
    stored[0, 0] = 65535
    return stored


def test_simulated_fields_on_sigma_levels_are_labelled(tmp_path):
    random = np.random.default_rng(0)
    t = 250 + 40 * random.random((3, 2, 4, 2))
    np.savez(
        tmp_path / "run.npz",
        t=packed(t, 0.001, 245.0),
        t_scale=0.001,
        t_offset=245.0,
        ps=packed(90000 + 9000 * t[:, 0] / 290, 0.2, 90000.0),
        ps_scale=0.2,
        ps_offset=90000.0,
        lon=np.arange(4) * 90.0,
        lat=np.array([-40.0, 40.0]),
        sigma=np.array([0.8, 0.3], np.float32),
        step_hours=12,
    )
    got = open_weather(tmp_path / "run.npz")
    assert got.attrs["simulated"]
    assert "sigma levels multiplied by 1000 to stand for hPa" in got.attrs["changes"]
    np.testing.assert_allclose(got["level"], [300, 800], rtol=1e-6)
    assert np.diff(got["time"].values).tolist() == [12 * 3600 * 10**9] * 2
    expected = t[:, ::-1].transpose(0, 1, 3, 2)[:, :, ::-1]
    np.testing.assert_allclose(got["t"].values[1:], expected[1:], atol=0.00051)
    assert np.isnan(got["t"].values[0, 1]).all()
    assert set(got.data_vars) == {"t", "sp"}


def test_packed_real_fields_name_their_dimensions(tmp_path):
    z = np.full((2, 3, 1, 2, 4), 500, np.uint16)
    z[1] = 600
    coordinates = {
        "number": np.arange(2),
        "time": 1483228800 + 43200 * np.arange(3),
        "isobaricInhPa": np.array([500.0]),
        "latitude": np.array([10.0, -10.0]),
        "longitude": np.arange(4) * 90.0,
    }
    named = {f"coord_{name}": values for name, values in coordinates.items()}
    np.savez(tmp_path / "real.npz", z=z, z_scale=10.0, z_offset=49000.0, dims=list(coordinates), **named)
    got = open_weather(tmp_path / "real.npz", wanted=Wanted(member=1))
    assert not got.attrs["simulated"]
    assert (got["z"].values == 55000).all()
    assert str(got["time"].values[1]).startswith("2017-01-01T12:00")


def test_grib_without_its_reader_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.grib").write_bytes(b"GRIB")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"is GRIB, which needs cfgrib; run pip install 'elbowroom\[grib\]'"):
        open_weather(tmp_path / "a.grib")


def write_grib(path: Path, values: dict[tuple[str, int], float]) -> None:
    """Messages of two times for each variable and level; level 0 is the ground."""
    eccodes = pytest.importorskip("eccodes", reason="needs the extra grib")
    with path.open("wb") as file:
        for (name, level), value in values.items():
            for later in (0, 1):
                message = eccodes.codes_grib_new_from_samples(f"regular_ll_{'pl' if level else 'sfc'}_grib2")
                keys = {"dataDate": 20200101, "dataTime": 600 * later, "shortName": name}
                for key, setting in (keys | ({"level": level} if level else {})).items():
                    eccodes.codes_set(message, key, setting)
                eccodes.codes_set_values(message, np.full(16 * 31, value + later))
                eccodes.codes_write(message, file)
                eccodes.codes_release(message)


@pytest.mark.filterwarnings("ignore")  # cfgrib's own
def test_grib_files_of_several_kinds_of_level_are_read(tmp_path):
    path = tmp_path / "a.grib2"
    write_grib(path, {("t", 850): 280.0, ("t", 500): 255.0, ("2t", 0): 285.0, ("msl", 0): 101000.0})
    got = open_weather(path)
    assert got["level"].values.tolist() == [500, 850]
    assert got["t"].values[:, :, 0, 0].tolist() == [[255, 280], [256, 281]]
    assert got["2t"].values[:, 3, 4].tolist() == [285, 286]
    assert got["msl"].values[:, 3, 4].tolist() == [101000, 101001]
    assert str(got["time"].values[1]).startswith("2020-01-01T06")


@pytest.mark.filterwarnings("ignore")  # cfgrib's own
def test_a_damaged_grib_message_is_not_left_out(tmp_path):
    path = tmp_path / "a.grib2"
    write_grib(path, {("t", 850): 280.0})
    path.write_bytes(path.read_bytes() + b"GRIBxxxx" * 20)
    with pytest.raises(DataError, match=r"a\.grib2: is no readable grib \("):
        open_weather(path)
