"""The smallest Aurora that has every part: two stages, an odd number of rows, windows that shift and are padded."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from flax import nnx

from elbowroom.memory.plan import Plan
from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.encodings import Encodings, encodings
from elbowroom.models.aurora.losses import VariableWeights, weather_loss
from elbowroom.models.aurora.model import Aurora, History, Weather
from elbowroom.models.aurora.rollout import roll_out

CONFIG = AuroraConfig(
    surface=("2t", "msl"),
    static=("lsm",),
    atmosphere=("z", "t"),
    patch=2,
    channels=16,
    latent_levels=3,
    heads=2,
    window=(2, 2, 3),
    down_depths=(3, 1),
    down_heads=(2, 4),
    up_depths=(1, 1),
    up_heads=(4, 2),
)
LATITUDES, LONGITUDES, LEVELS = np.linspace(80, -80, 10), np.arange(0, 360, 30.0), np.array([300, 500, 1000])
WEIGHTS = VariableWeights()


def encoded(date: float) -> Encodings:
    return encodings(CONFIG, LATITUDES, LONGITUDES, LEVELS, 6.0, date)


def weather(rng: np.random.Generator, *lead: int) -> Weather:
    shape = (len(LATITUDES), len(LONGITUDES))
    return Weather(rng.normal(size=(*lead, 2, *shape)), rng.normal(size=(*lead, 2, len(LEVELS), *shape)))


@cache
def given(steps: int) -> dict[str, Any]:
    """What an example holds, with a hole in every target."""
    rng = np.random.default_rng(0)
    shape = (len(LATITUDES), len(LONGITUDES))
    history = History(
        rng.normal(size=(2, 2, *shape)), rng.normal(size=(1, *shape)), rng.normal(size=(2, 2, len(LEVELS), *shape))
    )
    valid = Weather(*(rng.random(field.shape) > 0.2 for field in weather(rng, steps)))
    dates = np.stack([encoded(1000.0 + 6 * i).date for i in range(steps)])
    area = np.cos(np.deg2rad(LATITUDES))
    return {"history": history, "dates": dates, "target": weather(rng, steps), "valid": valid, "area": area}


@cache
def parameters() -> tuple[Any, Any]:
    """Random everywhere: what starts at zero would hide whatever it multiplies."""
    graph, state = nnx.split(nnx.eval_shape(lambda: Aurora(CONFIG, rngs=nnx.Rngs(0))), nnx.Param)
    rng = np.random.default_rng(1)
    leaves, structure = jax.tree.flatten(state)
    made = [rng.normal(size=leaf.shape) * (0.3 if len(leaf.shape) < 2 else leaf.shape[-1] ** -0.5) for leaf in leaves]
    return graph, structure.unflatten(made)


def _loss(plan: Plan) -> Callable[..., jax.Array]:
    """Parameters are arguments: the compiler would spend its time folding constants."""
    graph, _ = parameters()

    def loss(state: Any, example: dict[str, Any], where: Encodings) -> jax.Array:
        def score(found: Weather, at: tuple[Weather, Weather]) -> Any:
            names = (CONFIG.surface, CONFIG.atmosphere)
            return weather_loss(found, *at, example["area"], names, WEIGHTS)[0]

        targets = (example["target"], example["valid"])
        return roll_out(nnx.merge(graph, state), example["history"], where, example["dates"], targets, score, plan)

    return loss


def _arguments(dtype: str, steps: int) -> Any:
    """Converted by numpy: jax would compile a conversion for every shape."""
    arguments = parameters()[1], given(steps), encoded(1000.0)
    return jax.tree.map(lambda x: x if x.dtype == bool else np.asarray(x, dtype), arguments)


def loss_alone(plan: Plan) -> jax.Array:
    """The loss of one step without a gradient, whose program compiles in a third of the time."""
    return jax.jit(_loss(plan))(*_arguments("float32", 1))


@cache
def loss_and_gradient(plan: Plan, dtype: str = "float32", steps: int = 1) -> tuple[float, dict[str, np.ndarray]]:
    """The loss and the gradient of every parameter by its path, in `dtype` throughout."""
    value, gradient = jax.jit(jax.value_and_grad(_loss(plan)))(*_arguments(dtype, steps))
    flat, _ = jax.tree_util.tree_flatten_with_path(gradient)
    return float(value), {jax.tree_util.keystr(path): np.asarray(array) for path, array in flat}
