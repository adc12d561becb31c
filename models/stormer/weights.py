"""Parameters under the names of the published code: `blocks.<number>.attn.qkv.weight`.

Attribute names of the modules are the published ones. There, every block and every variable's patch embedding has
arrays of its own, which here are stacked; matrices are (outputs, inputs), which here are (inputs, outputs).
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float

from elbowroom.models.published import require_fit

STACKS = ("blocks", "token_embeds")
"""Modules that are numbered lists in the published code"""
MATRICES = ("weights", "in_proj_weight")
BROADCAST = {"channel_embed": 1, "pos_embed": 1, "channel_query": 2}
"""Arrays with axes of length 1 in front, and how many"""
RENAMED = {
    "weights": "weight",
    "scale": "weight",
    "offset": "bias",
    "blocks": "blocks.{}",
    "token_embeds": "token_embeds.{}.proj",
    "adaLN_modulation": "adaLN_modulation.1",
}


class _Place(NamedTuple):
    """Where a published array lies in the model."""

    path: tuple[Any, ...]
    number: int | None
    """of a stack's array, None outside stacks"""
    own: tuple[int, ...]
    published: tuple[int, ...]

    def outward(self, stack: Any) -> np.ndarray:
        array = np.asarray(stack if self.number is None else stack[self.number])
        return (array.T if self.path[-1] in MATRICES else array).reshape(self.published)

    def inward(self, array: np.ndarray) -> np.ndarray:
        return array.reshape(self.own[::-1]).T if self.path[-1] in MATRICES else array.reshape(self.own)


def published_names(model: nnx.Module) -> dict[str, tuple[int, ...]]:
    """The published name of every parameter, with its shape; the model may hold shapes only."""
    return {name: place.published for name, place in _places(model).items()}


def published_arrays(model: nnx.Module) -> dict[str, Float[np.ndarray, "..."]]:
    """Every parameter under its published name, in its published shape."""
    state = dict(nnx.to_flat_state(nnx.state(model, nnx.Param)))
    return {name: place.outward(state[place.path].get_value()) for name, place in _places(model).items()}


def load_published(model: nnx.Module, arrays: Mapping[str, Float[np.ndarray, "..."]]) -> None:
    """Put published parameters into `model`, in their own dtype. Raises `WeightsError` naming all that do not fit."""
    places = _places(model)
    require_fit({name: place.published for name, place in places.items()}, arrays)
    state = nnx.to_flat_state(nnx.state(model, nnx.Param))
    filled = []
    for path, leaf in state:
        own = [place.inward(arrays[name]) for name, place in places.items() if place.path == path]
        filled.append((path, leaf.replace(jnp.asarray(np.stack(own) if _stacked(path) else own[0]))))
    nnx.update(model, nnx.from_flat_state(filled))


def _places(model: nnx.Module) -> dict[str, _Place]:
    """Every published name, the arrays of a stack in the order of their numbers."""
    places = {}
    for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param)):
        shape = tuple(leaf.get_value().shape)
        for number in range(shape[0]) if _stacked(path) else (None,):
            own = shape if number is None else shape[1:]
            places[_published(path, number)] = _Place(path, number, own, _published_shape(path, own))
    return places


def _stacked(path: tuple[Any, ...]) -> bool:
    return any(part in STACKS for part in path)


def _published(path: tuple[Any, ...], number: int | None) -> str:
    parts = [RENAMED.get(str(part), str(part)) for part in path]
    return ".".join(parts).format(number)


def _published_shape(path: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    if "token_embeds" in path and path[-1] == "weights":
        side = math.isqrt(shape[0])
        return (shape[1], 1, side, side)
    return shape[::-1] if path[-1] in MATRICES else (1,) * BROADCAST.get(path[-1], 0) + shape
