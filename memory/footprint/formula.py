"""draft"""
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Literal

VIEWS = {"reshape", "squeeze", "expand_dims", "name", "copy", "copy_p", "stop_gradient", "device_put", "reduce_precision", "sharding_constraint", "bitcast_convert_type", "random_wrap", "random_unwrap", "pvary","psum_invariant"}
REDUCTIONS = {"reduce_sum", "reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_prod", "argmax", "argmin", "reduce_precision_sum"}
EXPENSIVE = {"exp", "log", "tanh", "logistic", "div", "rsqrt", "sqrt", "pow", "erf", "sin", "cos", "log1p", "expm1", "integer_pow_x","random_bits", "threefry2x32", "rem", "cbrt", "erf_inv"}
OPAQUE = {"dot_general", "conv_general_dilated", "sort", "cumsum", "cumlogsumexp", "cummax", "cumprod", "top_k", "scatter", "scatter-add", "scatter_add", "dynamic_update_slice", "fft", "cholesky", "reduce_window_sum", "custom_call", "ffi_call", "psum", "all_gather", "ppermute"}
MOVES = {"transpose", "broadcast_in_dim", "slice", "dynamic_slice", "gather", "concatenate", "pad", "rev", "iota"}
CALLS = {"jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin", "shard_map"}


def nbytes(aval):
    dtype = aval.dtype
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        return math.prod(aval.shape) * 8
    return math.prod(aval.shape) * dtype.itemsize


class Value:
    __slots__ = ("size", "node", "free", "tag")
    def __init__(self, size, node=None, free=False, tag=""):
        self.size, self.node, self.free, self.tag = size, node, free, tag


@dataclass(eq=False)
class Node:
    kind: str  # fused move reduce op sink barrier
    name: str
    ins: list
    outs: list
    extra: int = 0
    expensive: bool = False
    reusable: bool = False  # outs may take the place of operands that end here


