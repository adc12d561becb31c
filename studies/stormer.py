"""The Stormer cases: the change of the weather over a lead time, from scratch, against persistence."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from flax import nnx
from jaxtyping import Array, Key, PyTree

from elbowroom.datasets.demo.load import demo_weather
from elbowroom.datasets.weather.fingerprint import fingerprint
from elbowroom.datasets.weather.loader import evaluation_examples, training_batches
from elbowroom.datasets.weather.normal import Wanted, open_weather
from elbowroom.datasets.weather.symmetry import SymmetryError, require_symmetric_grid, turned_and_mirrored
from elbowroom.datasets.weather.windows import Windows, windows
from elbowroom.memory.plan import Chunk, Plan, Precision, Recompute
from elbowroom.memory.step import Loss
from elbowroom.models.stormer.config import StormerConfig, small
from elbowroom.models.stormer.losses import weighted_square_error
from elbowroom.models.stormer.model import Stormer, chunk_axes
from elbowroom.studies.case import Batches, Case, Features, Records, Split
from elbowroom.studies.optimizer import OptimizerSettings
from elbowroom.studies.run_folder import RunError
from elbowroom.studies.sizes import CaseSizeError, Size, Sizes
from elbowroom.studies.stormer_features import (
    FeatureMaker,
    Scaling,
    persistence_error,
    require_channels,
    require_sizes,
    scaling_of,
)
from elbowroom.studies.stormer_forecast import forecast_of, published_of_run, stormer_forecaster
from elbowroom.studies.weather_batches import FeatureBatches

BOTH = Recompute(blocks=True, modules=True)
BFLOAT16 = Precision(compute="bfloat16")
DEFAULT_PLAN = Plan(recompute=Recompute(blocks=True))
ACCELERATOR_PLAN = Plan(precision=BFLOAT16, recompute=BOTH, chunk=Chunk(rows=1024, queries=512, keys=1024))
LADDER = (
    Plan(precision=BFLOAT16),
    Plan(precision=BFLOAT16, recompute=DEFAULT_PLAN.recompute),
    Plan(precision=BFLOAT16, recompute=BOTH),
    ACCELERATOR_PLAN,
)
SIZES = {
    "channels": Size(default=7, meaning="variables that change, each level counted"),
    "latitudes": Size(default=32, meaning="grid points from pole to pole"),
    "longitudes": Size(default=64, meaning="grid points around the globe"),
    "leads": Size(default=2, meaning="a forecast is for 1, 2, ... steps of the data ahead, one of them drawn"),
    "batch": Size(default=4, meaning="examples of a step"),
}
"""The embedded data"""
OPTIMIZER = OptimizerSettings(
    learning_rate=2e-3, warmup_steps=100, beta2=0.95, clip_norm=1.0, average=0.995, weight_decay=0.05, decay=1.0
)
"""For some thousand steps of the small model; the published model takes 5e-4 for a hundred passes"""


def techniques(sizes: Sizes) -> dict[str, Plan]:
    """Plain first, then each technique alone, all exact ones together, and the same in bfloat16."""
    rows, tiles = Chunk(rows=32), Chunk(queries=32, keys=32)
    exact = Chunk(rows=32, queries=32, keys=32)
    return {
        "plain": Plan(),
        "recompute blocks": DEFAULT_PLAN,
        "recompute modules": Plan(recompute=Recompute(modules=True)),
        "recompute both": Plan(recompute=BOTH),
        "chunked rows": Plan(chunk=rows),
        "tiled attention": Plan(chunk=tiles),
        "all exact": Plan(recompute=BOTH, chunk=exact),
        "bfloat16": Plan(precision=BFLOAT16),
        "bfloat16, all": Plan(precision=BFLOAT16, recompute=BOTH, chunk=exact),
    }


@dataclass(frozen=True)
class _Forecaster:
    """The case's functions for one configuration, whose channels and grid come with the sizes."""

    config: StormerConfig

    def at(self, sizes: Sizes) -> StormerConfig:
        try:
            grid = {name: sizes[name] for name in ("channels", "latitudes", "longitudes")}
            return dataclasses.replace(self.config, **grid)
        except ValueError as error:
            raise CaseSizeError(str(error)) from None

    def parameters(self, sizes: Sizes, key: Key[Array, ""]) -> PyTree:
        return nnx.split(Stormer(self.at(sizes), rngs=nnx.Rngs(key)), nnx.Param)[1]

    def loss(self, sizes: Sizes, plan: Plan) -> Loss:
        forecast, alike = forecast_of(self.at(sizes), plan), jnp.ones((sizes["channels"],), jnp.float32)

        def loss(parameters: PyTree, example: Any, key: Any) -> tuple[Array, dict[str, Array]]:
            change, target = forecast(parameters, example), (example["target"], example["target_mask"])
            value = weighted_square_error(change, *target, example["area"], alike)
            return value, {"error": jnp.sqrt(value)}

        return loss

    def example(self, sizes: Sizes) -> Mapping[str, jax.ShapeDtypeStruct]:
        config = self.at(sizes)
        field = (config.channels, config.latitudes, config.longitudes)
        shapes = {"state": field, "target": field, "lead_hours": (), "area": (config.latitudes,)}
        return {
            **{name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()},
            **{name: jax.ShapeDtypeStruct(field, np.bool_) for name in ("mask", "target_mask")},
        }


