"""Held-out score of a trained model, and of the prior that it must beat, on the same examples."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree

from elbowroom.memory.plan import Plan
from elbowroom.studies.case import Case, Features
from elbowroom.studies.sizes import Sizes

BOOTSTRAP_DRAWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Score:
    """A mean over examples with its bootstrap 95 % confidence interval."""

    mean: float
    low: float
    high: float
    examples: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def score_of(values: Float[np.ndarray, "example"]) -> Score:
    """Mean over examples; the interval is of the mean over examples drawn anew with replacement, seed 0."""
    draws = np.random.default_rng(0).integers(len(values), size=(BOOTSTRAP_DRAWS, len(values)))
    low, high = np.percentile(values[draws].mean(axis=1), [2.5, 97.5])
    return Score(mean=float(values.mean()), low=float(low), high=float(high), examples=len(values))


def model_scores(
    case: Case,
    sizes: Sizes,
    plan: Plan,
    parameters: PyTree,
    examples: Sequence[tuple[str, Features]],
    seen: Callable[[], None] = lambda: None,
) -> Float[np.ndarray, "example"]:
    """The case's score of every example without dropout, under the memory plan of training.

    `seen` is called after each example.
    """
    loss: Callable[..., Any] = case.loss(sizes, plan)

    @jax.jit
    def score(parameters: PyTree, example: Mapping[str, Any]) -> Any:
        return loss(parameters, example, None)[1][case.score]

    values = []
    for _, features in examples:
        values.append(float(score(parameters, features)))
        seen()
    return np.asarray(values)


def prior_scores(
    prior: Callable[[Features], float], examples: Sequence[tuple[str, Features]]
) -> Float[np.ndarray, "example"]:
    """The baseline predictor's score of every example."""
    return np.asarray([prior(features) for _, features in examples])
