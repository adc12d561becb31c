"""The kernel's high-water mark of this process' resident memory (proc(5): `VmHWM`, `clear_refs`; getrusage(2))."""

import resource
import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_high_water() -> bool:
    """Make the kernel count the peak from now on; False where it does not let us."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def high_water() -> int:
    """Peak resident set in bytes, since the last reset or, where that is not possible, since the process began."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 2**10)
