"""A whole train step with cuDNN's attention, as the card's compiler plans it, beside the portable code.

    pip install 'elbowroom[compilers]' && pip install --no-deps nvidia-cudnn-cu13
    python results/kernels.py

Nothing runs and no device is needed, so nothing is said of time. Writes `kernels.md`, `.csv` and `.json` beside this
file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from elbowroom.memory.devices.profile import device
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Kernels, Plan, Precision, Recompute
from elbowroom.studies.cases import case_named
from elbowroom.studies.footprint_report import device_row
from elbowroom.studies.provenance import provenance_line
from elbowroom.studies.sizes import chosen_sizes
from elbowroom.studies.table import Column, csv_table, markdown_table, save_texts

SIZES = ("crop=256", "clusters=128", "extra=1024", "templates=0", "recycles=0")
RECOMPUTED = Plan(precision=Precision(compute="bfloat16"), recompute=Recompute(blocks=True, modules=True))
PLANS = {"portable, whole logits": RECOMPUTED, "cudnn": replace(RECOMPUTED, kernels=Kernels(attention="cudnn"))}
CARD = "h100"
TITLE = "Attention by cuDNN's kernel"
INTRODUCTION = """One train step of the published model 1 without templates and recycling (crop 256, 128 clusters, 1,024
extra rows) in bfloat16, blocks and modules recomputed, no rows cut. Made by `python results/kernels.py`."""
COLUMNS = (
    Column("card", lambda row: row["device"]),
    Column("attention", lambda row: row["attention"]),
    Column("device bytes", lambda row: row["device_bytes"], format_size),
    Column("arithmetic / plain", lambda row: row["flops"] / row["plain_flops"], "{:.2f}".format),
)


def markdown_of(rows: Sequence[Mapping[str, Any]]) -> str:
    compilers = "; ".join(dict.fromkeys(row["footprint"]["detail"] for row in rows))
    caption = f"compiled: {compilers}. {provenance_line(rows[0]['provenance'])}."
    return f"# {TITLE}\n\n{INTRODUCTION}\n\n{markdown_table(COLUMNS, rows)}\n\n{caption}\n"


def main() -> None:
    case = case_named("alphafold")
    sizes = chosen_sizes(case.sizes, list(SIZES))
    rows = [
        {"attention": name, **device_row(case, sizes, plan, "compiled", device(CARD))} for name, plan in PLANS.items()
    ]
    for path in save_texts(
        Path(__file__).parent, "kernels", markdown=markdown_of(rows), csv=csv_table(COLUMNS, rows), rows=rows
    ):
        print(path)


if __name__ == "__main__":
    main()
