"""Wrong units known by their typical values or their name, and the factor that makes them right."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from jaxtyping import Num

_MOST_HUMID: Final = 0.06
"""kg/kg that no air reaches"""
MOST_SATURATED: Final = 1.7
"""Relative humidity as a share that no air reaches"""
GRAVITY: Final = 9.80665
"""m/s^2: geopotential of a height of 1 m, WMO's standard value"""


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """Values in another unit: right = factor * stored + offset."""

    found: str
    wanted: str
    factor: float = 1.0
    offset: float = 0.0
    relative: bool = False
    """Humidity relative to saturation, whose factor is `factor` times the specific humidity of saturated air."""

    @property
    def remedy(self) -> str:
        if self.relative:
            return f"multiply by {self.factor:g} times the specific humidity of saturation at t and level"
        return f"multiply by {self.factor:g}" if self.offset == 0 else f"add {self.offset:g}"


CELSIUS: Final = Wrong(found="degrees Celsius", wanted="K", offset=273.15)
HECTOPASCAL: Final = Wrong(found="hPa", wanted="Pa", factor=100.0)
BAR_SHARE: Final = Wrong(found="shares of 100000 Pa", wanted="Pa", factor=1e5)
HEIGHT: Final = Wrong(found="a height in m", wanted="geopotential in m^2/s^2", factor=GRAVITY)
PERCENT: Final = Wrong(found="relative humidity in percent", wanted="kg/kg", factor=0.01, relative=True)
SHARE: Final = Wrong(found="relative humidity as a share", wanted="kg/kg", factor=1.0, relative=True)
GRAMS: Final = Wrong(found="g/kg", wanted="kg/kg", factor=0.001)

_NAMED: Final = {
    **dict.fromkeys(("c", "degc", "deg_c", "°c", "celsius", "degree_celsius", "degrees_celsius"), CELSIUS),
    **dict.fromkeys(("hpa", "mbar", "mb", "millibar", "millibars"), HECTOPASCAL),
    **dict.fromkeys(("m", "gpm", "metre", "metres", "meter", "meters"), HEIGHT),
    **dict.fromkeys(("%", "percent"), PERCENT),
    **dict.fromkeys(("g/kg", "g kg**-1", "g kg-1"), GRAMS),
}
_APPLIES: Final = {
    CELSIUS: ("t", "2t", "sst"),
    HECTOPASCAL: ("msl", "sp"),
    HEIGHT: ("z", "z_surface"),
    PERCENT: ("q",),
    GRAMS: ("q",),
}


def wrong_units(
    name: str, units: str, values: Num[np.ndarray, "..."], levels_hpa: Num[np.ndarray, "level"] | None
) -> Wrong | None:
    """What the unit of a variable is instead of the normal form's; None where nothing speaks against it.

    The values decide where they can: units are often left unchanged when values are converted.

    Args:
      units: as the file states them.
      values: of some time steps, levels on the second axis if there are any, NaN where missing.
    """
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return None
    named = _NAMED.get(units.strip().lower())
    named = named if named is not None and name in _APPLIES[named] else None
    match name:
        case "t" | "2t" | "sst":
            return CELSIUS if -150 < np.median(finite) < 100 else None
        case "msl" | "sp":
            return _pressure(float(np.median(finite)))
        case "z":
            seen = None if levels_hpa is None else _geopotential(values, levels_hpa)
            return named if seen is None else (HEIGHT if seen == "height" else None)
        case "q":
            return _humidity(float(finite.max())) if finite.max() > _MOST_HUMID else named
    return named


def _pressure(median: float) -> Wrong | None:
    if 0.2 < median < 1.5:
        return BAR_SHARE
    return HECTOPASCAL if 200 < median < 1500 else None


def _humidity(largest: float) -> Wrong:
    """Shares seldom exceed saturation by far, and grams stay below those of the wettest tropics."""
    if largest <= MOST_SATURATED:
        return SHARE
    return GRAMS if largest <= 40 else PERCENT


def _geopotential(values: Num[np.ndarray, "time level lat lon"], levels_hpa: Num[np.ndarray, "level"]) -> str | None:
    """Which of height and geopotential the highest level looks like; None where it looks like neither."""
    top = int(np.argmin(levels_hpa))
    if levels_hpa[top] > 900 or not np.isfinite(values[:, top]).any():
        return None
    ratio = float(np.nanmedian(values[:, top])) / _height(float(levels_hpa[top]))
    if 0.5 < ratio < 2:
        return "height"
    return "geopotential" if 0.5 < ratio / GRAVITY < 2 else None


def _height(pressure_hpa: float) -> float:
    """Metres of a pressure in an isothermal atmosphere of 250 K, within 15 % of the standard one's above 900 hPa."""
    return 287.05 * 250 / GRAVITY * float(np.log(1013.25 / pressure_hpa))
