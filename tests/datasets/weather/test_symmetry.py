"""Turned and mirrored weather is weather of the same planet: winds stay consistent, and nothing is made up."""

import numpy as np
import pytest
import xarray as xr

from elbowroom.datasets.weather.examples import example
from elbowroom.datasets.weather.loader import training_batches
from elbowroom.datasets.weather.symmetry import SymmetryError, require_symmetric_grid, turned_and_mirrored
from elbowroom.datasets.weather.windows import windows


@pytest.fixture
def given(fields):
    dataset = fields()
    dataset["t"][1, 0, 2, 3] = np.nan
    return dataset, example(dataset, np.array([0, 1]))


def moved_by_hand(name: str, field: np.ndarray, places: int, mirrored: bool) -> np.ndarray:
    """Point by point."""
    if field.ndim < 2:
        return field
    out, (rows, columns) = np.empty_like(field), field.shape[-2:]
    sign = -1 if mirrored and name in ("v", "10v") else 1
    for i in range(rows):
        for j in range(columns):
            out[..., rows - 1 - i if mirrored else i, (j + places) % columns] = sign * field[..., i, j]
    return out


def which(changed: dict, given: dict) -> tuple[int, bool]:
    """The only turn and mirror that give every field of `changed`."""
    tried = [(places, mirrored) for places in range(6) for mirrored in (False, True)]
    (found,) = [
        move for move in tried if all((changed[n] == moved_by_hand(n, f, *move)).all() for n, f in given.items())
    ]
    return found


def test_all_fields_of_an_example_move_together_and_every_move_occurs(given):
    _, arrays = given
    random = np.random.default_rng(0)
    found = {which(turned_and_mirrored(arrays, random), arrays) for _ in range(100)}
    assert found == {(places, mirrored) for places in range(6) for mirrored in (False, True)}


def test_the_fields_given_are_left_as_they_are(given):
    _, arrays = given
    before = {name: field.copy() for name, field in arrays.items()}
    turned_and_mirrored(arrays, np.random.default_rng(0))
    assert all((arrays[name] == before[name]).all() for name in arrays)


def test_a_vortex_seen_in_a_mirror_turns_the_other_way():
    """Winds around the axis of a cap: their curl changes its sign, the flow stays along its circles."""
    u, v = np.zeros((2, 1, 4, 4)), np.zeros((2, 1, 4, 4))
    u[:, :, 0, 1], v[:, :, 1, 2] = 3.0, 5.0
    random = np.random.default_rng(1)
    while True:
        moved = turned_and_mirrored({"u": u, "v": v}, random)
        if moved["u"][0, 0, 3].any():
            break
    assert sorted(np.unique(moved["u"])) == [0, 3]
    assert sorted(np.unique(moved["v"])) == [-5, 0]


def test_batches_are_changed_anew_in_every_pass_and_the_same_after_a_stop(given):
    dataset, _ = given
    pairs = windows(dataset["time"].values, history=1, leads=(1,))

    def fresh():
        return training_batches(dataset, pairs, seed=3, batch=1, change=turned_and_mirrored)

    first, again = fresh(), fresh()
    seen = [next(first) for _ in range(4 * len(pairs))]
    again.set_state({**fresh().get_state()})
    moves: dict[str, set] = {}
    for one in seen:
        start = int(np.flatnonzero(dataset["time"].values.astype("datetime64[m]").astype(str) == one.names[0])[0])
        plain = example(dataset, pairs.steps[start])
        moves.setdefault(one.names[0], set()).add(which({k: v[0] for k, v in one.features.items()}, plain))
    assert max(len(found) for found in moves.values()) > 1
    for _ in range(5):
        next(again)
    resumed = fresh()
    resumed.set_state(again.get_state())
    got = next(resumed)
    assert got.names == seen[5].names
    assert all((got.features[k] == seen[5].features[k]).all() for k in got.features)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.isel(latitude=slice(1, None)), "latitudes are not the same in both hemispheres"),
        (lambda d: d.isel(longitude=slice(3)), "longitudes are not evenly spaced around the globe"),
        (lambda d: d.assign(vo=d["t"]), "whether vo changes its sign in a mirror is not known"),
    ],
)
def test_what_cannot_be_turned_or_mirrored_is_refused(fields, change, message):
    dataset: xr.Dataset = fields()[["t", "u", "v"]]
    require_symmetric_grid(dataset)
    with pytest.raises(SymmetryError, match=message):
        require_symmetric_grid(change(dataset))
