"""Parameters under their published names: `alphafold/alphafold_iteration/<module>/<module>//<array>`.

Attribute names of the modules are the published ones, so the mapping is mechanical; stacks of blocks have the blocks
on the first axis in both.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float

PREFIX = "alphafold/alphafold_iteration"


class WeightsError(ValueError):
    """Published parameters that do not fit the model: missing, extra or of another shape."""


def published_names(model: nnx.Module, prefix: str = PREFIX) -> dict[str, tuple[int, ...]]:
    """The published name of every parameter, with its shape."""
    state = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {_published(path, prefix): tuple(leaf.get_value().shape) for path, leaf in state}


def load_published(model: nnx.Module, arrays: Mapping[str, Float[np.ndarray, "..."]], prefix: str = PREFIX) -> None:
    """Put published parameters into `model`, in their own dtype. Raises `WeightsError` naming all that do not fit."""
    expected = published_names(model, prefix)
    problems = [f"missing {name}" for name in sorted(expected.keys() - arrays.keys())]
    problems += [f"not part of the model: {name}" for name in sorted(arrays.keys() - expected.keys())]
    problems += [
        f"{name} has shape {arrays[name].shape}, expected {shape}"
        for name, shape in expected.items()
        if name in arrays and arrays[name].shape != shape
    ]
    if problems:
        raise WeightsError("the parameters do not fit the model:\n  " + "\n  ".join(problems))
    state = nnx.to_flat_state(nnx.state(model, nnx.Param))
    filled = [(path, leaf.replace(jnp.asarray(arrays[_published(path, prefix)]))) for path, leaf in state]
    nnx.update(model, nnx.from_flat_state(filled))


def _published(path: tuple[Any, ...], prefix: str) -> str:
    *modules, array = [str(part) for part in path]
    return "/".join([prefix, *modules] if prefix else modules) + "//" + array
