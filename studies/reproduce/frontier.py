"""The frontier: the largest AlphaFold train steps that fit a card, as the card's own compiler plans them.

Every point is one whole train step of the published model 1: recycling, templates, all heads and losses, gradients
and Adam, in bfloat16. Nothing runs and no card is needed.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elbowroom.memory.devices.profile import device
from elbowroom.memory.footprint.target import compiler
from elbowroom.memory.plan import Chunk, Plan
from elbowroom.studies.alphafold import ACCELERATOR_PLAN, NESTED, OFFLOADED
from elbowroom.studies.cases import case_named
from elbowroom.studies.footprint_report import device_row
from elbowroom.studies.provenance import result_row
from elbowroom.studies.sizes import chosen_sizes
from elbowroom.studies.target_process import TargetError

GIB = 2**30
HOST_LIMIT = 128 * GIB
"""Bytes of host memory that a machine with such a card can be expected to have."""
SERVER_LIMIT = 512 * GIB
"""The same for one card of a server: NVIDIA's DGX H100 has 2 TiB for eight."""
ARITHMETIC_LIMIT = 1.8
"""Most floating-point operations, relative to the plain step's, that a plan may cost."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One train step, and what it must keep to."""

    name: str
    """That of its plan's file"""
    meaning: str
    before: str
    """What the same took before, and who says so"""
    device: str
    sizes: Mapping[str, int]
    plan: Plan
    case: str = "alphafold"
    peak_limit: int | None = None
    """Bytes on the device; unset, all that a program can have there"""
    host_limit: int = 0
    """Bytes beside the device; 0 where nothing may be offloaded"""
    arithmetic_limit: float = ARITHMETIC_LIMIT


INITIAL = {"clusters": 128, "extra": 1024}

POINTS = (
    Point(
        name="fine_tuning",
        meaning="the paper's fine-tuning stage, crop 384, 512 clusters, 5,120 extra rows, nothing offloaded",
        before="39.6 GiB (OpenFold, A100)",
        device="rtx4090",
        case="alphafold-fine-tuning",
        sizes={"crop": 384, "clusters": 512, "extra": 5120},
        plan=dataclasses.replace(NESTED, chunk=Chunk(rows=32)),
        peak_limit=8 * GIB,
    ),
    Point(
        name="crop_1536",
        meaning="crop 1,536, nothing offloaded",
        before="about crop 600 (DeepMind's trunk alone)",
        device="rtx4090",
        sizes={"crop": 1536, **INITIAL},
        plan=NESTED,
    ),
    *(
        Point(
            name=f"crop_{crop}",
            meaning=f"crop {crop:,}, block inputs in host memory",
            before="-",
            device="rtx4090",
            sizes={"crop": crop, **INITIAL},
            plan=OFFLOADED,
            host_limit=HOST_LIMIT,
        )
        for crop in (2560, 512, 1024, 2048)
    ),
    Point(
        name="crop_1280",
        meaning="crop 1,280, nothing offloaded",
        before="-",
        device="tpu-v5e",
        sizes={"crop": 1280, **INITIAL},
        plan=NESTED,
    ),
    Point(
        name="crop_5120",
        meaning="crop 5,120, block inputs in host memory",
        before="AlphaFold 3 predicts up to 5,120 tokens",
        device="h100",
        sizes={"crop": 5120, **INITIAL},
        plan=OFFLOADED,
        host_limit=SERVER_LIMIT,
    ),
    Point(
        name="crop_384",
        meaning="crop 384, 512 clusters, the default plan: block inputs and module outputs in host memory",
        before="18.2 GiB (DeepMind's trunk alone)",
        device="h100",
        sizes={"crop": 384, "clusters": 512, "extra": 1024},
        plan=ACCELERATOR_PLAN,
        peak_limit=int(18.2 * GIB / 3),
        host_limit=HOST_LIMIT,
        arithmetic_limit=1.35,
    ),
)

GROWTH = ("crop_512", "crop_1024", "crop_2048")
"""Points of one card and one plan"""


def frontier_rows(points: Sequence[Point], report: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row for each point: what the card's compiler says, or why it says nothing.

    A compilation takes minutes. Its answer is kept for the same program, card and compiler, so that the next call
    only traces the program again.

    Raises `DeviceError` at once where a card's compiler is missing.
    """
    for point in points:
        compiler(device(point.device))
    rows = []
    for number, point in enumerate(points, start=1):
        report(f"{number} of {len(points)}: {point.meaning}, {point.device}")
        rows.append(point_row(point))
    return rows


def point_row(point: Point) -> dict[str, Any]:
    """A `device_row` with the point's goal, or with `error` in the compiler's words where there is none."""
    case, target = case_named(point.case), device(point.device)
    sizes = chosen_sizes(case.sizes, [f"{name}={value}" for name, value in point.sizes.items()])
    goal = {
        "name": point.name,
        "meaning": point.meaning,
        "before": point.before,
        "peak_limit": target.usable_memory if point.peak_limit is None else point.peak_limit,
        "host_limit": point.host_limit,
        "arithmetic_limit": point.arithmetic_limit,
    }
    try:
        row = device_row(case, sizes, point.plan, "compiled", target)
    except TargetError as error:
        row = result_row(
            case=case.name, sizes=sizes, plan=point.plan, how="compiled", device=target.key, error=str(error)
        )
    return {**goal, **row}


def reached(row: Mapping[str, Any]) -> bool:
    """Whether a row keeps to its point's goal."""
    return (
        "error" not in row
        and row["device_bytes"] <= row["peak_limit"]
        and row["host_bytes"] <= row["host_limit"]
        and row["flops"] <= row["arithmetic_limit"] * row["plain_flops"]
    )


def growth(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The power of the crop with which the peak grows, over the points of `GROWTH`; None where one has no answer."""
    found = {row["name"]: row for row in rows if row["name"] in GROWTH and "error" not in row}
    if len(found) < len(GROWTH):
        return None
    crops, peaks = zip(*((row["sizes"]["crop"], row["device_bytes"]) for row in found.values()), strict=True)
    return float(np.polyfit(np.log(crops), np.log(peaks), 1)[0])
