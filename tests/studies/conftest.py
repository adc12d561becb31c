"""A case small enough to train in a moment: one hidden layer on made-up rows, with a masked axis like a real one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from elbowroom.memory.plan import Chunk, Plan, Precision, Recompute
from elbowroom.memory.step import Loss
from elbowroom.studies.case import Batch, Case, Features, Records
from elbowroom.studies.optimizer import OptimizerSettings
from elbowroom.studies.sizes import Size, Sizes
from elbowroom.studies.train import Training

QUICK = OptimizerSettings(learning_rate=1e-2, warmup_steps=5)


class Hidden(nnx.Module):
    def __init__(self, width: int, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(3, width, rngs=rngs)
        self.second = nnx.Linear(width, 1, rngs=rngs)


def forward(model: Hidden, rows: jax.Array, dtype: Any) -> jax.Array:
    hidden = jnp.tanh(rows.astype(dtype) @ model.first.kernel[...].astype(dtype))
    return (hidden @ model.second.kernel[...].astype(dtype)).astype(jnp.float32)[:, 0]


def toy_parameters(sizes: Sizes, key: jax.Array) -> nnx.State:
    return nnx.split(Hidden(sizes["width"], nnx.Rngs(key)), nnx.Param)[1]


def toy_loss(sizes: Sizes, plan: Plan) -> Loss:
    graph = nnx.split(nnx.eval_shape(lambda: Hidden(sizes["width"], nnx.Rngs(0))), nnx.Param)[0]
    predict = jax.checkpoint(forward, static_argnums=2) if plan.recompute.blocks else forward

    def loss(parameters: Any, example: Any, key: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
        error = predict(nnx.merge(graph, parameters), example["rows"], jnp.dtype(plan.precision.compute))
        noise = 0.0 if key is None else 0.01 * jax.random.normal(key, error.shape)
        value = jnp.mean(jnp.square(error + noise - example["target"]))
        return value, {"fit": value}

    return loss


def toy_example(sizes: Sizes) -> dict[str, jax.ShapeDtypeStruct]:
    length = sizes["length"]
    return {
        "rows": jax.ShapeDtypeStruct((length, 3), jnp.float32),
        "target": jax.ShapeDtypeStruct((length,), jnp.float32),
    }


def made_up(seed: int, length: int) -> Features:
    rows = np.random.default_rng(seed).normal(size=(length, 3)).astype(np.float32)
    return {"rows": rows, "target": np.tanh(rows[:, 0] - rows[:, 1])}


class ToyBatches:
    """Batch `n` depends on the seed and on `n` alone, so its place is all there is to save."""

    def __init__(self, records: Records, sizes: Sizes, seed: int) -> None:
        self.records, self.sizes, self.seed, self.place = records, sizes, seed, 0

    def __next__(self) -> Batch:
        draw = np.random.default_rng((self.seed, self.place)).choice(self.records.items, self.sizes["batch"])
        self.place += 1
        examples = [made_up(abs(int(item)), self.sizes["length"]) for item in draw]
        features = {name: np.stack([example[name] for example in examples]) for name in examples[0]}
        if -1 in draw:
            features["rows"] = np.full_like(features["rows"], np.nan)
        names = tuple(f"row {item}" for item in draw)
        return Batch(names, features, amount=len(draw) * self.sizes["length"])

    def get_state(self) -> dict[str, Any]:
        return {"place": self.place}

    def set_state(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


def read_toy(data: Path, structures: Path | None) -> Records:
    items = [int(line) for line in data.read_text().split()]
    return Records(items=items, warnings=("1 row is made up",), fingerprint=str(hash(tuple(items))))


def toy_held_out(records: Records, sizes: Sizes) -> list[tuple[str, Features]]:
    return [(f"row {item}", made_up(int(item), sizes["length"])) for item in records.items]


def toy_prior(records: Records) -> Any:
    def mean_of_targets(example: Mapping[str, np.ndarray]) -> float:
        return float(np.mean(np.square(example["target"])))

    return mean_of_targets


TOY = Case(
    name="toy",
    unit="rows",
    sizes={
        "length": Size(default=8, meaning="rows of an example"),
        "width": Size(default=16, meaning="hidden channels"),
        "batch": Size(default=2, meaning="examples of a step"),
    },
    optimizer=QUICK,
    plan=Plan(),
    accelerator_plan=Plan(precision=Precision(compute="bfloat16"), chunk=Chunk(rows=4)),
    ladder=(Plan(), Plan(recompute=Recompute(blocks=True)), Plan(precision=Precision(compute="bfloat16"))),
    techniques=lambda sizes: {
        "plain": Plan(),
        "recompute": Plan(recompute=Recompute(blocks=True)),
        "bfloat16": Plan(precision=Precision(compute="bfloat16")),
    },
    compared_sizes={"length": 12},
    score="fit",
    score_meaning="mean squared error",
    prior_meaning="always zero",
    model={},
    parameters=toy_parameters,
    loss=toy_loss,
    example=toy_example,
    chunk_axes=lambda sizes: {"rows": {"rows": sizes["length"]}},
    stacks=lambda sizes: {"hidden": 1},
    read=read_toy,
    demo=lambda split: Records(items=list(range(10) if split == "train" else range(10, 16)), fingerprint=split),
    batches=ToyBatches,
    held_out=toy_held_out,
    prior=toy_prior,
)


@pytest.fixture
def toy() -> Case:
    return TOY


@pytest.fixture
def training(tmp_path: Path):
    """A training of the toy case, with whatever differs from six plain steps."""

    def with_changes(**changes: Any) -> Training:
        defaults: dict[str, Any] = {
            "case": TOY,
            "records": TOY.demo("train"),
            "sizes": {name: size.default for name, size in TOY.sizes.items()},
            "plan": Plan(),
            "steps": 6,
            "out": tmp_path / "run",
            "optimizer": QUICK,
            "checkpoint_every": 3,
        }
        return Training(**{**defaults, **changes})

    return with_changes
