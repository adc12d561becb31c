"""Aurora fine-tuned whole at 0.25 degree, as the compilers of cards plan it.

Every point is one whole train step of the published model: 1.256 billion parameters, all trained, 721 x 1440 points,
13 levels, batch 1. Nothing runs and no card is needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from elbowroom.memory.devices.profile import device
from elbowroom.memory.plan import Chunk, Offload, OptimizerState, Plan, Recompute
from elbowroom.studies.aurora import AURORA, BFLOAT16, LEAN
from elbowroom.studies.reproduce.frontier import GIB, HOST_LIMIT, Point, frontier_rows
from elbowroom.studies.reproduce.weather_parts import part_footprints
from elbowroom.studies.target_process import TargetError

BLOCKS = Plan(precision=BFLOAT16, recompute=Recompute(blocks=True))
IN_8_BITS = replace(LEAN, optimizer=OptimizerState(rule="adam-8bit"))
ADAM_ON_HOST = replace(LEAN, offload=Offload(optimizer=True))
AUTHORS = "an A100 of 80 GB (the authors)"
BASELINES = ("plain", "blocks_alone")
"""Points that nothing is asked of"""

POINTS = (
    Point(
        name="plain",
        meaning="the plain model, float32",
        before="288 GiB kept for the backward pass (the original, counted)",
        device="h100",
        case=AURORA.name,
        sizes={},
        plan=Plan(),
    ),
    Point(
        name="blocks_alone",
        meaning="bfloat16, encoder, blocks and decoder recomputed, nothing cut",
        before="38.6 GiB to recompute the decoder (the original, counted)",
        device="h100",
        case=AURORA.name,
        sizes={},
        plan=BLOCKS,
    ),
    Point(
        name="h100",
        meaning="AdamW, nothing offloaded",
        before=AUTHORS,
        device="h100",
        case=AURORA.name,
        sizes={},
        plan=replace(BLOCKS, chunk=Chunk(rows=24)),
    ),
    Point(
        name="a100_40",
        meaning="Adam in 8 bits, nothing offloaded",
        before=AUTHORS,
        device="a100-40",
        case=AURORA.name,
        sizes={},
        plan=IN_8_BITS,
        peak_limit=38 * GIB,
    ),
    Point(
        name="a100_40_adamw",
        meaning="AdamW, nothing offloaded",
        before=AUTHORS,
        device="a100-40",
        case=AURORA.name,
        sizes={},
        plan=LEAN,
        peak_limit=38 * GIB,
    ),
    Point(
        name="rtx4090",
        meaning="AdamW, its state in host memory",
        before="does not fit",
        device="rtx4090",
        case=AURORA.name,
        sizes={},
        plan=ADAM_ON_HOST,
        host_limit=HOST_LIMIT,
    ),
    Point(
        name="rtx4090_8bit",
        meaning="Adam in 8 bits, nothing offloaded",
        before="does not fit",
        device="rtx4090",
        case=AURORA.name,
        sizes={},
        plan=IN_8_BITS,
    ),
    Point(
        name="rtx4090_roll_out",
        meaning="a roll-out of four steps, AdamW, its state in host memory",
        before="does not fit",
        device="rtx4090",
        case=AURORA.name,
        sizes={"steps": 4},
        plan=ADAM_ON_HOST,
        host_limit=HOST_LIMIT,
    ),
    Point(
        name="tpu_v5p",
        meaning="AdamW, its state in host memory: this compiler accounts for it",
        before="-",
        device="tpu-v5p",
        case=AURORA.name,
        sizes={},
        plan=ADAM_ON_HOST,
        host_limit=HOST_LIMIT,
    ),
)


def weather_rows(points: Sequence[Point], report: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row for each point, with the bytes of every part alone under `alone`; see `frontier_rows`."""
    return [{**row, "alone": _alone(row, report)} for row in frontier_rows(points, report)]


def _alone(row: Mapping[str, Any], report: Callable[[str], None]) -> dict[str, int | str]:
    """Peak bytes by part; where a compiler has no answer, its words."""
    report(f"{row['name']}: each part alone")
    try:
        found = part_footprints(AURORA, row["sizes"], Plan.from_dict(row["plan"]), device(row["device"]))
    except TargetError as error:
        return {"error": str(error)}
    return {part: footprint.peak for part, footprint in found.items()}
