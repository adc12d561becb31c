"""Arithmetic of a traced program, with the trip counts of its loops: a compiler's own count takes each body once."""

import math
from typing import Any

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxprs_in_params  # pyright: ignore[reportPrivateImportUsage]

from elbowroom.memory.footprint.dataflow import MOVES, REDUCTIONS, VIEWS

NO_ARITHMETIC = (
    MOVES | VIEWS | {"convert_element_type", "select_n", "dynamic_update_slice", "split", "sign", "copysign"}
)

ATTENTION_PRODUCTS = {"dot_product_attention_fwd_wrapper": 2, "dot_product_attention_bwd_wrapper": 5}
"""cuDNN's attention, and how many matrix products of the size of its logits it is"""


def flops(program: ClosedJaxpr | Jaxpr) -> int:
    """Floating-point operations, a multiplication and an addition being two; one for each element of anything else.

    What is recomputed counts as often as it is computed, so trace the differentiated program. Of branches the dearest
    counts, and a loop without a fixed number of trips counts once.
    """
    return sum(_of(equation) for equation in program.eqns)


def _of(equation: JaxprEqn) -> int:
    name, inner = equation.primitive.name, [flops(j) for j in jaxprs_in_params(equation.params)]
    if name == "scan":
        return equation.params["length"] * sum(inner)
    if name == "cond":
        return max(inner)
    if name == "pallas_call":
        return math.prod(equation.params["grid_mapping"].grid) * sum(inner)
    if inner:
        return sum(inner)
    (result, *_), operands = equation.outvars, equation.invars
    if name in NO_ARITHMETIC or not jnp.issubdtype(_shape(result).dtype, jnp.floating):
        return 0
    if name in ATTENTION_PRODUCTS:
        query, key = (_shape(operand).shape for operand in operands[:2])
        return ATTENTION_PRODUCTS[name] * 2 * math.prod(query) * key[1]
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        left = _shape(operands[0]).shape
        return 2 * math.prod(_shape(result).shape) * math.prod(left[axis] for axis in contracted)
    if name == "conv_general_dilated":
        kernel, layout = _shape(operands[1]).shape, equation.params["dimension_numbers"].rhs_spec
        return 2 * math.prod(_shape(result).shape) * math.prod(kernel) // kernel[layout[0]]
    return math.prod(_shape(operands[0] if name in REDUCTIONS else result).shape)


def _shape(variable: Any) -> Any:
    return variable.aval
