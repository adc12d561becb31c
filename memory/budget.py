"""The fastest plan whose train step fits a budget of device memory."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from jaxtyping import PyTree

from elbowroom.memory.footprint.compiled import Compiled, compile_step
from elbowroom.memory.footprint.footprint import Footprint
from elbowroom.memory.footprint.formula import formula_footprint
from elbowroom.memory.footprint.size import UNITS, format_size
from elbowroom.memory.plan import Chunk, Plan, Recompute

_BOTH = Recompute(blocks=True, modules=True)

LADDER: tuple[Plan, ...] = (
    Plan(),
    # The inside of a few rows at a time. Each row is computed once more, but from the processor's cache: on CPU this
    # is faster than the plain program.
    Plan(chunk=Chunk(rows=64)),
    Plan(chunk=Chunk(rows=16)),
    # One more forward pass: what stays is the inputs of blocks, and the inside of one block at a time.
    Plan(recompute=Recompute(blocks=True), chunk=Chunk(rows=64)),
    Plan(recompute=Recompute(blocks=True), chunk=Chunk(rows=16)),
    # Two more: one module's inside at a time; then tiles bound attention's logits too.
    Plan(recompute=_BOTH, chunk=Chunk(rows=16)),
    Plan(recompute=_BOTH, chunk=Chunk(rows=16, queries=128, keys=128)),
    Plan(recompute=_BOTH, chunk=Chunk(rows=4, queries=64, keys=64)),
    # A third pass: of a deep stack only the inputs of groups stay. 7 is near the square root of AlphaFold's 48 blocks.
    Plan(recompute=Recompute(blocks=True, modules=True, groups=7), chunk=Chunk(rows=4, queries=64, keys=64)),
)
"""From the fastest plan to the leanest. All compute the same numbers; bfloat16 would save more and is not among them,
because it changes the result: it is the user's to choose."""

HOPELESS = 1.3
"""A plan is not compiled when its estimate is this many times the budget: twice the formula's tolerance of 15 %."""


class BudgetError(ValueError):
    """No plan, or not the plan given, fits the budget."""


class Trial(NamedTuple):
    """A plan considered, and the compiler's word on it, or the formula's where that was hopeless already."""

    plan: Plan
    footprint: Footprint


class Fit(NamedTuple):
    """The first plan of the ladder to fit, compiled, and all plans considered on the way."""

    plan: Plan
    compiled: Compiled
    tried: tuple[Trial, ...]


def fit(
    step_of: Callable[[Plan], Callable[..., Any]],
    state: PyTree,
    batch: PyTree,
    budget_bytes: int,
    *,
    candidates: Sequence[Plan] = LADDER,
    report: Callable[[Trial], None] = lambda trial: None,
) -> Fit:
    """The first of `candidates` whose compiled peak is at most `budget_bytes`.

    The formula passes over plans that are far too large; the compiler decides about the others. Nothing runs.

    Args:
      step_of: builds the train step of a plan.
      candidates: from the fastest to the leanest.
      report: called with each trial, to show progress: a compilation can take a minute.

    Raises `BudgetError` when none fits, with what the leanest needs.
    """
    tried: list[Trial] = []

    def record(plan: Plan, footprint: Footprint) -> None:
        tried.append(Trial(plan, footprint))
        report(tried[-1])

    for plan in candidates:
        step = step_of(plan)
        estimate = formula_footprint(step, state, batch)
        if estimate.peak > HOPELESS * budget_bytes and plan is not candidates[-1]:
            record(plan, estimate)
            continue
        compiled = compile_step(step, state, batch)
        record(plan, compiled.footprint)
        if compiled.footprint.peak <= budget_bytes:
            return Fit(plan, compiled, tuple(tried))
    leanest = min((t for t in tried if t.footprint.provenance == "compiled"), key=lambda t: t.footprint.peak)
    raise BudgetError(_too_small(leanest, budget_bytes))


def _too_small(leanest: Trial, budget_bytes: int) -> str:
    needed = leanest.footprint.peak
    return (
        f"no plan fits {format_size(budget_bytes)}: the leanest ({leanest.plan}) needs {format_size(needed)}; "
        f"give a budget of at least {_rounded_up(needed)}, or train on a smaller crop or on fewer rows"
    )


def _rounded_up(size: int) -> str:
    """A size that is no less, in a form that a budget can be given in."""
    unit = "GiB" if size >= 10 * UNITS["GiB"] else "MiB"
    return f"{-(-size // UNITS[unit])}{unit}"
