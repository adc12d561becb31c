"""A traced program as a graph of values with sizes, in the terms that decide what a compiler keeps in memory."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn  # pyright: ignore[reportPrivateImportUsage]
from jax.extend.core import Literal as Constant

type Kind = Literal["pointwise", "move", "reduce", "dot", "opaque", "fence", "store"]
"""pointwise: element by element. move: reads elsewhere than it writes. opaque: loops, sorts, updates in place.
fence: nothing is fused across it. store: writes into a buffer that exists, such as a loop's stack."""

# fmt: off
# Other names for the same bytes.
VIEWS = frozenset({
    "reshape", "squeeze", "expand_dims", "name", "copy", "copy_p", "stop_gradient", "device_put",
    "sharding_constraint", "random_wrap", "random_unwrap", "bitcast_convert_type", "pvary",
})
CALLS = frozenset({
    "jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call",
    "shard_map", "eval_jaxpr",
})
REDUCTIONS = frozenset({
    "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "argmax", "argmin",
})
MOVES = frozenset({
    "transpose", "broadcast_in_dim", "slice", "dynamic_slice", "gather", "concatenate", "pad", "rev", "iota",
})
IN_PLACE = frozenset({
    "dynamic_update_slice", "scatter", "scatter-add", "scatter_add", "scan", "while", "cond",
})
OPAQUE = IN_PLACE | frozenset({
    "conv_general_dilated", "sort", "cumsum", "cumlogsumexp", "cummax", "cumprod", "top_k", "fft", "cholesky",
    "reduce_window_sum", "ffi_call", "psum", "all_gather", "ppermute",
})
# A fusion that would compute these twice is not made.
EXPENSIVE = frozenset({
    "exp", "log", "tanh", "logistic", "div", "rsqrt", "sqrt", "pow", "erf", "sin", "cos", "log1p", "expm1",
    "erf_inv", "cbrt",
})
# What XLA's library for reductions on CPU computes in one kernel with the reduction (xla/backends/cpu, YNNPACK).
FUSED_WITH_REDUCTIONS = frozenset({
    "add", "sub", "mul", "div", "max", "min", "pow", "exp", "neg", "rsqrt", "sqrt", "tanh", "log", "abs",
    "logistic", "square", "integer_pow", "expm1", "log1p", "sign", "floor", "ceil", "add_any", "reduce_sum",
    "reduce_max", "reduce_min",
})
# fmt: on


@dataclass(eq=False)
class Value:
    """An array of the program."""

    size: int
    """Bytes."""
    node: "Node | None" = None
    """What computes it; None for what a computation is given."""
    given: bool = False
    """Its memory belongs to somebody else: an argument, or a constant of a loop."""


@dataclass(eq=False)
class Node:
    """One operation."""

    kind: Kind
    operands: list[Value]
    results: list[Value] = field(default_factory=list)
    inner: "tuple[Computation, ...]" = ()
    """Bodies of loops and branches."""
    expensive: bool = False
    in_place: bool = False
    """A result may take the memory of an operand that ends here."""
    with_reductions: bool = False
    """Can share a kernel with a reduction."""
    early: set[Value] = field(default_factory=set)
    """Results that start as a constant. They wait for nothing, so the compiler makes them first: too early."""


@dataclass(eq=False)
class Computation:
    """Operations in the order of the program."""

    nodes: list[Node] = field(default_factory=list)
    carries: list[Value] = field(default_factory=list)
    """A loop's state at the start of an iteration."""
    outputs: list[Value] = field(default_factory=list)
    """The state at its end, in the same order."""
    _known: dict[Any, list[Value]] = field(default_factory=dict)
    """Results of operations by what is computed from what: the compiler computes equal things once."""
    _constants: dict[Any, Value] = field(default_factory=dict)

    def add(self, kind: Kind, operands: Sequence[Value], shapes: Sequence[Any], **about: Any) -> list[Value]:
        node = Node(kind, list(operands), **about)
        node.results = [Value(num_bytes(shape), node) for shape in shapes]
        self.nodes.append(node)
        return node.results

    def once(self, how: Any, kind: Kind, operands: Sequence[Value], shapes: Sequence[Any], **about: Any) -> list[Value]:
        """`add`, unless the same was computed before."""
        key = (how, kind, tuple(operands))
        if key not in self._known:
            self._known[key] = self.add(kind, operands, shapes, **about)
        return self._known[key]

    def constant(self, constant: Constant) -> Value:
        return self._constants.setdefault((str(constant.val), _shape(constant).dtype), Value(0, given=True))