class Builder:
    def __init__(self):
        self.nodes = []
        self.transposed = {}

    def add(self, kind, name, ins, avals, **kw):
        node = Node(kind, name, ins, [], **kw)
        node.outs = [Value(nbytes(a), node, tag=f"{name} {getattr(a,'dtype','')}{list(a.shape)}") for a in avals]
        self.nodes.append(node)
        return node.outs

    def walk(self, jaxpr, env):
        def read(x):
            return Value(0, free=True) if isinstance(x, Literal) else env[x]
        for eqn in jaxpr.eqns:
            name, ins = eqn.primitive.name, [read(v) for v in eqn.invars]
            avals = [v.aval for v in eqn.outvars]
            outs = self.equation(eqn, name, ins, avals)
            env.update(zip(eqn.outvars, outs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn, name, ins, avals):
        p = eqn.params
        if name in VIEWS or (name == "convert_element_type" and eqn.invars[0].aval.dtype == avals[0].dtype):
            return ins[:1]
        if name == "optimization_barrier":
            self.nodes.append(Node("barrier", name, ins, []))
            return ins
        if name == "scan":
            return self.scan(p, ins, avals)
        if name == "while":
            return self.while_(p, ins, avals)
        if name == "cond":
            extra = max(body_peak(b, 0) for b in p["branches"])
            return self.add("op", name, ins, avals, extra=extra, reusable=True)
        if name in CALLS:
            inner = next(p[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in p)
            if name == "remat2" and p.get("prevent_cse") and p.get("differentiated"):
                self.nodes.append(Node("barrier", name, ins, []))
            return self.inline(inner, ins)
        if name == "dot_general":
            return self.dot(eqn, ins, avals)
        if name in REDUCTIONS:
            return self.add("reduce", name, ins, avals)
        if name in OPAQUE:
            return self.add("op", name, ins, avals, reusable=name in ("dynamic_update_slice", "scatter", "scatter-add"))
        if name in MOVES:
            return self.add("move", name, ins, avals)
        return self.add("fused", name, ins, avals, expensive=name in EXPENSIVE, reusable=True)

    def inline(self, inner, ins):
        jaxpr = inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner
        env = dict(zip(jaxpr.invars, ins, strict=True))
        consts = inner.consts if isinstance(inner, ClosedJaxpr) else []
        for v in jaxpr.constvars: env[v] = Value(nbytes(v.aval), free=True)
        return self.walk(jaxpr, env)

    def dot(self, eqn, ins, avals):
        (contract, batch) = eqn.params["dimension_numbers"]
        sides = []
        for value, var, c, b in zip(ins, eqn.invars, contract, batch):
            nd = len(var.aval.shape)
            free = tuple(d for d in range(nd) if d not in c and d not in b)
            orders = {tuple(b) + free + tuple(c), tuple(b) + tuple(c) + free}
            ident = tuple(range(nd))
            wide = var.aval.dtype.itemsize == 2
            if ident in orders and not wide:
                sides.append(value); continue
            perm = ident if ident in orders else tuple(b) + free + tuple(c)
            key = (value, perm)
            if key not in self.transposed:
                aval = jax.ShapeDtypeStruct(tuple(var.aval.shape[d] for d in perm), "float32" if wide else var.aval.dtype)
                self.transposed[key] = self.add("move" if perm != ident else "fused", "transposed" if perm != ident else "widened", [value], [aval])[0]
            sides.append(self.transposed[key])
        out = avals[0]
        if out.dtype.itemsize == 2:
            wide_out = self.add("op", "dot_wide", sides, [jax.ShapeDtypeStruct(out.shape, "float32")])
            return self.add("fused", "narrowed", wide_out, avals)
        return self.add("op", "dot", sides, avals)

    def scan(self, p, ins, avals):
        consts, carry, _ = (list(x) for x in p["ft_in"].update(list(range(len(ins)))).unpack())
        out_carry, _ = (list(x) for x in p["ft_out"].update(list(range(len(avals)))).unpack())
        assert consts == list(range(len(consts))) and carry == list(range(len(consts), len(consts)+len(carry))), (consts, carry)
        assert out_carry == list(range(len(carry)))
        extra = loop_peak(p["jaxpr"], len(consts), len(carry))
        return self.add("op", "scan", ins, avals, extra=extra, reusable=True)

    def while_(self, p, ins, avals):
        nc = p["cond_nconsts"]; nb = p["body_nconsts"]
        extra = loop_peak(p["body_jaxpr"], nb, len(avals))
        return self.add("op", "while", ins, avals, extra=extra, reusable=True)


def loop_peak(closed, nc, nk):
    """Bytes beyond carries, constants and stacks that one iteration holds."""
    jaxpr = closed.jaxpr
    b = Builder()
    env = {}
    carries = []
    for i, v in enumerate(jaxpr.invars):
        if i < nc: env[v] = Value(nbytes(v.aval), free=True)
        elif i < nc + nk:
            env[v] = Value(nbytes(v.aval), tag=f"carry {v.aval.dtype}{list(v.aval.shape)}"); carries.append(env[v])
        else:
            stack = Value(0, free=True)
            env[v] = b.add("move", "xs", [stack], [v.aval])[0]
    for v in jaxpr.constvars: env[v] = Value(nbytes(v.aval), free=True)
    outs = b.walk(jaxpr, env)
    for y in outs[nk:]:
        b.nodes.append(Node("sink", "ys", [y], []))
    total = sum(c.size for c in carries)
    return max(0, simulate(b.nodes, outs[:nk], carries) - total)


def body_peak(closed, _):
    b = Builder()
    outs = b.inline(closed, [Value(nbytes(v.aval), free=True) for v in closed.jaxpr.invars])
    return simulate(b.nodes, outs, [])

VERBOSE = []
def simulate(nodes, outputs, starting):
    # dead code
    wanted = set(outputs)
    kept = []
    for node in reversed(nodes):
        if node.kind in ("sink", "barrier") and (node.kind == "sink" or any(i in wanted for i in node.ins)) or any(o in wanted for o in node.outs):
            wanted.update(node.ins if node.kind != "barrier" else [i for i in node.ins if i in wanted])
            kept.append(node)
    nodes = kept[::-1]
    uses = defaultdict(list)
    for node in nodes:
        for v in node.ins: uses[v].append(node)
    stored = set(outputs)
    for node in nodes:
        for v in node.outs:
            users = uses[v]
            if node.kind in ("op", "reduce") or any(u.kind in ("op", "barrier") for u in users): stored.add(v)
            elif node.expensive and len(set(users)) > 1: stored.add(v)
    def roots(v, seen, point):
        if v.node is None or v in stored:
            if not v.free: seen[v] = seen.get(v, False) or point
            return
        for i in v.node.ins: roots(i, seen, point and v.node.kind == "fused")
    events = []
    memo = {}
    for node in nodes:
        if node.kind == "barrier": continue
        outs = [o for o in node.outs if o in stored]
        if not outs and node.kind != "sink": continue
        seen = {}
        for i in node.ins: roots(i, seen, node.reusable or node.kind=="sink")
        events.append((node, outs, seen))
    last = {v: -1 for v in starting}
    for t, (node, outs, seen) in enumerate(events):
        for v in (*seen, *outs): last[v] = t
    for v in outputs:
        last[v] = len(events)
    live = sum(v.size for v in starting)
    alive = set(starting)
    peak, where = live, None
    for v in starting:
        if last[v] == -1: live -= v.size; alive.discard(v)
    snap = None
    for t, (node, outs, seen) in enumerate(events):
        dying = [v for v in seen if last[v] == t and v in alive]
        reuse = sorted((v.size for v in dying if seen[v]), reverse=True) if node.reusable else []
        new = sum(o.size for o in outs)
        shared = 0
        for o in outs:
            if o.size in reuse: reuse.remove(o.size); shared += o.size
        now = live + new - shared + node.extra
        alive.update(outs)
        if now > peak:
            peak = now; snap = (node, [(v.size, v.tag, v in dying) for v in alive], shared)
        live += new
        for v in dying + [o for o in outs if last[o] == t]:
            if v in alive: live -= v.size; alive.discard(v)
    if snap: VERBOSE.append((peak, snap, len(events)))
    return peak


def temporary(step, state, batch):
    closed = jax.make_jaxpr(step)(state, batch)
    jaxpr = closed.jaxpr
    b = Builder()
    env = {v: Value(nbytes(v.aval), free=True) for v in (*jaxpr.invars, *jaxpr.constvars)}
    outs = b.walk(jaxpr, env)
    n = len(jax.tree.leaves(state))
    for o in outs:
        if not o.free: b.nodes.append(Node("sink", "out", [o], []))
    return simulate(b.nodes, [], [])
