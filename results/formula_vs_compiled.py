"""How far the formula footprint is from the compiler's, plan by plan: run it to write the table beside this file.

The model has the published channels and few blocks, which do not change how a plan is estimated. Nothing is run.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from elbowroom.memory.footprint.compiled import compile_step
from elbowroom.memory.footprint.formula import formula_footprint
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Chunk, OptimizerState, Plan, Precision, Recompute
from elbowroom.studies.alphafold import ALPHAFOLD
from elbowroom.studies.case import abstract_batch
from elbowroom.studies.choose_plan import abstract_train_state
from elbowroom.studies.provenance import provenance_line, result_row
from elbowroom.studies.sizes import Sizes
from elbowroom.studies.table import Column, markdown_table
from elbowroom.studies.train import step_of

TOLERANCE = 0.15
ROWS = Path(__file__).with_suffix(".json")
TABLE = Path(__file__).with_suffix(".md")

SHALLOW = {"clusters": 32, "extra": 64, "blocks": 4, "extra_blocks": 1, "templates": 0, "recycles": 0, "batch": 1}
SIZES = ({"crop": 128, **SHALLOW}, {"crop": 64, **SHALLOW})

BLOCKS, BOTH = Recompute(blocks=True), Recompute(blocks=True, modules=True)
EXACT = (
    Plan(),
    Plan(recompute=BLOCKS),
    Plan(recompute=Recompute(modules=True)),
    Plan(recompute=BOTH),
    Plan(recompute=Recompute(blocks=True, groups=2)),
    Plan(recompute=Recompute(blocks=True, save=("outer_product_mean", "triangle_product"))),
    Plan(chunk=Chunk(rows=16)),
    Plan(chunk=Chunk(queries=32, keys=32)),
    Plan(recompute=BLOCKS, chunk=Chunk(rows=16)),
    Plan(recompute=BOTH, chunk=Chunk(rows=16, queries=32, keys=32)),
)
NARROW = Precision(compute="bfloat16")
LOSSY = (
    Plan(precision=NARROW),
    Plan(precision=NARROW, recompute=BOTH),
    replace(EXACT[-1], precision=NARROW, optimizer=OptimizerState(first_moment="bfloat16")),
)


COLUMNS = (
    Column("plan", lambda r: r["plan_line"]),
    Column("crop", lambda r: r["sizes"]["crop"]),
    Column("formula", lambda r: r["formula"]["peak"], format_size),
    Column("compiled", lambda r: r["compiled"]["peak"], format_size),
    Column("ratio", lambda r: r["formula"]["peak"] / r["compiled"]["peak"], "{:.3f}".format),
    Column(
        "ratio without parameters, state, batch",
        lambda r: _temporary(r["formula"]) / _temporary(r["compiled"]),
        "{:.3f}".format,
    ),
)


def row(plan: Plan, sizes: Sizes) -> dict[str, Any]:
    """Both footprints of a plan's train step."""
    settings = ALPHAFOLD.optimizer
    state, batch = abstract_train_state(ALPHAFOLD, sizes, settings, plan), abstract_batch(ALPHAFOLD, sizes)
    step = step_of(ALPHAFOLD, sizes, settings)(plan)
    formula, compiled = formula_footprint(step, state, batch), compile_step(step, state, batch).footprint
    return result_row(
        case=ALPHAFOLD.name,
        sizes=sizes,
        plan=plan,
        how="formula, compiled",
        formula=formula.to_dict(),
        compiled=compiled.to_dict(),
    )


def report(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as a page of Markdown."""
    ratio = COLUMNS[4].value
    worst = max(rows, key=lambda r: abs(ratio(r) - 1))
    return f"""# Formula against compiled peak

AlphaFold at the published channels, {SHALLOW["blocks"]} blocks,
{SHALLOW["clusters"]} + {SHALLOW["extra"]} MSA rows.
Farthest off of {len(rows)}: {ratio(worst):.3f}. Written by `formula_vs_compiled.py`.

{markdown_table(COLUMNS, rows)}

{provenance_line(rows[0]["provenance"])}
"""


def _temporary(footprint: dict[str, Any]) -> int:
    return footprint["gradients"] + footprint["temporaries"]


def main() -> None:
    rows = []
    for sizes in SIZES:
        for plan in EXACT + LOSSY:
            rows.append(row(plan, sizes))
            print(f"crop {sizes['crop']}, {plan}: {COLUMNS[4].value(rows[-1]):.3f}", flush=True)
    ROWS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(report(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
