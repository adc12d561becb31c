"""Checkpoints of a run: the train state, where the data iterator is, the plan, and the settings of the run.

The two latest and the best are kept. A checkpoint appears under its step only once it is complete, so a run killed
while saving falls back to the one before.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from jaxtyping import PyTree
from orbax.checkpoint.checkpoint_managers import preservation_policy

from elbowroom.memory.plan import Plan
from elbowroom.memory.step import TrainState
from elbowroom.studies.run_folder import RunError, RunSettings


@contextmanager
def open_checkpoints(folder: Path) -> Iterator[ocp.CheckpointManager]:
    """The checkpoints in `folder`/checkpoints; raises `RunError` where the metrics of one are damaged."""

    def mean_loss(metrics: dict[str, float]) -> float:
        return metrics["mean_loss"]

    keep = [
        preservation_policy.LatestN(2),
        preservation_policy.BestN(get_metric_fn=mean_loss, reverse=True, n=1),
    ]
    options = ocp.CheckpointManagerOptions(
        enable_async_checkpointing=False,  # the state is donated to the next step, so it must be on disk before that
        best_fn=mean_loss,
        best_mode="min",
        preservation_policy=preservation_policy.AnyPreservationPolicy(keep),
    )
    directory = (folder / "checkpoints").absolute()
    try:
        manager = ocp.CheckpointManager(directory, options=options)
    except (ValueError, KeyError, OSError) as error:
        raise _damaged(_unreadable(directory), error) from None
    with manager:
        yield manager


def save_checkpoint(
    manager: ocp.CheckpointManager,
    state: TrainState,
    data_state: dict[str, Any],
    *,
    plan: Plan,
    settings: RunSettings,
    mean_loss: float,
) -> None:
    """Write the state after its step; does nothing if that step is saved. `mean_loss` decides which is the best."""
    step = int(state.step)
    if step in manager.all_steps():
        return
    record = {"data": data_state, "plan": plan.to_toml(), "settings": dataclasses.asdict(settings)}
    manager.save(
        step,
        args=ocp.args.Composite(state=ocp.args.StandardSave(_named(_plain(state))), run=ocp.args.JsonSave(record)),
        metrics={"mean_loss": mean_loss},
    )


def restore_latest(
    manager: ocp.CheckpointManager, abstract: TrainState, sharding: jax.sharding.Sharding
) -> tuple[TrainState, dict[str, Any]]:
    """The latest train state, in the dtypes of `abstract`, and the state of the data iterator.

    Raises `RunError` when there is no complete checkpoint, or its files are damaged.
    """
    leaves = _placed(jax.eval_shape(_plain, abstract), sharding)
    target = _named(leaves)
    found = _restored(manager, state=ocp.args.StandardRestore(target), run=ocp.args.JsonRestore())
    bare = jax.tree.unflatten(jax.tree.structure(leaves), [found["state"][name] for name in target])
    return bare._replace(key=jax.random.wrap_key_data(bare.key)), found["run"]["data"]


def restore_part(
    manager: ocp.CheckpointManager,
    abstract: TrainState,
    part: Callable[[TrainState], PyTree],
    sharding: jax.sharding.Sharding,
) -> PyTree:
    """A part of the latest train state; nothing else is read. Raises `RunError` as `restore_latest`."""
    leaves = _placed(jax.eval_shape(_plain, abstract), sharding)
    names = {id(leaf): name for name, leaf in _named(leaves).items()}
    chosen, structure = jax.tree.flatten(part(leaves))
    target = {names[id(leaf)]: leaf for leaf in chosen}
    how = ocp.checkpoint_utils.construct_restore_args(target)
    state = _restored(manager, state=ocp.args.PyTreeRestore(target, how, partial_restore=True))["state"]
    return structure.unflatten([state[name] for name in target])


def _restored(manager: ocp.CheckpointManager, **wanted: Any) -> Any:
    step = manager.latest_step()
    if step is None:
        raise RunError(f"{manager.directory} holds no complete checkpoint; start another run with --out")
    try:
        return manager.restore(step, args=ocp.args.Composite(**wanted))
    except (ValueError, KeyError, OSError) as error:
        raise _damaged(Path(manager.directory) / str(step), error) from None


def _placed(tree: PyTree, sharding: jax.sharding.Sharding) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree)


def _damaged(checkpoint: Path, error: Exception) -> RunError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:160]  # what follows is the driver's settings
    return RunError(f"{checkpoint} is damaged ({reason}); move it away, and the checkpoint before it is used")


def _unreadable(directory: Path) -> Path:
    """The checkpoint whose metrics cannot be read; orbax reads them all and does not say which it was."""
    for path in sorted(directory.glob("*/metrics/metrics")):
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            return path.parent.parent
    return directory


def _plain(state: TrainState) -> TrainState:
    """The random key as the integers that it is made of."""
    return state._replace(key=jax.random.key_data(state.key))


def _named(state: TrainState) -> dict[str, Any]:
    """Leaves by their path: readable on disk, and independent of the containers that hold them."""
    leaves, _ = jax.tree.flatten_with_path(state)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
