"""The most memory a run has held so far, as the device or the operating system counts it."""

import resource
import sys
from pathlib import Path

import jax

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_earlier_peak() -> None:
    """Where the kernel allows it, count the peak of resident memory from now on."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return


def peak_so_far() -> tuple[int, str]:
    """Bytes, and what they are: the device's own statistics, or this process' resident memory on CPU."""
    statistics = jax.local_devices()[0].memory_stats()
    if statistics is not None:
        return statistics["peak_bytes_in_use"], "device peak"
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 2**10, "process peak"
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest * (1 if sys.platform == "darwin" else 2**10), "process peak"
