"""Aurora's memory page says what its rows say, and its parts are the model's own."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from tiny_weather import TINY

from elbowroom.memory.footprint.footprint import PARTS as BYTES
from elbowroom.memory.footprint.footprint import Footprint
from elbowroom.memory.plan import Chunk, Plan, Recompute
from elbowroom.models.aurora.model import Aurora
from elbowroom.studies import aurora
from elbowroom.studies.aurora import aurora_case
from elbowroom.studies.case import abstract_batch
from elbowroom.studies.reproduce import weather, weather_parts
from elbowroom.studies.reproduce.frontier import reached
from elbowroom.studies.reproduce.weather import BASELINES, BY_PART, POINTS, weather_rows
from elbowroom.studies.reproduce.weather_parts import MODEL_PARTS, PARTS, part_step
from elbowroom.studies.reproduce.weather_report import markdown_of
from elbowroom.studies.target_process import TargetError

RESULTS = Path(__file__).parents[3] / "results"
SIZES = {"latitudes": 16, "longitudes": 24, "levels": 2, "steps": 1, "batch": 1}
CUT = Plan(recompute=Recompute(blocks=True), chunk=Chunk(rows=3))


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(aurora.PRESETS, "tiny", TINY)
    return aurora_case("tiny", TINY)


def names(tree) -> set[str]:
    return {jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)}


@pytest.mark.parametrize("plan", [Plan(), CUT], ids=str)
def test_the_parts_alone_hold_the_models_parameters_and_no_more(tiny, plan):
    """The head's are the decoder's too; encoder, backbone and decoder are the whole model."""
    whole = nnx.split(nnx.eval_shape(lambda: Aurora(TINY, rngs=nnx.Rngs(0))), nnx.Param)[1]
    steps = {part: part_step(part, tiny, SIZES, plan) for part in MODEL_PARTS}
    found = [jax.tree.leaves(steps[part].state.parameters["weights"]) for part in ("encoder", "backbone", "decoder")]
    assert sum(map(len, found)) == len(jax.tree.leaves(whole))
    assert names(steps["head"].state.parameters["weights"]) < {
        name.removeprefix("['atmos_heads']") for name in names(steps["decoder"].state.parameters["weights"])
    }


@pytest.mark.parametrize("part", PARTS)
def test_a_part_computes_the_gradients_of_all_that_it_holds(tiny, part):
    """Every parameter, and every token that it is given, is moved by one step with random gradients of its results."""
    step, state, batch = part_step(part, tiny, SIZES, CUT)
    rng = np.random.default_rng(0)

    def drawn(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.key(0)
        whole = jnp.issubdtype(leaf.dtype, jnp.integer)
        return jnp.asarray(np.zeros(leaf.shape) if whole else 0.3 * rng.normal(size=leaf.shape), leaf.dtype)

    drawn_state, given = jax.tree.map(drawn, (state, batch))
    before = drawn_state._replace(optimizer=jax.tree.map(jnp.abs, drawn_state.optimizer)), given
    after, _ = jax.jit(step)(*before)
    moved = jax.tree.map(lambda old, new: bool((old != new).any()), before[0].parameters, after.parameters)
    still = [jax.tree_util.keystr(path) for path, one in jax.tree_util.tree_leaves_with_path(moved) if not one]
    assert not still


def test_the_update_is_of_the_whole_model(tiny):
    _, state, gradient = part_step("optimizer", tiny, SIZES, Plan())
    assert jax.tree.structure(gradient) == jax.tree.structure(state.parameters)
    assert abstract_batch(tiny, SIZES).keys().isdisjoint(gradient)


def test_a_part_without_an_answer_is_told_in_its_compilers_words(monkeypatch):
    row = {"name": BY_PART[0], "meaning": "a step", "device": "h100", "sizes": {}, "plan": {}, "error": "it crashed"}

    def refuse(*arguments: object) -> None:
        raise TargetError("h100, head: it said nothing")

    monkeypatch.setattr(weather, "frontier_rows", lambda points, report: [row])
    monkeypatch.setattr(weather, "part_footprints", refuse)
    (found,) = weather_rows(POINTS[:1], lambda line: None)
    assert found["alone"] == {"error": "h100, head: it said nothing"}


def test_each_part_is_asked_of_the_cards_compiler(monkeypatch, tiny):
    asked = []

    def answer(command: list[str], label: str) -> Footprint:
        asked.append(json.loads(command[-1]))
        return Footprint(**dict.fromkeys((*BYTES, "host", "peak"), 7), provenance="compiled", detail=label)

    monkeypatch.setattr(weather_parts, "answer_of", answer)
    found = weather_parts.part_footprints(tiny, SIZES, CUT, weather.device("rtx4090"))
    assert list(found) == list(PARTS) == [one["part"] for one in asked]
    assert all(Plan.from_dict(one["plan"]) == CUT and one["device"] == "rtx4090" for one in asked)


@pytest.fixture
def committed() -> list:
    return json.loads((RESULTS / "weather.json").read_text())


def test_the_committed_page_is_rendered_from_its_rows(committed):
    assert (RESULTS / "weather.md").read_text() == markdown_of(committed)
    assert [row["name"] for row in committed] == [point.name for point in POINTS]
    assert {path.stem: Plan.load(path) for path in (RESULTS / "weather").glob("*.toml")} == {
        point.name: point.plan for point in POINTS
    }


def test_the_committed_steps_keep_to_their_goals_and_the_plain_model_fits_no_card(committed):
    plain, *others = committed
    assert plain["name"] == "plain"
    assert plain["device_bytes"] > plain["usable_bytes"]
    for row in others:
        assert row["name"] in BASELINES or reached(row), row["name"]
