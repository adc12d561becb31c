"""The variables' short names, what other archives call them, and what their dimensions are called."""

from typing import Final

SURFACE: Final = ("2t", "10u", "10v", "msl")
"""K, m/s, m/s, Pa"""
STATIC: Final = ("lsm", "z_surface", "slt")
"""Share of land; geopotential of the ground, m^2/s^2; soil type. They have no time."""
ATMOSPHERIC: Final = ("z", "u", "v", "t", "q")
"""Geopotential m^2/s^2, m/s, m/s, K, specific humidity kg/kg"""

SHORT: Final = {
    "t2m": "2t",
    "2m_temperature": "2t",
    "u10": "10u",
    "10m_u_component_of_wind": "10u",
    "v10": "10v",
    "10m_v_component_of_wind": "10v",
    "mean_sea_level_pressure": "msl",
    "surface_pressure": "sp",
    "ps": "sp",
    "sea_surface_temperature": "sst",
    "land_sea_mask": "lsm",
    "soil_type": "slt",
    "geopotential_at_surface": "z_surface",
    "geopotential": "z",
    "u_component_of_wind": "u",
    "v_component_of_wind": "v",
    "temperature": "t",
    "specific_humidity": "q",
    "relative_humidity": "r",
    "vertical_velocity": "w",
}
"""WeatherBench 2, the Climate Data Store and GraphCast; every other name stays as it is."""

LATITUDE: Final = ("latitude", "lat")
LONGITUDE: Final = ("longitude", "lon")
PRESSURE: Final = ("level", "pressure_level", "isobaricInhPa", "isobaricInPa", "plev")
SIGMA: Final = "sigma"
"""Pressure as a share of the surface pressure"""
TIME: Final = ("datetime", "valid_time", "time", "date")
"""The first that counts from a date; GraphCast's `time` counts from its `datetime`."""
VERSION: Final = "expver"
"""Dimension of old Climate Data Store files: final and preliminary data, each missing where the other is."""
SINGLE: Final = ("batch", "step", "prediction_timedelta")
"""Dimensions of which only one place can be read."""
MEMBER: Final = ("number", "realization", "ensemble", "member")

DIMENSIONS: Final = ("time", "level", "latitude", "longitude")
"""Their order in the normal form"""

UNITS: Final = {
    **dict.fromkeys(("2t", "t", "sst"), "K"),
    **dict.fromkeys(("10u", "10v", "u", "v"), "m s**-1"),
    **dict.fromkeys(("msl", "sp"), "Pa"),
    **dict.fromkeys(("z", "z_surface"), "m**2 s**-2"),
    "q": "kg kg**-1",
}
"""In the normal form"""