@dataclass(frozen=True)
class _Data:
    """What the case reads; its records are one dataset in normal form."""

    symmetric: bool
    """Train on turned and mirrored weather too; right only for a planet without continents and seasons."""
    scaling: Scaling | None
    """Of the training data; None before they are known."""

    def read(self, data: Path, structures: Path | None) -> Records:
        if structures is not None:
            raise RunError("--structures: weather has none; leave it out")
        known = self.scaling
        wanted = None if known is None else Wanted(variables=known.variables, levels=known.levels or None)
        return _records(open_weather(data, wanted=wanted))

    def demo(self, split: Split) -> Records:
        return _records(demo_weather(split))

    def measure(self, records: Records, sizes: Sizes) -> Scaling:
        (dataset,) = records.items
        require_sizes(dataset, sizes)
        return scaling_of(dataset, sizes["leads"])

    def batches(self, records: Records, sizes: Sizes, seed: int) -> Batches:
        # These are training records: what is not known yet is theirs to say.
        scaling = self.measure(records, sizes) if self.scaling is None else self.scaling
        dataset, chosen, make = _cut(records, sizes, scaling)
        if self.symmetric:
            _require_symmetry(dataset)
        change = turned_and_mirrored if self.symmetric else None
        return FeatureBatches(training_batches(dataset, chosen, seed=seed, batch=sizes["batch"], change=change), make)

    def held_out(self, records: Records, sizes: Sizes) -> Sequence[tuple[str, Features]]:
        if self.scaling is None:
            raise ValueError("these records must not say how they are normalised: use `measured_on` the training ones")
        dataset, chosen, make = _cut(records, sizes, self.scaling)
        features = ((name, make(example)) for name, example in evaluation_examples(dataset, chosen))
        return [(f"{name} +{made['lead_hours']:g} h", made) for name, made in features]


def _records(dataset: xr.Dataset) -> Records:
    simulated = ["the weather is simulated, not observed"] if dataset.attrs["simulated"] else []
    return Records(items=[dataset], warnings=(*simulated, *dataset.attrs["changes"]), fingerprint=fingerprint(dataset))


def _cut(records: Records, sizes: Sizes, scaling: Scaling) -> tuple[xr.Dataset, Windows, FeatureMaker]:
    """The channels that the model knows, and every window of every lead."""
    (dataset,) = records.items
    require_channels(dataset, scaling, sizes)
    dataset = dataset[scaling.variables]
    times, leads = dataset["time"].values, range(1, sizes["leads"] + 1)
    by_lead = [windows(times, history=1, leads=[lead], step=scaling.step) for lead in leads] if len(times) > 1 else []
    chosen = [one.steps for one in by_lead if len(one)]
    if not chosen:
        raise CaseSizeError(f"the data have no two times {scaling.step_hours:g} h apart; give a longer series")
    steps, dropped = np.concatenate(chosen), sum(one.dropped for one in by_lead)
    return dataset, Windows(steps=steps, history=1, step=scaling.step, dropped=dropped), FeatureMaker(scaling, dataset)


def _require_symmetry(dataset: xr.Dataset) -> None:
    try:
        require_symmetric_grid(dataset)
    except SymmetryError as error:
        raise RunError(f"{error}; train `stormer`, which takes the weather as it is") from None


def stormer_case(name: str, config: StormerConfig, *, symmetric: bool = False, scaling: Scaling | None = None) -> Case:
    """A case of a model of any width and depth.

    Args:
      config: its channels and grid are those of the sizes.
      symmetric: whether the planet is the same at every longitude and in both hemispheres, so that turned and mirrored
        weather is as good to learn from; the Earth is not.
      scaling: statistics of the data that the model was trained on.
    """
    model, data = _Forecaster(config), _Data(symmetric, scaling)
    shape = {key: getattr(config, key) for key in ("patch", "width", "depth", "heads", "mlp_factor")}

    def measured_on(records: Records, sizes: Sizes) -> Case:
        return stormer_case(name, config, symmetric=symmetric, scaling=data.measure(records, sizes))

    def axes(sizes: Sizes) -> Mapping[str, Mapping[str, int]]:
        return chunk_axes({"patch": config.patch, **{key: sizes[key] for key in ("latitudes", "longitudes")}})

    return Case(
        name=name,
        unit="grid points",
        sizes=SIZES,
        optimizer=OPTIMIZER,
        plan=DEFAULT_PLAN,
        accelerator_plan=ACCELERATOR_PLAN,
        ladder=LADDER,
        techniques=techniques,
        compared_sizes={},
        score="error",
        score_meaning="area-weighted root mean square error of normalised changes",
        prior_meaning="persistence: nothing changes",
        model={**shape, "symmetric": symmetric, **({} if scaling is None else {"statistics": scaling.to_dict()})},
        parameters=model.parameters,
        loss=model.loss,
        example=model.example,
        chunk_axes=axes,
        stacks=lambda sizes: {"Transformer": config.depth},
        read=data.read,
        demo=data.demo,
        batches=data.batches,
        held_out=data.held_out,
        prior=lambda records: persistence_error,
        measured_on=measured_on if scaling is None else None,
        published=published_of_run,
        forecaster=stormer_forecaster,
    )


STORMER = stormer_case("stormer", small())
"""2.96 million parameters, which two CPU cores can train."""
STORMER_SYMMETRIC = stormer_case("stormer-symmetric", small(), symmetric=True)
"""The same for planets without continents and seasons, such as the embedded one."""