def num_bytes(shape: Any) -> int:
    """Bytes of an array of this shape and dtype; a random key holds two integers."""
    if jax.numpy.issubdtype(shape.dtype, jax.dtypes.prng_key):
        return math.prod(shape.shape) * 8
    return math.prod(shape.shape) * shape.dtype.itemsize


def _shape(var: Any) -> Any:
    return var.aval


def program(closed: ClosedJaxpr) -> Computation:
    """The whole program. Its arguments are given, and its results are stored: they replace donated arguments."""
    computation = Computation()
    given = [Value(num_bytes(_shape(var)), given=True) for var in closed.jaxpr.invars]
    for value in _inline(computation, closed, given):
        if not value.given:
            computation.add("store", [value], [])
    return computation


def _loop_body(closed: ClosedJaxpr, constants: int, carries: int) -> Computation:
    body, arguments = Computation(), []
    for index, var in enumerate(closed.jaxpr.invars):
        if index < constants:
            arguments.append(Value(num_bytes(_shape(var)), given=True))
        elif index < constants + carries:
            arguments.append(Value(num_bytes(_shape(var))))
        else:
            arguments += body.add("move", [Value(0, given=True)], [_shape(var)])
    body.carries = arguments[constants : constants + carries]
    results = _inline(body, closed, arguments)
    body.outputs = results[:carries]
    for value in results[carries:]:
        body.add("store", [value], [])
    return body


def _branch(closed: ClosedJaxpr) -> Computation:
    branch = Computation()
    given = [Value(num_bytes(_shape(var)), given=True) for var in closed.jaxpr.invars]
    branch.outputs = _inline(branch, closed, given)
    return branch


