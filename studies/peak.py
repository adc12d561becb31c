"""The most memory a run has held so far, as the device or the operating system counts it."""

import jax

from elbowroom.memory.footprint.resident import high_water


def peak_so_far() -> tuple[int, str]:
    """Bytes, and what they are: the device's own statistics, or this process' resident memory on CPU."""
    statistics = jax.local_devices()[0].memory_stats()
    if statistics is not None:
        return statistics["peak_bytes_in_use"], "device peak"
    return high_water(), "process peak"
