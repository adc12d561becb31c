"""A case study: one model, its data, loss, metrics, baseline and sizes, as everything in this folder sees them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
import xarray as xr
from jaxtyping import Array, Key, PyTree

from elbowroom.memory.plan import Plan
from elbowroom.memory.step import Loss
from elbowroom.studies.forecast import Forecaster
from elbowroom.studies.optimizer import OptimizerSettings
from elbowroom.studies.sizes import Size, Sizes

type Features = Mapping[str, np.ndarray]
"""The arrays of one example, or of a batch with the examples on the first axis, by name."""


type Split = Literal["train", "test"]

RANDOM = "random"
"""The start of a case whose parameters are drawn."""


class Batch(NamedTuple):
    """What one step consumes."""

    names: tuple[str, ...]
    """Which records the examples come from, for messages."""
    features: Features
    amount: int
    """How much the batch holds in the case's unit, such as residues."""


@runtime_checkable
class Batches(Protocol):
    """An endless iterator over batches that can say where it is and be put back there."""

    def __next__(self) -> Batch: ...

    def get_state(self) -> dict[str, Any]:
        """Where the iterator is, in plain types that JSON can hold."""
        ...

    def set_state(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Records:
    """What was read from the user's files."""

    items: Sequence[Any]
    """In the case's own type, such as proteins."""
    warnings: tuple[str, ...] = ()
    fingerprint: str
    """Equal for equal content, so that a resumed run is known to see the same data."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model that can be trained, evaluated, measured and compared under any `Plan`."""

    name: str
    unit: str
    """What throughput counts, such as residues."""
    sizes: Mapping[str, Size]
    """Must hold `batch`, the examples of a step."""
    optimizer: OptimizerSettings
    plan: Plan
    """Used on a CPU when the user chooses neither a plan nor a budget."""
    accelerator_plan: Plan
    """The same on a GPU or TPU; cuts that cut nothing at the sizes of a run are left out."""
    ladder: Sequence[Plan]
    """Plans for accelerators, from the least arithmetic to the least memory"""
    techniques: Callable[[Sizes], Mapping[str, Plan]]
    """Plans to compare at these sizes, by name; the first is the baseline."""
    compared_sizes: Mapping[str, int]
    """Sizes that differ in a comparison, whose baseline must fit the machine."""
    score: str
    """The metric of the loss that evaluation reports; lower is better."""
    score_meaning: str
    prior_meaning: str

    model: Mapping[str, Any]
    """What decides the model apart from the sizes, in types that JSON can hold."""
    start: str = RANDOM
    """Where `parameters` come from: drawn, or the fingerprint of a file."""

    parameters: Callable[[Sizes, Key[Array, ""]], PyTree]
    """Parameters to start from; can be traced."""
    loss: Callable[[Sizes, Plan], Loss]
    """The loss under a plan; a key of None means evaluation, without dropout."""
    example: Callable[[Sizes], Mapping[str, jax.ShapeDtypeStruct]]
    """Shapes and dtypes of one example."""
    chunk_axes: Callable[[Sizes], Mapping[str, Mapping[str, int]]]
    """For each field of `Plan.chunk`, the axes that it cuts and their lengths."""
    stacks: Callable[[Sizes], Mapping[str, int]]
    """The stacks of equal blocks, which `Plan.recompute.groups` cuts, and how many blocks each has."""
    read: Callable[[Path, Path | None], Records]
    """Read the user's data, and structures from a second place if they are kept apart."""
    demo: Callable[[Split], Records]
    """Embedded data of a split."""
    batches: Callable[[Records, Sizes, int], Batches]
    """Shuffled training batches for a seed."""
    held_out: Callable[[Records, Sizes], Sequence[tuple[str, Features]]]
    """Named examples to evaluate on, the same at every call."""
    prior: Callable[[Records], Callable[[Features], float]]
    """Learn the baseline predictor from training records; it gives the score of an example."""
    starting_from: Callable[[Path], "Case"] | None = None
    """The same case with the published parameters of a file to start from."""
    measured_on: Callable[[Records, Sizes], "Case"] | None = None
    """The same case with what it must know of training records first, such as their mean, which becomes part of its
    `model`; None where there is nothing to know, or where it is known already."""
    published: Callable[[Path], Mapping[str, Any]] | None = None
    """The parameters of a run's folder under their published names."""
    forecaster: Callable[[Path, xr.Dataset], Forecaster] | None = None
    """Of weather: a trained model, from a run's folder or a file of parameters, on the grid of a dataset."""


def abstract_batch(case: Case, sizes: Sizes) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of what one step consumes."""
    return {
        name: jax.ShapeDtypeStruct((sizes["batch"], *leaf.shape), leaf.dtype)
        for name, leaf in case.example(sizes).items()
    }
