"""Memory of a train step as it runs: the device's own statistics, or the process' resident set on CPU."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import psutil
from jaxtyping import PyTree

from elbowroom.memory.footprint.footprint import Footprint
from elbowroom.memory.footprint.resident import high_water, reset_high_water

_SAMPLING_SECONDS = 0.002


class Peak:
    """The most memory that a `with` block used beyond what was in use when it began.

    Backends with memory statistics report the device's peak; it cannot be reset, so that a block that stays below
    an earlier peak of the same process reports the earlier one. On CPU it is the resident set of the process,
    everything else that the process allocates included, from the kernel's high-water mark where that may be reset and
    from samples every 2 ms otherwise.
    """

    size: int
    """Bytes; set when the block ends."""
    source: str

    def __enter__(self) -> "Peak":
        self._device = jax.local_devices()[0]
        if self._device.memory_stats() is not None:
            self.source, self._before = "device statistics", self._device.memory_stats()["bytes_in_use"]
        elif reset_high_water():
            self.source, self._before = "resident set", psutil.Process().memory_info().rss
        else:
            self.source, self._before = "resident set, sampled", psutil.Process().memory_info().rss
            self._sampler = _Sampler()
        return self

    def __exit__(self, *_: object) -> None:
        peak = {
            "device statistics": lambda: self._device.memory_stats()["peak_bytes_in_use"],
            "resident set": high_water,
            "resident set, sampled": lambda: self._sampler.stop(),
        }[self.source]()
        self.size = max(0, peak - self._before)


class Measured(NamedTuple):
    """What a step returned, and what it held while it ran."""

    state: PyTree
    metrics: PyTree
    footprint: Footprint


def measure_step(executable: Callable[..., Any], state: PyTree, batch: PyTree) -> Measured:
    """Run a compiled step once and measure the memory that it takes beyond its arguments.

    The growth is temporaries and outputs together; `outputs` is 0 because a measurement cannot tell them apart.
    The state is donated: go on with the one returned. A first run also pays for the runtime's own threads and
    buffers, so measure a later one; memory that the process keeps from earlier runs is not seen again.
    """
    held, inputs = jax.tree.map(_shape, state), jax.tree.map(_shape, batch)
    with Peak() as peak:
        new_state, metrics = jax.block_until_ready(executable(state, batch))
    footprint = Footprint.of_step(
        held,
        inputs,
        temporary=peak.size,
        outputs=0,
        provenance="measured",
        detail=f"{jax.default_backend()}, {peak.source}, jax {jax.__version__}",
    )
    return Measured(new_state, metrics, footprint)


def _shape(array: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


class _Sampler:
    """Highest resident set seen by a thread that looks every few milliseconds."""

    def __init__(self) -> None:
        self._process, self._done = psutil.Process(), threading.Event()
        self._highest = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLING_SECONDS):
            self._highest = max(self._highest, self._process.memory_info().rss)

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return max(self._highest, self._process.memory_info().rss)
