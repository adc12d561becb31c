"""A trained AlphaFold, from the folder of a run or from a published parameter file."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from elbowroom.memory.plan import Plan
from elbowroom.memory.step import initial_state
from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.studies.checkpoint import open_checkpoints, restore_latest
from elbowroom.studies.deepmind import load_deepmind
from elbowroom.studies.optimizer import OptimizerSettings, averaged_parameters, make_optimizer
from elbowroom.studies.run_folder import RunError


def trained_model(place: Path) -> tuple[AlphaFold, dict[str, int]]:
    """The model, and the sizes with which it was trained (none are known of a file).

    A run gives the running average of its parameters at the latest checkpoint (Jumper et al. 2021, Suppl. 1.11.7).
    Raises `RunError` or `WeightsError` naming the place.
    """
    if not place.is_dir():
        return load_deepmind(place), {}
    record = _record(place)
    sizes, settings = record["sizes"], OptimizerSettings(**record["optimizer"])
    graph, parameters = nnx.split(model_of(record["model"], sizes), nnx.Param)
    plan = Plan.load(place / "plan.toml")

    def state(parameters: Any) -> Any:
        return initial_state(parameters, make_optimizer(settings, plan), jax.random.key(0))

    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with open_checkpoints(place) as checkpoints:
        restored, _ = restore_latest(checkpoints, jax.eval_shape(state, parameters), sharding)
    return nnx.merge(graph, averaged_parameters(restored.optimizer)), sizes


def untrained(model: AlphaFold) -> AlphaFold:
    """A fresh model of the same sizes: what training started from, seed 0."""
    return AlphaFold(model.config, rngs=nnx.Rngs(0))


def model_of(config: Mapping[str, Any], sizes: Mapping[str, int]) -> AlphaFold:
    """A model of these sizes without parameters, only their shapes."""
    depth = {"evoformer_blocks": sizes["blocks"], "extra_blocks": sizes["extra_blocks"]}
    sized = AlphaFoldConfig(**{**config, **depth})
    return nnx.eval_shape(lambda: AlphaFold(sized, rngs=nnx.Rngs(0)))


def _record(folder: Path) -> dict[str, Any]:
    path = folder / "run.json"
    known = {field.name for field in dataclasses.fields(AlphaFoldConfig)}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if set(record["model"]) != known:
            raise KeyError("model")
    except FileNotFoundError:
        raise RunError(
            f"{folder} holds no run; give a folder that `train` wrote, or a params_model_*.npz file"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged or of another version ({error!r}); give another run") from None
    return record
