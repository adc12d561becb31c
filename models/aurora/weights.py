"""Parameters under their published names: `backbone.encoder_layers.0.blocks.3.attn.qkv.weight`.

Attributes of the modules have the published names, so the mapping is mechanical, save that blocks of a stage lie on
the first axis of one array here.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float, PyTree

from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.published import require_fit

STACK = "blocks"


def published_shapes(model: nnx.Module) -> dict[str, tuple[int, ...]]:
    """The published name of every parameter, with its shape."""
    state = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {
        name: leaf.get_value().shape[1:] if index is not None else leaf.get_value().shape
        for path, leaf in state
        for name, index in _names(path, leaf)
    }


def published_arrays(parameters: PyTree) -> dict[str, Any]:
    """Every array of a state of parameters, such as their gradients, under its published name."""
    return {
        name: leaf.get_value() if index is None else leaf.get_value()[index]
        for path, leaf in nnx.to_flat_state(parameters)
        for name, index in _names(path, leaf)
    }


def load_published(model: nnx.Module, arrays: Mapping[str, Float[np.ndarray, "..."]]) -> None:
    """Put published parameters into `model`, in their own dtype. Raises `WeightsError` naming all that do not fit."""
    require_fit(published_shapes(model), arrays)
    filled = []
    for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param)):
        parts = [arrays[name] for name, _ in _names(path, leaf)]
        filled.append((path, leaf.replace(jnp.asarray(np.stack(parts) if STACK in path else parts[0]))))
    nnx.update(model, nnx.from_flat_state(filled))


def separated(arrays: Mapping[str, np.ndarray], config: AuroraConfig) -> dict[str, np.ndarray]:
    """A checkpoint as published: without its prefix, and with joint arrays cut into one for each variable."""
    bare = {name.removeprefix("net."): array for name, array in arrays.items()}
    ground, air = (*config.surface, *config.static), config.atmosphere
    for part, variables in (("surf", ground), ("atmos", air)):
        joint = bare.pop(f"encoder.{part}_token_embeds.weight", None)
        if joint is not None:
            names = [f"encoder.{part}_token_embeds.weights.{variable}" for variable in variables]
            bare |= {name: joint[:, [i]] for i, name in enumerate(names)}
    for part, variables in (("surf", config.surface), ("atmos", air)):
        for kind in ("weight", "bias"):
            joint = bare.pop(f"decoder.{part}_head.{kind}", None)
            if joint is not None:
                apart = joint.reshape(config.patch**2, len(variables), *joint.shape[1:])
                bare |= {f"decoder.{part}_heads.{v}.{kind}": apart[:, i] for i, v in enumerate(variables)}
    return bare


def _names(path: tuple[Any, ...], leaf: Any) -> list[tuple[str, int | None]]:
    """The published names that one of our arrays stands for, with the block of each where it holds a stack."""
    parts = [str(part) for part in path]
    if STACK not in parts:
        return [(".".join(parts), None)]
    at = parts.index(STACK) + 1
    return [(".".join([*parts[:at], str(i), *parts[at:]]), i) for i in range(leaf.get_value().shape[0])]
