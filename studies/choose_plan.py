"""Which plan a run gets: the one that the user wrote, the one that a budget asks for, or the case's default."""

import bisect
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from elbowroom.memory.audit import check_chunks, check_groups, check_kernels, check_names
from elbowroom.memory.budget import LADDER, BudgetError, Fit, fit
from elbowroom.memory.footprint.compiled import Compiled, compile_step
from elbowroom.memory.footprint.size import format_size, parse_size
from elbowroom.memory.kernels import check_kernel
from elbowroom.memory.offload import shardings
from elbowroom.memory.plan import Chunk, Kernels, Plan
from elbowroom.memory.step import TrainState, initial_state
from elbowroom.studies.case import Case, abstract_batch
from elbowroom.studies.optimizer import OptimizerSettings, make_optimizer
from elbowroom.studies.sizes import Sizes
from elbowroom.studies.train import state_sharding, step_of


class Choice(NamedTuple):
    """A plan, and its train step where that had to be compiled to choose."""

    plan: Plan
    compiled: Compiled | None = None


def choose_plan(
    case: Case, sizes: Sizes, *, plan_file: Path | None, budget: str | None, tell: Callable[[str], None]
) -> Choice:
    """A plan that is known to do what it says, and to fit `budget` bytes of device memory if there is one.

    Raises `PlanError` for a plan that cannot be used or does nothing, `BudgetError` when the given plan is too large
    or no plan is small enough.
    """
    if plan_file is None and budget is not None:
        fit = fitted(case, sizes, case.optimizer, parse_size(budget), tell)
        return Choice(fit.plan, fit.compiled)
    if plan_file is None:
        return Choice(default_plan(case, sizes, accelerator=jax.default_backend() != "cpu"))
    plan = Plan.load(plan_file)
    check_plan(case, sizes, plan)
    if budget is None:
        return Choice(plan)
    compiled = compiled_step_of(case, sizes, case.optimizer, plan)
    if compiled.footprint.peak > parse_size(budget):
        raise BudgetError(
            f"{plan_file} needs {format_size(compiled.footprint.peak)} (compiled), more than --budget {budget}; "
            "leave --plan out to have a plan chosen, or raise the budget"
        )
    return Choice(plan, compiled)


def default_plan(case: Case, sizes: Sizes, *, accelerator: bool) -> Plan:
    """What a user gets who chooses neither a plan nor a budget."""
    return _without_idle_cuts(case, sizes, case.accelerator_plan if accelerator else case.plan)


def fitted(
    case: Case, sizes: Sizes, settings: OptimizerSettings, budget_bytes: int, tell: Callable[[str], None]
) -> Fit:
    """The fastest plan that fits, among those that differ at these sizes; raises `BudgetError` when none does."""
    state = abstract_train_state(case, sizes, settings, Plan())
    return fit(
        step_of(case, sizes, settings),
        state,
        abstract_batch(case, sizes),
        budget_bytes,
        candidates=_differing(case, sizes, LADDER),
        report=lambda trial: tell(
            f"{trial.plan}: {format_size(trial.footprint.peak)} ({trial.footprint.provenance}) "
            f"of {format_size(budget_bytes)}"
        ),
    )


def plan_that_fits(case: Case, sizes: Sizes, fits: Callable[[Plan], bool]) -> Plan:
    """The first plan of the case's ladder that fits, asking about as few as possible: each may take minutes.

    Raises `BudgetError` when not even the leanest fits.
    """
    plans = _differing(case, sizes, case.ladder)
    first = bisect.bisect_left(plans, True, key=fits)
    if first == len(plans):
        raise BudgetError(f"no plan fits, not even {plans[-1]}; take a larger device, a smaller crop or fewer rows")
    return plans[first]


def _differing(case: Case, sizes: Sizes, plans: Sequence[Plan]) -> list[Plan]:
    return list(dict.fromkeys(_without_idle_cuts(case, sizes, plan) for plan in plans))


def _without_idle_cuts(case: Case, sizes: Sizes, plan: Plan) -> Plan:
    """Chunks and groups that would cut nothing are left out: a plan says nothing that it does not do."""
    longest = {field: max(lengths.values()) for field, lengths in case.chunk_axes(sizes).items()}
    useful = {
        field: size for field, size in vars(plan.chunk).items() if size is not None and size < longest.get(field, 0)
    }
    if "queries" not in useful:
        useful.pop("keys", None)
    groups = plan.recompute.groups if plan.recompute.groups < max(case.stacks(sizes).values(), default=0) else 1
    return dataclasses.replace(
        plan, recompute=dataclasses.replace(plan.recompute, groups=groups), chunk=Chunk(**useful)
    )


def check_plan(case: Case, sizes: Sizes, plan: Plan, platform: str | None = None) -> None:
    """Raise `PlanError` for what the plan asks and the model does not have, and for devices that are not there.

    Args:
      platform: of the device the plan is for, in the words of its profile; unset, this machine's.
    """
    here = {"gpu": "cuda"}.get(jax.default_backend(), jax.default_backend())
    check_kernel(plan, here if platform is None else platform)
    state_sharding(plan, sizes)
    check_chunks(plan, case.chunk_axes(sizes))
    check_groups(plan, case.stacks(sizes))
    if not plan.recompute.save and not plan.offload.activations and plan.kernels == Kernels():
        return
    parameters = abstract_train_state(case, sizes, case.optimizer, plan).parameters
    arguments = parameters, dict(case.example(sizes)), jax.eval_shape(lambda: jax.random.key(0))
    check_names(plan, case.loss(sizes, plan), *arguments)
    check_kernels(plan, lambda each: case.loss(sizes, each), *arguments)


def compiled_step_of(case: Case, sizes: Sizes, settings: OptimizerSettings, plan: Plan) -> Compiled:
    """A train step, and what the compiler says that it holds."""
    state = abstract_train_state(case, sizes, settings, plan)
    return compile_step(step_of(case, sizes, settings)(plan), state, abstract_batch(case, sizes))


def abstract_train_state(case: Case, sizes: Sizes, settings: OptimizerSettings, plan: Plan) -> TrainState:
    """Shapes and dtypes of the train state, and what of it waits in host memory; nothing is allocated."""
    optimizer = make_optimizer(settings, plan)

    def start() -> TrainState:
        key = jax.random.key(0)
        return initial_state(case.parameters(sizes, key), optimizer, key)

    state = jax.eval_shape(start)
    if not plan.offload.optimizer and not plan.offload.parameters:
        return state
    places = shardings(state, optimizer, plan, state_sharding(plan, sizes))
    return jax.tree.map(lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), state, places)
