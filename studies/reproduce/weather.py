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
AUTHORS = "80 GB (the authors)"
BASELINES = ("plain", "blocks_alone")
"""Points that nothing is asked of"""


def _point(name: str, device: str, plan: Plan, meaning: str, before: str, **goal: int) -> Point:
    case = AURORA.name
    return Point(name=name, case=case, device=device, sizes={}, plan=plan, meaning=meaning, before=before, **goal)


POINTS = (
    _point("plain", "h100", Plan(), "the plain model, float32", "288 GiB kept for the backward pass (the original)"),
    _point(
        "blocks_alone",
        "h100",
        BLOCKS,
        "encoder, blocks and decoder recomputed, nothing cut",
        "38.6 GiB to recompute the decoder (the original)",
    ),
    _point("h100", "h100", replace(BLOCKS, chunk=Chunk(rows=24)), "AdamW, nothing offloaded", AUTHORS),
    _point("a100_40", "a100-40", IN_8_BITS, "Adam in 8 bits, nothing offloaded", AUTHORS, peak_limit=38 * GIB),
    _point("a100_40_adamw", "a100-40", LEAN, "AdamW, nothing offloaded", AUTHORS, peak_limit=38 * GIB),
    _point("rtx4090", "rtx4090", ADAM_ON_HOST, "AdamW, its state in host memory", "-", host_limit=HOST_LIMIT),
    _point("rtx4090_8bit", "rtx4090", IN_8_BITS, "Adam in 8 bits, nothing offloaded", "-"),
)
BY_PART = ("plain", "rtx4090")
"""Points whose parts are compiled alone too"""


def weather_rows(points: Sequence[Point], report: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row for each point, for some with the bytes of every part alone under `alone`; see `frontier_rows`."""
    rows = frontier_rows(points, report)
    return [{**row, "alone": _alone(row, report)} if row["name"] in BY_PART else row for row in rows]


def _alone(row: Mapping[str, Any], report: Callable[[str], None]) -> dict[str, int | str]:
    """Peak bytes by part; where a compiler has no answer, its words."""
    report(f"{row['name']}: each part alone")
    try:
        found = part_footprints(AURORA, row["sizes"], Plan.from_dict(row["plan"]), device(row["device"]))
    except TargetError as error:
        return {"error": str(error)}
    return {part: footprint.peak for part, footprint in found.items()}
