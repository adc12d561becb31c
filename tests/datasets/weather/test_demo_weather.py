"""The embedded season is small, in normal form, and the weather of a dry planet without continents."""

import numpy as np
import pytest

from elbowroom.datasets.demo.load import WEATHER, demo_weather
from elbowroom.datasets.weather.symmetry import require_symmetric_grid
from elbowroom.studies.metrics.weather import area_weights

MIB = 2**20


@pytest.fixture(scope="module", params=["train", "test"])
def season(request):
    return demo_weather(request.param)


def test_all_that_is_embedded_is_small():
    files = [path for path in WEATHER.parent.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 6 * MIB
    assert WEATHER.stat().st_size <= 2.5 * MIB


def test_it_says_that_it_is_simulated(season):
    assert season.attrs["simulated"]
    assert dict(season.sizes) | {"time": 0} == {"time": 0, "level": 2, "latitude": 32, "longitude": 64}
    require_symmetric_grid(season)


def test_the_mass_of_the_air_is_conserved(season):
    """Surface pressure is the weight of the air above: its mean over the sphere stays, to the rounding of the model."""
    pressure = season["sp"].values.mean(axis=2) @ area_weights(season["latitude"].values) / 32
    np.testing.assert_allclose(pressure, 1e5, rtol=1e-4)
    assert pressure.std() < 1


def test_jets_blow_eastward_in_middle_latitudes_where_it_grows_cold(season):
    """Held & Suarez 1994, figures 1 and 2: jets of some 25 m/s aloft, and 300 K at the equator below."""
    latitude = season["latitude"].values
    wind, warmth = (season[name].mean(("time", "longitude")).values for name in ("u", "t"))
    for hemisphere in (latitude > 0, latitude < 0):
        strongest = np.abs(latitude[hemisphere][wind[0][hemisphere].argmax()])
        assert 25 < strongest < 50
        assert 20 < wind[0][hemisphere].max() < 35
    assert 290 < warmth[1][np.abs(latitude) < 5].mean() < 305
    assert warmth[1][np.abs(latitude) > 80].mean() < 270
