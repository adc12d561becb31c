"""One reading names everything that is wrong, and counts what is missing."""

import numpy as np
import pytest

from elbowroom.datasets.weather.check import check_weather
from elbowroom.datasets.weather.normal import Wanted


def test_a_clean_file_is_described(fields, write):
    report = check_weather(write(fields(), "a.nc"))
    assert report.levels_hpa == (500.0, 850.0)
    assert (report.latitudes, report.longitudes, report.times) == (5, 6, 6)
    assert (report.first_time, report.last_time) == ("2020-01-01T00:00", "2020-01-02T06:00")
    assert (report.step_hours, report.missing_times) == (6.0, 0)
    assert (report.missing, report.defects, report.warnings) == ((), (), ())


def test_every_defect_is_named_and_the_rest_is_still_read(fields, write):
    stored = fields()
    stored["2t"].values = stored["2t"].values - 273.15
    stored["msl"].values = stored["msl"].values / 100
    stored["z"].values = stored["z"].values / 9.80665
    root = write(stored, "a.nc").parent
    write(fields(start="2020-01-02T06").isel(time=[0, 1]), "b.nc")
    write(fields().isel(latitude=[0, 1]), "c.nc")
    (root / "d.nc").write_bytes(b"no weather")
    report = check_weather(root, wanted=Wanted(variables=("2t", "msl", "z", "w"), levels=(500, 600)))
    told = [str(defect).removeprefix(f"{root}/") for defect in report.defects]
    expected = [
        "a.nc coordinate level: level 600 hPa is missing",
        "b.nc coordinate level: level 600 hPa is missing",
        "c.nc coordinate level: level 600 hPa is missing",
        "d.nc: is no readable netcdf",
        "a.nc: variable w is missing",
        "c.nc variable 2t: is on another grid",
        "c.nc variable msl: is on another grid",
        "c.nc variable z: is on another grid",
        "a.nc variable 2t: 2t is degrees Celsius",
        "a.nc variable msl: msl is hPa",
        "a.nc variable z: z is a height in m",
        "b.nc variable 2t: time 2020-01-02T06:00 is there more than once",
        "b.nc variable msl: time",
        "b.nc variable z: time",
    ]
    assert len(told) == len(expected), told
    assert all(text.startswith(start) for text, start in zip(told, expected, strict=True)), told
    assert report.times == 7


def test_one_missing_value_is_counted_with_its_place(fields, write):
    stored = fields()
    stored["t"][3, 1, 2, 4] = np.nan
    stored["2t"][2, 0, 0] = np.inf
    report = check_weather(write(stored, "a.nc"))
    surface, upper = report.missing
    assert (surface.variable, surface.count, surface.of_level) == ("2t", 1, {})
    assert surface.first == "time 2020-01-01T12:00, latitude 90, longitude 0"
    assert (upper.count, upper.of_level) == (1, {500.0: 0, 850.0: 1})
    assert upper.first == "time 2020-01-01T18:00, level 850, latitude 0, longitude 240"
    assert report.defects == ()


@pytest.mark.parametrize("known_by", ["sp", "z_surface", None])
def test_missing_values_below_the_ground_are_told_from_others(fields, write, known_by):
    stored = fields().drop_vars("z_surface")
    mountain = np.zeros((5, 6), np.float32)
    mountain[1, 1:3] = 2000 * 9.80665  # above 850 hPa, which lies at 1,457 m in the standard atmosphere
    for name in ("t", "u"):
        stored[name].values[:, 1, mountain > 0] = np.nan
    stored["t"][0, 0, 1, 1] = np.nan
    if known_by == "sp":
        stored["sp"] = (
            ("time", "latitude", "longitude"),
            np.tile(np.where(mountain > 0, 79500.0, 101000.0), (6, 1, 1)),
        )
    if known_by == "z_surface":
        stored["z_surface"] = (("latitude", "longitude"), mountain)
    wind, temperature = check_weather(write(stored, "a.nc")).missing
    assert temperature.of_level == {500.0: 1, 850.0: 12}
    assert (wind.below_ground, temperature.below_ground) == ((12, 12) if known_by else (None, None))


def test_missing_steps_are_counted_and_shown_once(fields, write):
    report = check_weather(write(fields().isel(time=[0, 1, 4, 5]), "a.nc"))
    assert (report.times, report.step_hours, report.missing_times) == (4, 6.0, 2)
    (warned,) = report.warnings
    assert (warned.kind, warned.count) == ("missing time step, no window crosses it", 2)
    assert warned.first.endswith("a.nc time 2020-01-01T12:00")


def test_times_that_a_variable_lacks_are_left_out_for_all(fields, write):
    root = write(fields()[["2t"]], "a.nc").parent
    write(fields()[["msl"]].isel(time=slice(1, 5)), "b.nc")
    report = check_weather(root)
    assert report.times == 4
    (warned,) = report.warnings
    assert warned.count == 2
    assert warned.first.endswith("b.nc variable msl, time 2020-01-01T00:00")


def test_a_calendar_without_leap_days_is_taken_by_date(fields, write):
    stored = fields(steps=8)
    units = {"units": "hours since 2020-02-28", "calendar": "noleap"}
    report = check_weather(write(stored.assign_coords(time=("time", 6 * np.arange(8), units)), "a.nc"))
    assert report.defects == ()
    assert (report.first_time, report.last_time) == ("2020-02-28T00:00", "2020-03-01T18:00")
    assert report.missing_times == 4


def test_nothing_readable_gives_an_empty_report(tmp_path):
    report = check_weather([tmp_path / "no.nc", tmp_path])
    assert [defect.path for defect in report.defects] == [tmp_path / "no.nc", tmp_path]
    assert (report.variables, report.times, report.first_time, report.step_hours) == ((), 0, "", None)


def test_a_chunk_that_is_damaged_is_a_defect_of_its_variable(fields, write):
    path = write(fields(), "a.zarr")
    for name in ("t", "2t"):
        next(p for p in sorted((path / name / "c").rglob("*")) if p.is_file()).write_bytes(b"damaged")
    report = check_weather(path)
    assert [defect.where for defect in report.defects] == ["variable 2t", "variable t"]
    assert "t" not in report.variables
    assert "u" in report.variables
