"""Compiling a case's train step for a device that is not there, in a process that may crash or hang without harm."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jax.errors import JaxRuntimeError
from jaxtyping import PyTree

from elbowroom.memory.devices.profile import DeviceError, DeviceProfile, device
from elbowroom.memory.footprint.footprint import Footprint
from elbowroom.memory.footprint.target import ENVIRONMENT, compile_for, compiler
from elbowroom.memory.plan import Plan
from elbowroom.studies.case import Case, abstract_batch
from elbowroom.studies.cases import case_named
from elbowroom.studies.choose_plan import abstract_train_state
from elbowroom.studies.sizes import Sizes
from elbowroom.studies.train import step_of

HOURS = 2
"""A compilation that takes longer hangs."""


class TargetError(ValueError):
    """The target's compiler gave no answer, or that the program does not fit."""


def target_footprint(case: Case, sizes: Sizes, plan: Plan, target: DeviceProfile) -> Footprint:
    """What the device's own compiler says of a train step.

    Raises `DeviceError` where there is no such compiler, `TargetError` with the compiler's own words where it
    refused, crashed or hung.
    """
    compiler(target)
    asked = {"case": case.name, "sizes": dict(sizes), "plan": plan.to_dict(), "device": target.key}
    command = [sys.executable, "-m", "elbowroom.studies.target_process", json.dumps(asked)]
    return answer_of(command, f"{target.key}, {plan}")


def answer_of(command: list[str], label: str) -> Footprint:
    """Run a command that prints a footprint, or why there is none, as its last line of JSON."""
    environment = {**os.environ, **ENVIRONMENT}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600 * HOURS)
    except subprocess.TimeoutExpired:
        raise TargetError(f"{label}: the compiler gave no answer in {HOURS} hours; try smaller sizes") from None
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        words = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise TargetError(f"{label}: the compiler ended with code {done.returncode}: {words[0]}")
    answer = json.loads(lines[-1])
    if "refused" in answer:
        raise TargetError(f"{label}: {answer['refused']}")
    return Footprint(**answer["footprint"])


def cache_folder() -> Path:
    """Where answers are kept between processes."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "elbowroom" / "targets"


def main() -> None:
    """The other process: compile what the first argument asks for."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    case, sizes, plan = case_named(asked["case"]), asked["sizes"], Plan.from_dict(asked["plan"])
    state, batch = abstract_train_state(case, sizes, case.optimizer, plan), abstract_batch(case, sizes)
    tell(device(asked["device"]), step_of(case, sizes, case.optimizer)(plan), state, batch)


def tell(target: DeviceProfile, step: Callable[..., Any], state: PyTree, batch: PyTree) -> None:
    """Print what `answer_of` reads: the footprint of a step, or why there is none."""
    try:
        found = compile_for(target, step, state, batch, cache=cache_folder())
        print(json.dumps({"footprint": found.to_dict()}))
    except (JaxRuntimeError, DeviceError) as error:
        print(json.dumps({"refused": str(error).splitlines()[0]}))


if __name__ == "__main__":
    main()
