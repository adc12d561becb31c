"""Memory of this machine's device: the most that a run has held so far, and what is free."""

import jax
import psutil

from elbowroom.memory.footprint.resident import high_water


def peak_so_far() -> tuple[int, str]:
    """Bytes, and what they are: the device's own statistics, or this process' resident memory on CPU."""
    statistics = jax.local_devices()[0].memory_stats()
    if statistics is not None:
        return statistics["peak_bytes_in_use"], "device peak"
    return high_water(), "process peak"


def free_memory() -> int:
    """Bytes that the device, or this machine where it has no memory of its own, can still give."""
    statistics = jax.local_devices()[0].memory_stats()
    if statistics is None:
        return psutil.virtual_memory().available
    return statistics["bytes_limit"] - statistics["bytes_in_use"]
