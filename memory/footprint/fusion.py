"""Which values of a program get memory of their own, and when they are made and used.

The rest is fused: computed where it is used. The rules follow XLA on CPU: a loop fusion reads through pointwise
operations and moves, twice if it must, unless they are expensive; a reduction's kernel takes in all operations that
only it uses, other reductions and matrix products included, but what it shares with others it reads from memory.
"""

from collections import defaultdict
from dataclasses import dataclass

from elbowroom.memory.footprint.dataflow import Computation, Node, Value


@dataclass(eq=False)
class Event:
    """One kernel, or one loop."""

    node: Node
    results: list[Value]
    operands: dict[Value, bool]
    """Values read from memory, and whether a result may be written over them element by element."""


def events(computation: Computation) -> list[Event]:
    """The kernels of a computation, in the order of the program."""
    nodes = _needed(computation)
    users: dict[Value, set[Node]] = defaultdict(set)
    for node in nodes:
        for value in node.operands:
            users[value].add(node)
    kernels = _reduction_kernels(nodes, users, set(computation.outputs))
    inside = {node for members in kernels.values() for node in members}
    stored = _stored(nodes, users, kernels, inside) | set(computation.outputs)
    found = []
    for node in nodes:
        if node in kernels:
            made = {value for member in kernels[node] for value in member.results}
            read = [value for member in kernels[node] for value in member.operands if value not in made]
            found.append(Event(node, node.results, _from_memory(read, stored, over=False)))
        elif node not in inside and node.kind != "fence":
            results = [value for value in node.results if value in stored]
            if results or node.kind == "store":
                found.append(Event(node, results, _from_memory(node.operands, stored, over=node.kind != "move")))
    return found


def in_memory(value: Value, event_results: set[Value]) -> set[Value]:
    """The stored values that `value` is made of."""
    return set(_from_memory([value], event_results, over=True))


def _needed(computation: Computation) -> list[Node]:
    wanted, kept = set(computation.outputs), []
    for node in reversed(computation.nodes):
        if node.kind == "store" or any(value in wanted for value in node.results):
            wanted.update(node.operands)
            kept.append(node)
    return kept[::-1]


def _reduction_kernels(nodes: list[Node], users: dict[Value, set[Node]], outputs: set[Value]) -> dict[Node, list[Node]]:
    """Last operation of each kernel that holds a reduction -> all its operations."""
    last: dict[Node, Node] = {}
    kernels: dict[Node, list[Node]] = defaultdict(list)
    for node in reversed(nodes):
        if not node.with_reductions:
            continue
        ends = {last.get(user) for value in node.results for user in users[value]}
        own = len(ends) != 1 or None in ends or any(value in outputs for value in node.results)
        last[node] = node if own else ends.pop() or node
        kernels[last[node]].append(node)
    return {end: members for end, members in kernels.items() if any(node.kind == "reduce" for node in members)}


def _stored(
    nodes: list[Node], users: dict[Value, set[Node]], kernels: dict[Node, list[Node]], inside: set[Node]
) -> set[Value]:
    stored = set()
    for node in nodes:
        if node.kind == "fence" or (node in inside and node not in kernels):
            continue
        for value in node.results:
            by_memory = any(user in inside or user.kind in ("dot", "opaque", "fence") for user in users[value])
            twice = node.expensive and len(users[value]) > 1
            if node in inside or node.kind in ("dot", "opaque", "reduce") or by_memory or twice:
                stored.add(value)
    return stored


def _from_memory(values: list[Value], stored: set[Value], *, over: bool) -> dict[Value, bool]:
    """Stored values behind `values`, through everything fused; True where each element is read in its own place."""
    found: dict[Value, bool] = {}
    seen: set[tuple[Value, bool]] = set()
    pending = [(value, over) for value in values]
    while pending:
        value, in_place = pending.pop()
        if (value, in_place) in seen:
            continue
        seen.add((value, in_place))
        if value.node is None or value in stored:
            if not value.given:
                found[value] = found.get(value, True) and in_place
        else:
            own_place = in_place and value.node.kind in ("pointwise", "fence")
            pending += [(operand, own_place) for operand in value.node.operands]
    return found
