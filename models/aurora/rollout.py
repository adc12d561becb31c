"""Several steps, each starting from what the one before predicted."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from elbowroom.memory.plan import Plan
from elbowroom.memory.recompute import recomputed_block
from elbowroom.models.aurora.encodings import Encodings
from elbowroom.models.aurora.model import Aurora, History, Weather

type Score = Callable[[Weather, PyTree], PyTree]
"""(a step's prediction, what came of it) -> numbers to average over steps."""


def roll_out(
    model: Aurora,
    history: History,
    encodings: Encodings,
    dates: Float[Array, "step c"],
    targets: PyTree,
    score: Score,
    plan: Plan,
) -> PyTree:
    """The mean of every step's score.

    With recompute of blocks, of every step only what it starts from is kept.

    Args:
      dates: the encodings of the newest time given to each step.
      targets: what `score` compares with, the steps on the first axis.
    """

    def step(history: History, at: tuple[Array, PyTree]) -> tuple[History, PyTree]:
        found = model(history, encodings._replace(date=at[0]), plan)
        return history.after(found), score(found, at[1])

    if dates.shape[0] == 1:
        return step(history, jax.tree.map(lambda x: x[0], (dates, targets)))[1]
    _, scores = jax.lax.scan(recomputed_block(step, plan), history, (dates, targets))
    return jax.tree.map(lambda x: jnp.mean(x, axis=0), scores)
