"""Memory, time and accuracy of techniques, each beside the plain float32 program of the same step."""

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from elbowroom.memory.footprint.compiled import Compiled, compile_step
from elbowroom.memory.plan import Plan
from elbowroom.memory.step import TrainState, initial_state, make_step
from elbowroom.studies.case import Case, Features, abstract_batch
from elbowroom.studies.optimizer import make_optimizer
from elbowroom.studies.provenance import result_row
from elbowroom.studies.sizes import Sizes

REPEATS = 7
"""Timed steps of each plan, in turns with the baseline; medians are reported."""
NOISE = 0.02
"""Added to fresh parameters: output layers that start at zero would hide every difference behind them."""
SMALL = 1e-3
"""A parameter whose gradient is smaller than this share of the largest is compared on that share's scale: some
gradients are zero by symmetry, and rounding is all there is to see in them."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is compared: one case at one set of sizes."""

    case: Case
    sizes: Sizes
    plans: Mapping[str, Plan]
    """By name; the first is the baseline."""

    def step(self, plan: Plan) -> Callable[..., Any]:
        """Unclipped, so that Adam's first moment after one step gives the gradient back."""
        optimizer = make_optimizer(self.case.optimizer, plan)
        return make_step(self.case.loss(self.sizes, plan), optimizer, plan)

    def state(self, plan: Plan) -> TrainState:
        parameters_key, noise_key, key = jax.random.split(jax.random.key(0), 3)
        parameters = self.case.parameters(self.sizes, parameters_key)
        leaves, tree = jax.tree.flatten(parameters)
        keys = jax.random.split(noise_key, len(leaves))
        noisy = [
            leaf + NOISE * jax.random.normal(k, leaf.shape, leaf.dtype) for leaf, k in zip(leaves, keys, strict=True)
        ]
        return initial_state(jax.tree.unflatten(tree, noisy), make_optimizer(self.case.optimizer, plan), key)

    def compile(self, plan: Plan) -> Compiled:
        state = jax.eval_shape(lambda: self.state(plan))
        return compile_step(self.step(plan), state, abstract_batch(self.case, self.sizes))


def compiled_rows(comparison: Comparison, store: Path, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """A row of compiled memory for each plan. Rows found in `store` are kept; new ones are added as they come."""

    def find(name: str, plan: Plan) -> dict[str, Any]:
        tell(f"compiling {name}")
        return {"footprint": comparison.compile(plan).footprint.to_dict()}

    return _rows(comparison, "compiled", store, find)


def measured_rows(
    comparison: Comparison, batch: Features, store: Path, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Compiled memory, step time, and difference of loss and gradients for each plan, all on the same batch.

    Steps of a plan and of the baseline take turns in this process, so that a machine which slows down slows both.
    Rows found in `store` are kept; new ones are added as they come.
    """
    plain: list[_Running] = []

    def find(name: str, plan: Plan) -> dict[str, Any]:
        if not plain:
            tell("compiling and running the baseline")
            plain.append(_Running(comparison, next(iter(comparison.plans.values())), batch))
        tell(f"compiling and running {name}")
        running = plain[0] if plan == plain[0].plan else _Running(comparison, plan, batch)
        pairs = [(running.seconds_of_a_step(), plain[0].seconds_of_a_step()) for _ in range(REPEATS)]
        return {
            "footprint": running.compiled.footprint.to_dict(),
            "step_seconds": statistics.median(own for own, _ in pairs),
            "time_ratio": statistics.median(own / base for own, base in pairs),
            "loss": running.loss,
            "loss_difference": abs(running.loss - plain[0].loss) / abs(plain[0].loss),
            "gradient_difference": gradient_difference(running.gradient, plain[0].gradient),
        }

    return _rows(comparison, "measured", store, find)


class _Running:
    """A plan's compiled step with its state, after one step that gave loss and gradient."""

    def __init__(self, comparison: Comparison, plan: Plan, batch: Features) -> None:
        self.plan, self.compiled = plan, comparison.compile(plan)
        self._batch = jax.device_put(dict(batch))
        self._state, metrics = self.compiled.executable(comparison.state(plan), self._batch)
        self.loss = float(metrics["loss"])
        first_moment = optax.tree.get(self._state.optimizer, "mu")
        scale = np.float32(1 - comparison.case.optimizer.beta1)
        self.gradient = [np.asarray(leaf, np.float32) / scale for leaf in jax.tree.leaves(first_moment)]

    def seconds_of_a_step(self) -> float:
        began = time.perf_counter()
        self._state, _ = jax.block_until_ready(self.compiled.executable(self._state, self._batch))
        return time.perf_counter() - began


def gradient_difference(gradient: Sequence[np.ndarray], plain: Sequence[np.ndarray]) -> float:
    """The largest difference in any parameter's gradient, relative to that gradient's largest element."""
    largest = max(float(np.abs(leaf).max()) for leaf in plain)
    scales = [max(float(np.abs(leaf).max()), SMALL * largest) for leaf in plain]
    gaps = [float(np.abs(g - p).max()) for g, p in zip(gradient, plain, strict=True)]
    return max(gap / scale for gap, scale in zip(gaps, scales, strict=True))


def _rows(
    comparison: Comparison, how: str, store: Path, find: Callable[[str, Plan], dict[str, Any]]
) -> list[dict[str, Any]]:
    rows = json.loads(store.read_text(encoding="utf-8")) if store.exists() else []
    wanted = []
    for name, plan in comparison.plans.items():
        bare = {"name": name, **result_row(case=comparison.case.name, sizes=comparison.sizes, plan=plan, how=how)}
        row = next((row for row in rows if bare.items() <= row.items()), None)
        if row is None:
            row = {**bare, **find(name, plan)}
            rows.append(row)
            save_rows(store, rows)
        wanted.append(row)
    return wanted


def save_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the file at once, so that an interruption never leaves half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(list(rows), indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)
