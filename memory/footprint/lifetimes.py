"""How much memory a program's values take together: when each lives, and how they are packed."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int

from elbowroom.memory.footprint.dataflow import Computation, Value
from elbowroom.memory.footprint.fusion import Event, events, in_memory

NEGLIGIBLE = 1 / 4096
"""Buffers smaller than this share of the largest are left out: they are many and add up to nothing."""


@dataclass(eq=False)
class Buffer:
    """Memory that one value after another may use."""

    size: int
    start: int
    end: int
    """First moment, and the first after its last, in kernels since the program began."""
    busy: int = 0
    """The event after which its present value is dead."""


@dataclass
class _Timeline:
    clock: int = 0
    buffers: list[Buffer] = field(default_factory=list)

    def new(self, size: int, start: int) -> Buffer:
        buffer = Buffer(size, start, start)
        self.buffers.append(buffer)
        return buffer


def peak_bytes(computation: Computation) -> int:
    """Bytes of memory in which all values of a program find a place, its arguments and results not counted."""
    timeline = _Timeline()
    _run(computation, timeline, [])
    return packed_bytes(timeline.buffers)


def _run(computation: Computation, timeline: _Timeline, carried: list[Buffer]) -> None:
    """Go through one computation, a loop's iteration or a branch included, on the program's clock."""
    run = _Run(computation, timeline, carried)
    for index, event in enumerate(run.events):
        run.place(event, index)
        timeline.clock += 1
        for inner in event.node.inner:
            state = [run.held[value] for value in event.node.results[: len(inner.carries)]]
            _run(inner, timeline, state)
            timeline.clock += 1
        run.extend((*event.operands, *event.results))
    timeline.clock += 1
    run.extend(run.kept)


class _Run:
    """One computation on its way: where its values are, and until when."""

    def __init__(self, computation: Computation, timeline: _Timeline, carried: list[Buffer]) -> None:
        self.events, self.timeline, self.began = events(computation), timeline, timeline.clock
        self.held = dict(zip(computation.carries, carried, strict=True))
        # A loop's state ends where it began, so that no copy is needed; branches carry nothing.
        self.home = dict(zip(computation.outputs, carried, strict=False))
        stored = {value for event in self.events for value in event.results} | set(computation.carries)
        self.kept = {found for value in computation.outputs for found in in_memory(value, stored)}
        used = [(v, index) for index, event in enumerate(self.events) for v in (*event.operands, *event.results)]
        self.last = dict(used) | dict.fromkeys(self.kept, len(self.events))
        for value, buffer in self.held.items():
            buffer.busy = self.last.get(value, -1)

    def place(self, event: Event, index: int) -> None:
        """Give each result a buffer: the loop's own, that of an operand which ends here, or a new one."""
        in_place = event.node.in_place
        ending = [self.held[v] for v, over in event.operands.items() if over and in_place and self.last[v] == index]
        for value in event.results:
            reusable = [buffer for buffer in ending if buffer.size == value.size and buffer.busy <= index]
            own, early = self.home.get(value), value in event.node.early
            if own is not None and own.size == value.size and (own.busy < index or own in reusable):
                buffer = own
            elif reusable and not early:
                buffer = reusable[0]
            else:
                buffer = self.timeline.new(value.size, self.began if early else self.timeline.clock)
            if buffer in ending:
                ending.remove(buffer)
            buffer.busy = self.last[value]
            self.held[value] = buffer

    def extend(self, values: Iterable[Value]) -> None:
        for value in values:
            self.held[value].end = max(self.held[value].end, self.timeline.clock)


def packed_bytes(buffers: list[Buffer]) -> int:
    """Height of the stack when buffers are put, in a fixed order, into the smallest gap that holds them.

    As XLA does it, once from the largest to the smallest and once from the longest-lived to the shortest; the better
    counts. No gap is closed afterwards: this costs some tens of per cent where many sizes mix.
    """
    if not buffers:
        return 0
    smallest = max(b.size for b in buffers) * NEGLIGIBLE
    table = np.array([(b.size, b.start, b.end) for b in buffers if b.size > smallest], np.int64).reshape(-1, 3)
    size, duration = table[:, 0], table[:, 2] - table[:, 1]
    orders = (np.lexsort((-duration, -size)), np.lexsort((-size, -duration)))
    return min(_best_fit(table[order]) for order in orders)


def _best_fit(table: Int[np.ndarray, "buffer columns"]) -> int:
    ends = np.zeros(len(table), np.int64)
    for index, (size, start, end) in enumerate(table):
        before = table[:index]
        meets = (before[:, 1] < end) & (before[:, 2] > start)
        tops = ends[:index][meets]
        bottoms = tops - before[meets, 0]
        order = np.argsort(bottoms)
        floor = np.concatenate([[0], np.maximum.accumulate(tops[order])])
        gaps = bottoms[order] - floor[:-1]
        fitting = np.flatnonzero(gaps >= size)
        place = floor[fitting[np.argmin(gaps[fitting])]] if len(fitting) else floor[-1]
        ends[index] = place + size
    return int(ends.max())
