"""Whether a program under a plan of exact techniques computes what the plain program does."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from elbowroom.memory.plan import Plan, Precision

type LossAndGradient = Callable[[Plan, str], tuple[Any, dict[str, np.ndarray]]]
"""(plan, dtype) -> the loss, and the gradient of every parameter by its path"""
LIMITS = {"float32": 1e-5, "float64": 1e-12}
"""Rounding in another order, through some dozens of layers: hundreds to thousands of times the dtype's epsilon"""


def require_exact(
    run: LossAndGradient, plan: Plan, dtype: str, *, measured_by: Callable[[str], str] = lambda path: path
) -> None:
    """Fail, naming the worst, where the loss or the gradient of a parameter is not that of the plain program.

    Args:
      run: computes in the dtype throughout; it may remember what it gave for the plain plan.
      measured_by: the parameter whose gradient's L2 norm is the unit for that of another.
    """
    with jax.enable_x64(dtype == "float64"):
        precision = Precision(compute=dtype)
        want, got = run(Plan(precision=precision), dtype), run(dataclasses.replace(plan, precision=precision), dtype)
    error, worst = worst_error(want, got, measured_by)
    assert error <= LIMITS[dtype], f"{worst}: {error:.1e}"


def worst_error(
    want: tuple[Any, dict[str, np.ndarray]],
    got: tuple[Any, dict[str, np.ndarray]],
    measured_by: Callable[[str], str],
) -> tuple[float, str]:
    """The largest relative error of the loss or, by L2 norm, of a gradient, and whose it is; NaN counts as infinite."""
    (want_loss, wanted), (got_loss, found) = want, got
    assert found.keys() == wanted.keys()
    errors = {"loss": abs(float(got_loss) / float(want_loss) - 1)}
    for path, array in wanted.items():
        apart, unit = np.float64(found[path]) - array, np.float64(wanted[measured_by(path)])
        errors[path] = float(np.linalg.norm(apart) / np.linalg.norm(unit))
    return max((float(np.nan_to_num(error, nan=np.inf)), path) for path, error in errors.items())
