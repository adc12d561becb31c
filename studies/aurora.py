"""The Aurora cases: the weather one step of the data later, against persistence."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from flax import nnx
from jaxtyping import Array, Key, PyTree

from elbowroom.datasets.weather.fingerprint import fingerprint
from elbowroom.datasets.weather.loader import evaluation_examples, training_batches
from elbowroom.datasets.weather.normal import Wanted, open_weather
from elbowroom.datasets.weather.windows import Windows, windows
from elbowroom.memory.plan import Chunk, OptimizerState, Plan, Precision, Recompute
from elbowroom.memory.step import Loss
from elbowroom.models.aurora.config import AuroraConfig, pretrained, small
from elbowroom.models.aurora.encodings import Encodings
from elbowroom.models.aurora.losses import VariableWeights, weather_loss
from elbowroom.models.aurora.model import Aurora, History, Weather, chunk_axes
from elbowroom.models.aurora.rollout import roll_out
from elbowroom.studies.aurora_features import STATIC_NAMES, FeatureMaker, require_grid
from elbowroom.studies.aurora_forecast import aurora_forecaster, published_of_run, published_parameters
from elbowroom.studies.case import Batches, Case, Features, Records, Split
from elbowroom.studies.optimizer import OptimizerSettings
from elbowroom.studies.parameter_file import file_fingerprint
from elbowroom.studies.run_folder import RunError
from elbowroom.studies.sizes import CaseSizeError, Size, Sizes
from elbowroom.studies.weather_batches import FeatureBatches

BOTH = Recompute(blocks=True, modules=True)
BFLOAT16 = Precision(compute="bfloat16")
LEAN = Plan(precision=BFLOAT16, recompute=BOTH, chunk=Chunk(rows=6))
"""Rows of six patches are one row of the published windows."""
DEFAULT_PLAN = Plan(recompute=Recompute(blocks=True))
LADDER = (
    Plan(precision=BFLOAT16),
    Plan(precision=BFLOAT16, recompute=DEFAULT_PLAN.recompute),
    Plan(precision=BFLOAT16, recompute=BOTH, chunk=Chunk(rows=24)),
    LEAN,
    dataclasses.replace(LEAN, optimizer=OptimizerState(rule="adam-8bit")),
)
SIZES = {
    "latitudes": Size(default=721, meaning="grid points from pole to pole"),
    "longitudes": Size(default=1440, meaning="grid points around the globe"),
    "levels": Size(default=13, meaning="pressure levels"),
    "steps": Size(default=1, meaning="steps of a roll-out, each from what the one before predicted"),
    "batch": Size(default=1, meaning="examples of a step"),
}
"""ERA5 at 0.25 degree"""
PUBLISHED = OptimizerSettings(
    learning_rate=5e-4, epsilon=1e-8, clip_norm=1.0, average=None, weight_decay=5e-6, decay=1.0
)
"""Bodnar et al. 2025, Supplement C; the rate of pretraining, without its cosine decay"""
COMPARED = {"latitudes": 33, "longitudes": 64, "levels": 3}
KINDS = ("target", "valid")


def techniques(sizes: Sizes) -> dict[str, Plan]:
    """Plain first, then each technique alone, all exact ones together, and the same in bfloat16."""
    rows = Chunk(rows=max(1, sizes["latitudes"] // 32))
    return {
        "plain": Plan(),
        "recompute blocks": DEFAULT_PLAN,
        "recompute modules": Plan(recompute=Recompute(modules=True)),
        "chunked rows": Plan(chunk=rows),
        "all exact": Plan(recompute=BOTH, chunk=rows),
        "bfloat16": Plan(precision=BFLOAT16),
        "bfloat16, all": Plan(precision=BFLOAT16, recompute=BOTH, chunk=rows),
    }


@dataclass(frozen=True)
class _Forecaster:
    """The case's functions for one configuration."""

    config: AuroraConfig
    weights: VariableWeights = dataclasses.field(default_factory=VariableWeights)

    def parameters(self, sizes: Sizes, key: Key[Array, ""]) -> PyTree:
        return nnx.split(Aurora(self.config, rngs=nnx.Rngs(key)), nnx.Param)[1]

    def loss(self, sizes: Sizes, plan: Plan) -> Loss:
        graph, _ = nnx.split(nnx.eval_shape(lambda: Aurora(self.config, rngs=nnx.Rngs(0))), nnx.Param)
        names = (self.config.surface, self.config.atmosphere)

        def loss(parameters: PyTree, example: Any, key: Any) -> tuple[Array, dict[str, Array]]:
            def score(found: Weather, at: tuple[Weather, Weather]) -> tuple[Array, dict[str, Array]]:
                return weather_loss(found, *at, example["area"], names, self.weights)

            history = History(*(example[part] for part in History._fields))
            where = Encodings(**{part: example[f"at_{part}"] for part in Encodings._fields})
            targets = tuple(Weather(*(example[f"{kind}_{part}"] for part in Weather._fields)) for kind in KINDS)
            model = nnx.merge(graph, parameters)
            return roll_out(model, history, where, example["at_date"], targets, score, plan)

        return loss

    def example(self, sizes: Sizes) -> Mapping[str, jax.ShapeDtypeStruct]:
        """Shapes of one example, on the latitudes that make whole patches."""
        config, steps, levels = self.config, sizes["steps"], sizes["levels"]
        grid = (sizes["latitudes"] // config.patch * config.patch, sizes["longitudes"])
        rows, columns, channels = grid[0] // config.patch, grid[1] // config.patch, config.channels
        fields = {"surface": (len(config.surface),), "atmosphere": (len(config.atmosphere), levels)}
        shapes: dict[str, tuple[int, ...]] = {
            "surface": (len(config.surface), config.history, *grid),
            "static": (len(config.static), *grid),
            "atmosphere": (len(config.atmosphere), config.history, levels, *grid),
            "area": grid[:1],
            "at_latitude": (rows, channels // 2),
            "at_longitude": (columns, channels // 2),
            "at_area": (rows, 1, channels),
            "at_level": (levels, channels),
            "at_query": (levels, 2 * channels),
            "at_lead_time": (channels,),
            "at_date": (steps, channels),
            **{f"target_{part}": (steps, *lead, *grid) for part, lead in fields.items()},
            **{f"valid_{part}": (steps, *lead, *grid) for part, lead in fields.items()},
        }
        return {
            name: jax.ShapeDtypeStruct(shape, np.bool_ if name.startswith("valid") else np.float32)
            for name, shape in shapes.items()
        }


@dataclass(frozen=True)
class _Data:
    """What the case reads for one configuration; its records are one dataset in normal form."""

    config: AuroraConfig

    def read(self, data: Path, structures: Path | None) -> Records:
        if structures is not None:
            raise RunError("--structures: weather has none; leave it out")
        static = [STATIC_NAMES.get(name, name) for name in self.config.static]
        wanted = Wanted(variables=[*self.config.surface, *static, *self.config.atmosphere])
        dataset = open_weather(data, wanted=wanted)
        return Records(items=[dataset], warnings=tuple(dataset.attrs["changes"]), fingerprint=fingerprint(dataset))

    def demo(self, split: Split) -> Records:
        raise RunError("there is no embedded weather with Aurora's variables; give --data")

    def batches(self, records: Records, sizes: Sizes, seed: int) -> Batches:
        dataset, chosen, make = self._cut(records, sizes)
        return FeatureBatches(training_batches(dataset, chosen, seed=seed, batch=sizes["batch"]), make)

    def held_out(self, records: Records, sizes: Sizes) -> Sequence[tuple[str, Features]]:
        dataset, chosen, make = self._cut(records, sizes)
        return [(name, make(example)) for name, example in evaluation_examples(dataset, chosen)]

    def _cut(self, records: Records, sizes: Sizes) -> tuple[xr.Dataset, Windows, FeatureMaker]:
        (dataset,) = records.items
        require_grid(dataset, sizes)
        try:
            chosen = windows(dataset["time"].values, history=self.config.history, leads=range(1, sizes["steps"] + 1))
        except ValueError as error:
            raise CaseSizeError(str(error)) from None
        if not len(chosen):
            raise CaseSizeError(
                f"the data has no {self.config.history + sizes['steps']} times in a row; give a longer series"
            )
        lead = float(chosen.step / np.timedelta64(1, "h"))
        return dataset, chosen, FeatureMaker(self.config, dataset, lead, sizes["steps"])


def persistence(records: Records) -> Callable[[Features], float]:
    """The score of the forecast that nothing changes; it learns nothing from the records."""

    def score(example: Features) -> float:
        errors = []
        for part in Weather._fields:
            newest, weight = example[part][:, -1], example["area"][:, None]
            targets, valid = example[f"target_{part}"], example[f"valid_{part}"]
            axes = tuple(range(2, targets.ndim))
            counted = np.broadcast_to(weight, targets.shape) * valid
            apart = (np.abs(np.where(valid, targets - newest, 0)) * counted).sum(axes)
            errors.append(apart / np.maximum(counted.sum(axes), 1e-30))
        return float(np.concatenate(errors, axis=1).mean())

    return score


def aurora_case(name: str, config: AuroraConfig) -> Case:
    """A case of a model of any size."""
    model, data = _Forecaster(config), _Data(config)
    depths = {f"down {i}": depth for i, depth in enumerate(config.down_depths)}
    depths |= {f"up {i}": depth for i, depth in enumerate(config.up_depths)}

    def starting_from(path: Path) -> Case:
        given = published_parameters(path, config)
        case = aurora_case(name, config)
        return dataclasses.replace(case, parameters=lambda sizes, key: given, start=file_fingerprint(path))

    return Case(
        name=name,
        unit="grid points",
        sizes=SIZES,
        optimizer=PUBLISHED,
        plan=DEFAULT_PLAN,
        accelerator_plan=LEAN,
        ladder=LADDER,
        techniques=techniques,
        compared_sizes=COMPARED,
        score="error",
        score_meaning="area-weighted mean absolute error of normalised variables",
        prior_meaning="persistence: nothing changes",
        model={key: list(value) if isinstance(value, tuple) else value for key, value in vars(config).items()},
        parameters=model.parameters,
        loss=model.loss,
        example=model.example,
        chunk_axes=lambda sizes: chunk_axes(config, sizes["latitudes"]),
        stacks=lambda sizes: depths,
        read=data.read,
        demo=data.demo,
        batches=data.batches,
        held_out=data.held_out,
        prior=persistence,
        starting_from=starting_from,
        published=published_of_run,
        forecaster=lambda place, dataset: aurora_forecaster(place, dataset, config),
    )


PRESETS = {"aurora": pretrained(), "aurora-small": small()}
"""The published 1.256 billion parameters, at 0.25 degree; and 113 million"""
AURORA, AURORA_SMALL = (aurora_case(name, config) for name, config in PRESETS.items())
