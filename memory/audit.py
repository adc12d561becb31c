"""Makes techniques that do nothing loud: names nobody declared, chunks that cut nothing, recomputes undone."""

import difflib
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxprs_in_params  # pyright: ignore[reportPrivateImportUsage]
from jaxtyping import PyTree

from elbowroom.memory.footprint.compiled import Compiled, compile_step
from elbowroom.memory.footprint.footprint import Footprint
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Kernels, Offload, Plan, PlanError, Recompute

SMALLEST_SAVING = 0.01
"""Share of temporaries below which a recompute counts as undone. Two compilations of programs that mean the same
differ by some kilobytes; a recompute that works saves tens of per cent of any step worth recomputing."""

_ADDRESS = re.compile("0x[0-9a-f]+")
"""Of functions, where a traced program is printed"""

type StepOf = Callable[[Plan], Callable[..., Any]]
"""A plan -> its `step(state, batch)`."""


class NoEffectWarning(UserWarning):
    """A choice of the plan changed nothing, or less than it says."""


def names_in(jaxpr: Jaxpr | ClosedJaxpr) -> frozenset[str]:
    """The names that a traced program gives to activations which can be kept, in loops and nested functions too.

    Not those in the loops of a function with a derivative of its own, such as a chunked one: its backward pass
    computes them again whatever a policy says.
    """
    return frozenset(eqn.params["name"] for eqn in _equations(jaxpr) if eqn.primitive.name == "name")


def check_names(plan: Plan, loss: Callable[..., Any], *arguments: PyTree) -> None:
    """Raise `PlanError` for a name that the plan saves or offloads and the model never gives.

    JAX takes such a name in silence and recomputes everything.

    Args:
      loss: traced, not run; `arguments` are its arrays or their shapes.
    """
    sections = {"recompute.save": plan.recompute.save, "offload.activations": plan.offload.activations}
    if not any(sections.values()):
        return
    given = names_in(jax.make_jaxpr(loss)(*arguments))
    for section, wanted in sections.items():
        for name in wanted:
            if name not in given:
                raise PlanError(f"{section}: the model names no activation {name!r}{_suggestion(name, given)}")


def check_chunks(plan: Plan, axes: Mapping[str, Mapping[str, int]]) -> None:
    """Compare the plan's chunks with the axes they cut.

    Args:
      axes: for each field of `Chunk` that the model knows, the axes it cuts and their lengths, such as
        `{"rows": {"residues": 256, "sequences": 64}}`.

    Raises `PlanError` where a chunk is as long as every axis or longer; warns where this holds for some of them.
    """
    for field, size in vars(plan.chunk).items():
        if size is None:
            continue
        lengths = axes.get(field, {})
        whole = [f"{axis} ({length})" for axis, length in lengths.items() if size >= length]
        if not lengths:
            raise PlanError(f"chunk.{field} = {size} cuts nothing: this model has no axis for it; remove it")
        if len(whole) == len(lengths):
            below = max(lengths.values())
            raise PlanError(
                f"chunk.{field} = {size} cuts nothing: no axis is longer, of {', '.join(whole)}; "
                + (f"choose a size below {below} or remove it" if below > 1 else "remove it")
            )
        if whole:
            _warn(f"chunk.{field} = {size} leaves whole: {', '.join(whole)}")


def check_groups(plan: Plan, depths: Mapping[str, int]) -> None:
    """Compare the plan's groups with the stacks they cut.

    Args:
      depths: the stacks of the model and how many blocks each has, such as `{"Evoformer": 48, "extra MSA": 4}`.

    Raises `PlanError` where every group of every stack would be a single block, computed once more for nothing.
    """
    groups, deepest = plan.recompute.groups, max(depths.values(), default=0)
    if groups > 1 and groups >= deepest:
        listed = ", ".join(f"{stack} ({depth})" for stack, depth in depths.items())
        raise PlanError(
            f"recompute.groups = {groups} puts no two blocks together: no stack has more blocks, of {listed}; "
            + (f"choose a number below {deepest} or remove it" if deepest > 2 else "remove it")
        )


def check_kernels(plan: Plan, loss_of: Callable[[Plan], Callable[..., Any]], *arguments: PyTree) -> None:
    """Raise `PlanError` where the plan's kernel computes nothing of the model.

    Args:
      loss_of: the loss under a plan, traced with and without the kernel; `arguments` as in `check_names`.
    """
    if plan.kernels == Kernels():
        return
    chosen, portable = (
        _ADDRESS.sub("", str(jax.make_jaxpr(loss_of(each))(*arguments)))
        for each in (plan, replace(plan, kernels=Kernels()))
    )
    if chosen == portable:
        raise PlanError(
            f"kernels.attention = {plan.kernels.attention!r} does nothing: the model has no attention that a kernel "
            "computes; remove it"
        )


def recompute_effect(
    step_of: StepOf, plan: Plan, state: PyTree, batch: PyTree, *, compiled: Compiled | None = None
) -> tuple[Footprint, Footprint]:
    """Footprints with the plan's recompute and without; warns where the compiler undid it.

    The compiler may find that a recomputed value was computed before and keep the first one after all.

    Args:
      step_of: builds the step of a plan; compiled for the plan and for the plan without recompute, never run.
      compiled: the plan's step where it is compiled already.
    """
    compiled = compiled or compile_step(step_of(plan), state, batch)
    without = replace(plan, recompute=Recompute(), offload=Offload())
    kept = compile_step(step_of(without), state, batch).footprint
    recomputed = compiled.footprint
    if plan.recompute != Recompute() and _temporary(recomputed) > (1 - SMALLEST_SAVING) * _temporary(kept):
        _warn(
            f"{Plan(recompute=plan.recompute)}: the compiler undid the recompute: "
            f"temporaries are {format_size(_temporary(recomputed))} with it, {format_size(_temporary(kept))} without"
        )
    return recomputed, kept


def check_offload(plan: Plan, footprint: Footprint) -> None:
    """Warn where the plan offloads and the compiled step holds nothing in host memory."""
    for field, value in vars(plan.offload).items():
        if value and footprint.host == 0:
            named = ", ".join(value) if isinstance(value, tuple) else "true"
            _warn(f"offload.{field} = {named}: moved no bytes off the device ({footprint.detail})")


def _temporary(footprint: Footprint) -> int:
    return footprint.gradients + footprint.temporaries


def _equations(jaxpr: Jaxpr | ClosedJaxpr) -> Iterator[JaxprEqn]:
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    for eqn in inner.eqns:
        yield eqn
        for nested in jaxprs_in_params(eqn.params):
            if eqn.primitive.name == "custom_vjp_call":
                yield from nested.eqns
            else:
                yield from _equations(nested)


def _suggestion(name: str, given: frozenset[str]) -> str:
    if not given:
        return "; it names none at all, remove it"
    close = difflib.get_close_matches(name, sorted(given), n=1)
    guess = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{guess} The names are {', '.join(sorted(given))}"


def _warn(message: str) -> None:
    warnings.warn(message, NoEffectWarning, stacklevel=3)
