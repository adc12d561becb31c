"""Forecasts of a trained model, step by step, at the plan that the memory at hand allows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, Int, PyTree

from elbowroom.datasets.weather.examples import HOURS, Example
from elbowroom.datasets.weather.times import Times, written
from elbowroom.datasets.weather.windows import histories
from elbowroom.memory.audit import check_chunks
from elbowroom.memory.budget import BudgetError
from elbowroom.memory.footprint.compiled import compile_forward
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Plan
from elbowroom.studies.peak import free_memory

type Fields = Mapping[str, Float[np.ndarray, "..."]]
"""Variables of one time by their short names, in the units of the normal form: [level, lat, lon] or [lat, lon]."""
type Advance = Callable[[PyTree, PyTree, PyTree], tuple[PyTree, PyTree]]
"""(parameters, state, condition) -> the state a step later, and what is predicted for then; can be traced."""


class ForecastError(ValueError):
    """A forecast that the data do not allow, or that is no weather."""


@runtime_checkable
class Forecaster(Protocol):
    """A trained model on the grid of some data: what a weather case offers to `predict` and `evaluate`."""

    @property
    def parameters(self) -> PyTree: ...

    @property
    def origin(self) -> str:
        """Where the parameters come from: a run and its step, or a file."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of its forecasts should know, a sentence each."""
        ...

    @property
    def history(self) -> int:
        """Times given to a forecast, `step` apart, the newest being its start."""
        ...

    @property
    def step(self) -> np.timedelta64:
        """From one predicted time to the next."""
        ...

    @property
    def variables(self) -> Sequence[str]:
        """Short names of what is predicted."""
        ...

    @property
    def latitudes(self) -> Float[np.ndarray, "lat"]:
        """Of the forecasts: the data's, some of the last left out if need be."""
        ...

    @property
    def ladder(self) -> Sequence[Plan]:
        """From the plain forward pass to the leanest; all give the same forecast."""
        ...

    @property
    def chunk_axes(self) -> Mapping[str, Mapping[str, int]]:
        """For each field of `Plan.chunk`, the axes that it cuts and their lengths."""
        ...

    def start(self, given: Example) -> PyTree:
        """The state from which the first step starts; finite, whatever is missing of the given times."""
        ...

    def condition(self, newest: float) -> PyTree:
        """What a step needs besides the state.

        Args:
          newest: the time that the step starts from, in hours since 1970-01-01 00 UTC.
        """
        ...

    def advance(self, plan: Plan) -> Advance:
        """One step under a plan."""
        ...

    def fields(self, predicted: PyTree) -> Fields:
        """What a step predicted, in physical units."""
        ...


class Forecasts:
    """Forecasts one after the other. The step is compiled once, and no more than one state is held."""

    def __init__(
        self,
        forecaster: Forecaster,
        first: Example,
        *,
        budget: int | None = None,
        plan: Plan | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Raises `BudgetError` where even the leanest plan needs more memory than there is.

        Args:
          first: what is given to a forecast; all others are of its shape.
          budget: bytes; None for what is free on the device.
          plan: None takes the first of the forecaster's ladder within the budget.
        """
        self.forecaster = forecaster
        if plan is not None:
            check_chunks(plan, forecaster.chunk_axes)
        if budget is None:
            # The parameters are there already, and the compiler counts them as well.
            budget = free_memory() + sum(leaf.nbytes for leaf in jax.tree.leaves(forecaster.parameters))
        self._run, self.plan, self.peak = _fitting(
            forecaster, first, forecaster.ladder if plan is None else [plan], budget, tell
        )

    def __call__(self, given: Example, steps: int) -> Iterator[Fields]:
        """The weather one step after the newest time given, then after that, and so on.

        Raises `ForecastError` where it is not finite.
        """
        state, hours = self.forecaster.start(given), float(given[HOURS][-1])
        for number in range(steps):
            ahead = number * float(self.forecaster.step / np.timedelta64(1, "h"))
            condition = self.forecaster.condition(hours + ahead)
            state, predicted = self._run(self.forecaster.parameters, state, condition)
            fields = self.forecaster.fields(predicted)
            _require_finite(fields, number + 1)
            yield fields


def chosen_starts(
    times: Times, *, history: int, step: np.timedelta64, first: str | None, every: int | None
) -> Int[np.ndarray, "start time"]:
    """Places in time of what is given to each forecast, the start itself last.

    Raises `ForecastError` where there is no such start.

    Args:
      first: the start, or with `every` the first one; None for the newest, or with `every` the first that there is.
      every: hours between starts up to the newest.
    """
    found = histories(times, history=history, step=step)
    if not len(found):
        hours = step / np.timedelta64(1, "h")
        raise ForecastError(f"the data have no {history} times {hours:g} h apart to start from; give a longer series")
    there = times[found[:, -1]]
    at = None if first is None else _time(first)
    if at is not None and at not in there:
        raise ForecastError(
            f"--start {first}: nothing can start there; starts with the {history} times they need are "
            f"{written(there[0])} to {written(there[-1])}"
        )
    if every is None:
        return found[-1:] if at is None else found[there == at]
    begin = there[0] if at is None else at
    return found[(there >= begin) & ((there - begin) % np.timedelta64(every, "h") == np.timedelta64(0, "h"))]


def _fitting(
    forecaster: Forecaster, first: Example, plans: Sequence[Plan], budget: int, tell: Callable[[str], None]
) -> tuple[Callable[..., Any], Plan, int]:
    state, condition = forecaster.start(first), forecaster.condition(0.0)
    least = 0
    for plan in plans:
        run, least = compile_forward(forecaster.advance(plan), forecaster.parameters, state, condition)
        tell(f"{plan}: {format_size(least)} (compiled) of {format_size(budget)}")
        if least <= budget:
            return run, plan, least
    raise BudgetError(
        f"a step needs {format_size(least)} even with {plans[-1]}, there are {format_size(budget)}; "
        "give a larger --budget if there is more, or data on a coarser grid"
    )


def _require_finite(fields: Fields, number: int) -> None:
    for name, field in fields.items():
        if not np.isfinite(field).all():
            raise ForecastError(
                f"{name} is not finite in step {number}; the parameters are damaged, or their training diverged"
            )


def _time(text: str) -> np.datetime64:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ForecastError(f"--start {text!r} is no time; write it as 2020-01-31T12") from None
    return np.datetime64(found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None), "ns")
