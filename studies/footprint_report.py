"""Memory of one train step of a case, found in one of three ways."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp

from elbowroom.memory.audit import check_offload, recompute_effect
from elbowroom.memory.devices.profile import DeviceError, DeviceProfile
from elbowroom.memory.footprint.compiled import compile_step
from elbowroom.memory.footprint.flops import flops
from elbowroom.memory.footprint.footprint import PARTS, Footprint
from elbowroom.memory.footprint.formula import formula_footprint
from elbowroom.memory.footprint.measured import measure_step
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Plan, Recompute
from elbowroom.memory.step import TrainState, initial_state
from elbowroom.studies.case import Case, abstract_batch
from elbowroom.studies.choose_plan import abstract_train_state, plan_that_fits
from elbowroom.studies.optimizer import make_optimizer
from elbowroom.studies.provenance import result_row
from elbowroom.studies.sizes import Sizes
from elbowroom.studies.table import Column
from elbowroom.studies.target_process import TargetError, target_footprint
from elbowroom.studies.train import step_of

type How = Literal["formula", "compiled", "measured"]


def footprint_row(case: Case, sizes: Sizes, plan: Plan, how: How) -> dict[str, Any]:
    """One result row with a `footprint` by part. Warns where the plan's recompute or offload came to nothing."""
    found = {"formula": _formula, "compiled": _compiled, "measured": _measured}[how](case, sizes, plan)
    return result_row(case=case.name, sizes=sizes, plan=plan, how=how, footprint=found.to_dict())


def device_row(case: Case, sizes: Sizes, plan: Plan, how: How, target: DeviceProfile) -> dict[str, Any]:
    """The same on another device: by the formula, which knows no device, or by the device's own compiler.

    Raises `DeviceError` for a measurement, and what `target_footprint` raises.
    """
    if how == "measured":
        raise DeviceError(
            f"a footprint is measured where the device is; for {target.key} use --how formula or compiled"
        )
    found = _formula(case, sizes, plan) if how == "formula" else target_footprint(case, sizes, plan, target)
    if how == "compiled":
        check_offload(plan, found)
    return result_row(
        case=case.name,
        sizes=sizes,
        plan=plan,
        how=how,
        device=target.key,
        usable_bytes=target.usable_memory,
        device_bytes=found.peak,
        host_bytes=found.host,
        fits=found.peak <= target.usable_memory,
        parts={part: getattr(found, part) for part in PARTS},
        flops=_flops(case, sizes, plan),
        plain_flops=_flops(case, sizes, Plan()),
        footprint=found.to_dict(),
    )


def fitting_plan(case: Case, sizes: Sizes, how: How, target: DeviceProfile, tell: Callable[[str], None]) -> Plan:
    """The plan of the case's ladder with the least arithmetic that fits the device.

    Raises `BudgetError` when none fits, and what `device_row` raises, save where the compiler says that a plan does
    not fit.
    """

    def fits(plan: Plan) -> bool:
        try:
            row = device_row(case, sizes, plan, how, target)
        except TargetError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            tell(str(error))
            return False
        tell(f"{plan}: {verdict(row)}")
        return row["fits"]

    return plan_that_fits(case, sizes, fits)


def verdict(row: dict[str, Any]) -> str:
    """Whether a `device_row` fits, in words."""
    needed, usable = format_size(row["device_bytes"]), format_size(row["usable_bytes"])
    fits = "fits" if row["fits"] else "does not fit"
    share = row["flops"] / row["plain_flops"]
    line = (
        f"{needed} {fits} the {usable} that a program can have on {row['device']} ({row['how']}); "
        f"{row['flops']:.3g} floating-point operations, {share:.2f} of the plain step's"
    )
    if row["how"] != "formula":
        return line
    # CPUs, to which it was fitted, hold much of bfloat16 in float32.
    return f"{line}. The formula was made for CPUs and can be twice too high: --how compiled asks the device's compiler"


def part_rows(footprint: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each part, and the peak."""
    parts = [*PARTS, "peak", *(["host"] if footprint["host"] else [])]
    return [{"part": part, "bytes": footprint[part]} for part in parts]


PART_COLUMNS = [Column("part", lambda row: row["part"]), Column("size", lambda row: row["bytes"], format_size)]


def _formula(case: Case, sizes: Sizes, plan: Plan) -> Footprint:
    state = abstract_train_state(case, sizes, case.optimizer, plan)
    return formula_footprint(step_of(case, sizes, case.optimizer)(plan), state, abstract_batch(case, sizes))


def _flops(case: Case, sizes: Sizes, plan: Plan) -> int:
    state, batch = abstract_train_state(case, sizes, case.optimizer, plan), abstract_batch(case, sizes)
    return flops(jax.make_jaxpr(step_of(case, sizes, case.optimizer)(plan))(state, batch))


def _compiled(case: Case, sizes: Sizes, plan: Plan) -> Footprint:
    state, batch = abstract_train_state(case, sizes, case.optimizer, plan), abstract_batch(case, sizes)
    steps = step_of(case, sizes, case.optimizer)
    compiled = compile_step(steps(plan), state, batch)
    check_offload(plan, compiled.footprint)
    if plan.recompute != Recompute():
        recompute_effect(steps, plan, state, batch, compiled=compiled)
    return compiled.footprint


def _measured(case: Case, sizes: Sizes, plan: Plan) -> Footprint:
    """Of the second step, on an example of zeros: values do not change what is held."""

    def start() -> TrainState:
        key = jax.random.key(0)
        return initial_state(case.parameters(sizes, key), make_optimizer(case.optimizer, plan), key)

    shapes, state = abstract_batch(case, sizes), abstract_train_state(case, sizes, case.optimizer, plan)
    batch = {name: jnp.zeros(leaf.shape, leaf.dtype) for name, leaf in shapes.items()}
    compiled = compile_step(step_of(case, sizes, case.optimizer)(plan), state, shapes)
    placed = jax.tree.map(lambda leaf, like: jax.device_put(leaf, like.sharding), start(), state)
    state, _ = compiled.executable(placed, batch)
    return measure_step(compiled.executable, state, batch).footprint
