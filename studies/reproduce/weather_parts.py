"""What each part of Aurora takes alone, compiled for a card.

A part of the model is a train step of its own: its forward pass, its backward pass to its parameters and to the tokens
it is given, and the plainest update, so that nothing is counted but what the part itself needs. The optimizer is the
update of the whole model. Nothing runs.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array, PyTree

from elbowroom.memory.chunk import map_rows
from elbowroom.memory.devices.profile import DeviceProfile, device
from elbowroom.memory.footprint.footprint import Footprint
from elbowroom.memory.offload import update_of
from elbowroom.memory.plan import Plan
from elbowroom.memory.precision import wide
from elbowroom.memory.step import TrainState, initial_state, make_step
from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.decoder import grid_points
from elbowroom.models.aurora.encodings import Encodings
from elbowroom.models.aurora.model import Aurora, History
from elbowroom.studies.aurora import PRESETS
from elbowroom.studies.case import Case
from elbowroom.studies.cases import case_named
from elbowroom.studies.choose_plan import abstract_train_state
from elbowroom.studies.optimizer import make_optimizer
from elbowroom.studies.sizes import Sizes
from elbowroom.studies.target_process import answer_of, tell

MODEL_PARTS = ("encoder", "backbone", "decoder", "head")
PARTS = (*MODEL_PARTS, "optimizer")


class PartStep(NamedTuple):
    """A train step and the shapes of what it is given."""

    step: Callable[..., Any]
    state: TrainState
    batch: PyTree


class _Part(NamedTuple):
    """`call(module, tokens, example)` of one part; the encoder is given no tokens."""

    module: Any
    call: Callable[[Any, Any, Mapping[str, Array]], PyTree]
    tokens: jax.ShapeDtypeStruct | None = None


def part_footprints(case: Case, sizes: Sizes, plan: Plan, target: DeviceProfile) -> dict[str, Footprint]:
    """The footprint of every part alone; raises what `target_footprint` raises."""
    found = {}
    for part in PARTS:
        asked = {"case": case.name, "sizes": dict(sizes), "plan": plan.to_dict(), "device": target.key, "part": part}
        command = [sys.executable, "-m", "elbowroom.studies.reproduce.weather_parts", json.dumps(asked)]
        found[part] = answer_of(command, f"{target.key}, {part}, {plan}")
    return found


def part_step(part: str, case: Case, sizes: Sizes, plan: Plan) -> PartStep:
    """The step of one of `PARTS`."""
    if part == "optimizer":
        return _update(case, sizes, plan)
    return _alone(_parts(PRESETS[case.name], dict(case.example(sizes)), plan)[part], dict(case.example(sizes)), plan)


def _parts(config: AuroraConfig, example: Mapping[str, jax.ShapeDtypeStruct], plan: Plan) -> dict[str, _Part]:
    model = nnx.eval_shape(lambda: Aurora(config, rngs=nnx.Rngs(0)))
    rows, columns = example["at_latitude"].shape[0], example["at_longitude"].shape[0]

    def tokens(levels: int, channels: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((levels, rows, columns, channels), plan.precision.compute)

    def encode(module: Any, _: None, given: Mapping[str, Array]) -> PyTree:
        where: dict[str, Any] = {part: given[f"at_{part}"] for part in Encodings._fields}
        where["date"] = where["date"][0]
        return module(*(given[name] for name in History._fields), Encodings(**where), plan)

    def head(module: Any, tokens: Array, given: Mapping[str, Array]) -> PyTree:
        def points(some: Array) -> Array:
            return grid_points(module, config.atmosphere, config.patch, some)

        return map_rows(points, tokens, size=plan.chunk.rows, axes=(1,), out_axis=2)

    double = 2 * config.channels
    return {
        "encoder": _Part(model.encoder, encode),
        "backbone": _Part(
            model.backbone,
            lambda module, tokens, given: module(tokens, given["at_lead_time"], plan),
            tokens(config.latent_levels, config.channels),
        ),
        "decoder": _Part(
            model.decoder,
            lambda module, tokens, given: module(tokens, given["at_query"], plan),
            tokens(config.latent_levels, double),
        ),
        "head": _Part(model.decoder.atmos_heads, head, tokens(example["at_level"].shape[0], double)),
    }


def _alone(part: _Part, example: dict[str, Any], plan: Plan) -> PartStep:
    """The part's results are scored by their product with given gradients, as large as they."""
    graph, weights = nnx.split(part.module, nnx.Param)

    def call(parameters: PyTree, given: Mapping[str, Array]) -> PyTree:
        return part.call(nnx.merge(graph, parameters["weights"]), parameters["tokens"], given)

    def loss(parameters: PyTree, given: Mapping[str, Any], key: Any) -> tuple[Array, dict[str, Array]]:
        found = jax.tree.leaves(call(parameters, given))
        scores = [(f * g).sum(dtype=wide(f.dtype)) for f, g in zip(found, given["gradients"], strict=True)]
        return jnp.stack(scores).sum(), {}

    parameters, rule = {"weights": weights, "tokens": part.tokens}, optax.sgd(1.0)
    example["gradients"] = jax.tree.leaves(jax.eval_shape(call, parameters, example))
    batch = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype), example)
    state = jax.eval_shape(lambda given: initial_state(given, rule, jax.random.key(0)), parameters)
    return PartStep(make_step(loss, rule, plan), state, batch)


def _update(case: Case, sizes: Sizes, plan: Plan) -> PartStep:
    """One step of the optimizer; the gradient is its batch."""
    state = abstract_train_state(case, sizes, case.optimizer, plan)
    update = update_of(make_optimizer(case.optimizer, plan))

    def step(state: TrainState, gradient: PyTree) -> tuple[TrainState, dict[str, Array]]:
        parameters, moments = update(gradient, state.optimizer, state.parameters)
        return state._replace(parameters=parameters, optimizer=moments), {}

    return PartStep(step, state, state.parameters)


def main() -> None:
    """The other process: compile what the first argument asks for."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    case, plan = case_named(asked["case"]), Plan.from_dict(asked["plan"])
    tell(device(asked["device"]), *part_step(asked["part"], case, asked["sizes"], plan))


if __name__ == "__main__":
    main()
