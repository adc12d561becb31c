"""Windows hold only regular steps; those across a hole are dropped and counted."""

import numpy as np
import pytest

from elbowroom.datasets.weather.normal import open_weather
from elbowroom.datasets.weather.windows import windows

SIX_HOURS = np.timedelta64(6, "h")


def series(*places: int) -> np.ndarray:
    return np.datetime64("2020-01-01", "ns") + np.array(places) * SIX_HOURS


def by_hand(places: tuple[int, ...], offsets: list[int]) -> list[list[int]]:
    """Try every anchor."""
    anchors = range(places[0] - 10, places[-1] + 10)
    return [[places.index(a + o) for o in offsets] for a in anchors if all(a + o in places for o in offsets)]


@pytest.mark.parametrize("places", [(0, 1, 2, 3, 4, 5), (0, 1, 2, 4, 5, 6, 7), (0, 1, 5, 6, 7, 8), (0, 1)])
@pytest.mark.parametrize(("history", "leads"), [(1, (1,)), (2, (1,)), (2, (1, 3)), (3, (2,))])
def test_windows_are_those_found_by_hand(places, history, leads):
    found = windows(series(*places), history=history, leads=leads)
    offsets = [*range(1 - history, 1), *leads]
    assert found.steps.tolist() == by_hand(places, offsets)
    whole = by_hand(tuple(range(places[-1] + 1)), offsets)
    assert found.dropped == len(whole) - len(found)


def test_windows_across_the_hole_of_a_file_are_dropped_and_counted(fields, write):
    dataset = open_weather(write(fields(steps=8).isel(time=[0, 1, 2, 4, 5, 6, 7]), "a.nc"))
    found = windows(dataset["time"].values, history=2, leads=(1,))
    assert found.steps.tolist() == [[0, 1, 2], [3, 4, 5], [4, 5, 6]]
    assert found.dropped == 3


def test_a_longer_step_takes_every_other_time():
    places = tuple(range(8))
    found = windows(series(*places), history=2, leads=(1,), step=2 * SIX_HOURS)
    assert found.steps.tolist() == by_hand(places, [-2, 0, 2])
    assert found.step == np.timedelta64(12, "h")


def test_a_step_that_the_series_does_not_have_gives_no_windows():
    found = windows(series(0, 1, 2, 3), history=1, leads=(1,), step=np.timedelta64(5, "h"))
    assert len(found) == 0
    assert found.dropped > 0


def test_a_single_time_and_wrong_lengths_are_refused():
    with pytest.raises(ValueError, match="1 time step has no regular step: read two or more"):
        windows(series(0), history=1, leads=(1,))
    for history, leads in ((0, (1,)), (1, ()), (1, (0, 1))):
        with pytest.raises(ValueError, match="give 1 or more of each, leads from 1 on"):
            windows(series(0, 1), history=history, leads=leads)