def _inline(computation: Computation, inner: Jaxpr | ClosedJaxpr, arguments: list[Value]) -> list[Value]:
    jaxpr = inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner
    known = dict(zip(jaxpr.invars, arguments, strict=True))
    known.update({var: Value(num_bytes(_shape(var)), given=True) for var in jaxpr.constvars})

    def read(var: Any) -> Value:
        return computation.constant(var) if isinstance(var, Constant) else known[var]

    for eqn in jaxpr.eqns:
        results = _equation(computation, eqn, [read(var) for var in eqn.invars])
        known.update(zip(eqn.outvars, results, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _equation(computation: Computation, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
    name, shapes = eqn.primitive.name, [_shape(var) for var in eqn.outvars]
    if name in VIEWS or (name in ("convert_element_type", "broadcast_in_dim") and _same_bytes(eqn)):
        return operands[:1]
    if name == "optimization_barrier":
        return _fenced(computation, eqn, operands)
    if name in CALLS:
        inner = next(eqn.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in eqn.params)
        if eqn.params.get("prevent_cse") and eqn.params.get("differentiated"):
            operands = _fenced(computation, eqn, operands)
        return _inline(computation, inner, operands)
    if name == "dot_general":
        return _dot(computation, eqn, operands)
    if name == "cond" and eqn.params["branches_platforms"]:
        # The first operand says on which platform the program runs: not a choice that it makes while it runs.
        return _inline(computation, _branch_on_cpu(eqn), operands[1:])
    if name == "scan" and eqn.params["length"] == 1:
        # The compiler removes the loop: what is inside can be merged with what is outside.
        return _inline(computation, eqn.params["jaxpr"], operands)
    how = (name, _hashable(eqn.params))
    about: dict[str, Any] = {
        "in_place": name in IN_PLACE,
        "with_reductions": name in FUSED_WITH_REDUCTIONS,
        "expensive": name in EXPENSIVE,
    }
    if name in OPAQUE:
        return _opaque(computation, eqn, operands, about)
    if name in REDUCTIONS:
        return computation.once(how, "reduce", operands, shapes, **about)
    if name == "broadcast_in_dim" and _shape(eqn.invars[0]).shape:
        return [_broadcast(computation, operands[0], shapes[0])]
    if name in MOVES:
        filled = name == "broadcast_in_dim" and isinstance(eqn.invars[0], Constant)
        results = computation.once(how, "move", operands, shapes, **(about | {"with_reductions": filled}))
        if filled and results[0].node is not None:
            results[0].node.early.update(results)
        return results
    if len(shapes) == 1:
        pairs = zip(operands, eqn.invars, strict=True)
        operands = [_stretched(computation, value, var, shapes[0]) for value, var in pairs]
    return computation.once(how, "pointwise", operands, shapes, **(about | {"in_place": True}))


def _branch_on_cpu(eqn: JaxprEqn) -> ClosedJaxpr:
    """The branch for CPUs, or else that for any platform."""
    offered = dict(zip(eqn.params["branches_platforms"], eqn.params["branches"], strict=True))
    named = [branch for platforms, branch in offered.items() if "cpu" in (platforms or ())]
    return named[0] if named else offered[None]


def _hashable(params: dict[str, Any]) -> Any:
    """Equal for equal parameters; what cannot be compared equals nothing."""
    try:
        key = tuple(sorted(params.items()))
        hash(key)
    except TypeError:
        return object()
    return key


def _same_bytes(eqn: JaxprEqn) -> bool:
    before, after = _shape(eqn.invars[0]), _shape(eqn.outvars[0])
    return not isinstance(eqn.invars[0], Constant) and before.size == after.size and before.dtype == after.dtype


def _fenced(computation: Computation, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
    pairs = zip(operands, eqn.invars, strict=True)
    return [computation.add("fence", [value], [_shape(var)])[0] for value, var in pairs]


def _opaque(computation: Computation, eqn: JaxprEqn, operands: list[Value], about: dict[str, Any]) -> list[Value]:
    """An operation that nothing is fused into. Loops hold their state and their stacks from their start on."""
    params, shapes = eqn.params, [_shape(var) for var in eqn.outvars]
    name, inner, first = eqn.primitive.name, (), len(operands)
    if name == "scan":
        first, carries, _ = (len(list(part)) for part in params["ft_in"].unpack())
        inner = (_loop_body(params["jaxpr"], first, carries),)
    elif name == "while":
        first, carries = params["cond_nconsts"] + params["body_nconsts"], len(shapes)
        inner = (_loop_body(params["body_jaxpr"], params["body_nconsts"], carries),)
    elif name == "cond":
        inner = tuple(_branch(branch) for branch in params["branches"])
    started = operands[first : first + len(inner[0].carries)] if inner else []
    constant = [value.node is not None and value in value.node.early for value in started]
    read = [value for value in operands if not (value in started and value.node and value in value.node.early)]
    results = computation.add("opaque", read, shapes, inner=inner, **about)
    if name in ("scan", "while") and results[0].node is not None:
        stacks = results[len(started) :]
        results[0].node.early.update(stacks, (v for v, c in zip(results, constant, strict=False) if c))
    return results


def _stretched(computation: Computation, value: Value, var: Any, to: Any) -> Value:
    """An operand that a pointwise operation repeats along some axes."""
    if isinstance(var, Constant) or not 1 < _shape(var).size < to.size:
        return value
    return _broadcast(computation, value, jax.ShapeDtypeStruct(to.shape, _shape(var).dtype))


def _broadcast(computation: Computation, value: Value, to: Any) -> Value:
    return computation.once(("broadcast", to.shape), "move", [value], [to], with_reductions=True)[0]


def _dot(computation: Computation, eqn: JaxprEqn, operands: list[Value]) -> list[Value]:
    """A product of matrices: operands in an order of axes that it can read, and all of it in float32 at least."""
    contracted, batch = eqn.params["dimension_numbers"]
    sides = []
    for value, var, inner, outer in zip(operands, eqn.invars, contracted, batch, strict=True):
        shape = _shape(var)
        free = tuple(d for d in range(shape.ndim) if d not in inner and d not in outer)
        readable = ((*outer, *free, *inner), (*outer, *inner, *free))
        order = tuple(range(shape.ndim)) if tuple(range(shape.ndim)) in readable else readable[0]
        moved, wide = order != tuple(range(shape.ndim)), _wide(shape.dtype)
        if moved or wide != shape.dtype:
            to = jax.ShapeDtypeStruct(tuple(shape.shape[d] for d in order), wide)
            value = computation.once(("dot operand", order), "move" if moved else "pointwise", [value], [to])[0]
        sides.append(value)
    shape = _shape(eqn.outvars[0])
    how = ("dot", eqn.params["dimension_numbers"])
    product = computation.once(
        how, "dot", sides, [jax.ShapeDtypeStruct(shape.shape, _wide(shape.dtype))], with_reductions=True
    )
    if _wide(shape.dtype) == shape.dtype:
        return product
    return computation.once("narrow", "pointwise", product, [shape], in_place=True)


def _wide(dtype: Any) -> np.dtype:
    """CPUs multiply half-precision matrices in float32."""
    return np.dtype(np.float32) if jax.numpy.issubdtype(dtype, np.inexact) and dtype.itemsize < 4 else dtype
