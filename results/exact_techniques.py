"""Compiled memory of the exact techniques on the true-channel model: run it to write the table and plot beside it.

Nothing is run, only compiled. Rows already in the JSON are kept; delete it to start afresh.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Chunk, Plan, Recompute
from elbowroom.studies.alphafold import ALPHAFOLD
from elbowroom.studies.choose_plan import compiled_step_of
from elbowroom.studies.provenance import provenance_line, result_row
from elbowroom.studies.table import Column, Row, markdown_table

ROWS, TABLE, PLOT = (Path(__file__).with_suffix(suffix) for suffix in (".json", ".md", ".png"))
SIZES = {"clusters": 64, "extra": 128, "blocks": 8, "extra_blocks": 1, "templates": 0, "recycles": 0, "batch": 1}
CROPS = (128, 192, 256, 384)
COMPARED = 256
"""Residues at which every technique is compiled; the first and last plan at all crops."""

ALL = Plan(recompute=Recompute(blocks=True, modules=True, groups=3), chunk=Chunk(rows=16, queries=64, keys=64))
PLANS = (
    Plan(),
    Plan(recompute=Recompute(blocks=True)),
    Plan(recompute=Recompute(modules=True)),
    Plan(recompute=Recompute(blocks=True, modules=True)),
    Plan(chunk=Chunk(rows=16)),
    Plan(chunk=Chunk(queries=64, keys=64)),
    Plan(recompute=Recompute(blocks=True), chunk=Chunk(rows=16)),
    ALL,
)

COLUMNS = (
    Column("plan", lambda r: r["plan_line"]),
    Column("crop", lambda r: r["sizes"]["crop"]),
    Column("temporaries", lambda r: temporaries(r), format_size),
    Column("peak", lambda r: r["footprint"]["peak"], format_size),
)


def temporaries(row: Row) -> int:
    """All that the compiler calls temporary, gradients included."""
    return row["footprint"]["temporaries"] + row["footprint"]["gradients"]


def chosen(rows: Sequence[dict[str, Any]], plan: Plan) -> list[dict[str, Any]]:
    return sorted((r for r in rows if r["plan_line"] == str(plan)), key=lambda r: r["sizes"]["crop"])


def saving(rows: Sequence[dict[str, Any]]) -> float:
    """How many times the temporaries of all techniques together the plain program needs."""
    plain, exact = (
        next(temporaries(r) for r in chosen(rows, plan) if r["sizes"]["crop"] == COMPARED) for plan in (Plan(), ALL)
    )
    return plain / exact


def slope(rows: Sequence[dict[str, Any]], plan: Plan) -> float:
    """Exponent of the peak in the crop: least squares of the logarithms."""
    of_plan = chosen(rows, plan)
    crops, peaks = [r["sizes"]["crop"] for r in of_plan], [r["footprint"]["peak"] for r in of_plan]
    return float(np.polyfit(np.log(crops), np.log(peaks), 1)[0])


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a page of Markdown."""
    return f"""# Exact techniques: compiled memory of a train step

AlphaFold at the published channels, {SIZES["blocks"]} blocks and one for extra sequences,
{SIZES["clusters"]} + {SIZES["extra"]} MSA rows, float32, Adam, batch 1. Written by `exact_techniques.py`.

{markdown_table(COLUMNS, rows)}

At crop {COMPARED} all techniques together need 1/{saving(rows):.1f} of the plain program's temporaries.
The peak grows with the crop to the power {slope(rows, ALL):.2f}, the plain program's to {slope(rows, Plan()):.2f}.

![Peak against crop](exact_techniques.png)

compiled on {provenance_line(rows[0]["provenance"])}
"""


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Peak against crop, plain and with all techniques."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for plan, label in ((Plan(), "plain"), (ALL, "all exact techniques")):
        of_plan = chosen(rows, plan)
        crops, peaks = [r["sizes"]["crop"] for r in of_plan], [r["footprint"]["peak"] / 2**30 for r in of_plan]
        axes.loglog(crops, peaks, "o-", label=f"{label}: crop to the power {slope(rows, plan):.2f}")
    axes.set(xlabel="crop (residues)", ylabel="compiled peak of a train step (GiB)")
    axes.set_xticks(CROPS, [str(c) for c in CROPS])
    axes.minorticks_off()
    axes.set_yticks([0.5, 1, 2, 5, 10, 20, 50, 100], ["0.5", "1", "2", "5", "10", "20", "50", "100"])
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    rows = json.loads(ROWS.read_text()) if ROWS.exists() else []
    wanted = [(plan, COMPARED) for plan in PLANS] + [(p, c) for p in (Plan(), ALL) for c in CROPS if c != COMPARED]
    for plan, crop in wanted:
        sizes = {"crop": crop, **SIZES}
        if any(r["plan_line"] == str(plan) and r["sizes"] == sizes for r in rows):
            continue
        footprint = compiled_step_of(ALPHAFOLD, sizes, ALPHAFOLD.optimizer, plan).footprint
        rows.append(
            result_row(case=ALPHAFOLD.name, sizes=sizes, plan=plan, how="compiled", footprint=footprint.to_dict())
        )
        print(f"crop {crop}, {plan}: {format_size(footprint.peak)}", flush=True)
        rows.sort(key=lambda r: (r["sizes"]["crop"] != COMPARED, r["sizes"]["crop"]))
        ROWS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(report(rows), encoding="utf-8")
    plot(rows, PLOT)


if __name__ == "__main__":
    main()
