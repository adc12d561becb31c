"""What a run has learned, from its folder."""

import dataclasses
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from elbowroom.memory.plan import Plan
from elbowroom.memory.step import TrainState, initial_state
from elbowroom.studies.checkpoint import open_checkpoints, restore_part
from elbowroom.studies.optimizer import OptimizerSettings, averaged_parameters, make_optimizer
from elbowroom.studies.run_folder import RunError


class Learned(NamedTuple):
    """Parameters as evaluation and prediction use them, and after how many steps."""

    parameters: PyTree
    step: int


def run_record(folder: Path, config: type | None = None) -> dict[str, Any]:
    """What `run.json` says. Raises `RunError` naming it, also where its model has other fields than `config`."""
    path = folder / "run.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        told, case = set(record["model"]), record["case"]
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(
            f"{folder} holds no run; give a folder that `train` wrote, or a file of published parameters"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged or of another version ({error!r}); give another run") from None
    if config is not None and told != {field.name for field in dataclasses.fields(config)}:
        raise RunError(f"{folder} is a run of {case}, or of another version; give a run of the case that you name")
    return record


def learned(folder: Path, record: dict[str, Any], shapes: PyTree) -> Learned:
    """The parameters at the latest checkpoint, or their running average where the run keeps one.

    Of the checkpoint nothing else is read. Raises `RunError` where there is none.

    Args:
      record: of `run_record`.
      shapes: of the parameters, in their structure.
    """
    settings, plan = OptimizerSettings(**record["optimizer"]), Plan.load(folder / "plan.toml")
    optimizer = make_optimizer(settings, plan)
    state = jax.eval_shape(lambda shapes: initial_state(shapes, optimizer, jax.random.key(0)), shapes)

    def evaluated(state: TrainState) -> PyTree:
        return state.parameters if settings.average is None else averaged_parameters(state.optimizer)

    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    with open_checkpoints(folder) as checkpoints:
        parameters = restore_part(checkpoints, state, evaluated, sharding)
        return Learned(parameters, checkpoints.latest_step() or 0)
