"""Where a number comes from: versions, machine and commit, stored with every result."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from elbowroom.memory.plan import Plan
from elbowroom.studies.sizes import Sizes


@cache
def provenance() -> dict[str, Any]:
    """Versions and machine of this process, in plain types."""
    device = jax.devices()[0]
    return {
        "elbowroom": version("elbowroom"),
        "commit": _commit(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": version("jaxlib"),
        "flax": version("flax"),
        "system": f"{platform.system()} {platform.machine()}",
        "backend": device.platform,
        "device": device.device_kind,
        "devices": jax.device_count(),
        "cores": os.cpu_count(),
    }


def result_row(*, case: str, sizes: Sizes, plan: Plan, how: str, **values: Any) -> dict[str, Any]:
    """One result as JSON: what was run, how it was found out, the values, and where they come from."""
    return {
        "case": case,
        "sizes": dict(sizes),
        "plan": plan.to_dict(),
        "plan_line": str(plan),
        "how": how,
        **values,
        "provenance": provenance(),
    }


def provenance_line(where: dict[str, Any]) -> str:
    """One readable line for under a table."""
    cores = f", {where['cores']} cores" if where["backend"] == "cpu" else ""
    commit = f", commit {where['commit']}" if where["commit"] else ""
    return (
        f"{where['backend']} ({where['device']}{cores}), {where['system']}, python {where['python']}, "
        f"jax {where['jax']}, jaxlib {where['jaxlib']}, elbowroom {where['elbowroom']}{commit}"
    )


def _commit() -> str | None:
    """The commit of the source tree; None when installed from a package."""
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "rev-parse", "--short", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
