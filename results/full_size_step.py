"""The published model 1 at full size: its parameter file is read, and one train step at crop 64 runs on this machine.

The published numbers are not part of this project: a file of the same names, shapes and size is written from a fresh
model, or another one is named on the command line. Writes `full_size_step.json` and `.md` beside this file.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx

from elbowroom.memory.footprint.compiled import compile_step
from elbowroom.memory.footprint.measured import measure_step
from elbowroom.memory.step import initial_state
from elbowroom.models.alphafold.config import monomer
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.models.alphafold.weights import published_arrays
from elbowroom.studies.alphafold import ALPHAFOLD
from elbowroom.studies.case import abstract_batch
from elbowroom.studies.deepmind import load_deepmind, save_deepmind
from elbowroom.studies.footprint_report import PART_COLUMNS, part_rows
from elbowroom.studies.optimizer import make_optimizer
from elbowroom.studies.provenance import provenance_line, result_row
from elbowroom.studies.table import markdown_table
from elbowroom.studies.train import step_of

ROWS = Path(__file__).with_suffix(".json")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(sys.argv[1]) if len(sys.argv) > 1 else _fresh(Path(folder) / "params_model_1.npz")
        case = ALPHAFOLD.starting_from(file) if ALPHAFOLD.starting_from else ALPHAFOLD
        count = sum(int(np.prod(array.shape)) for array in published_arrays(load_deepmind(file)).values())
    sizes = {name: size.default for name, size in case.sizes.items()} | {"crop": 64, "recycles": 0}
    plan = case.plan
    state = initial_state(
        case.parameters(sizes, jax.random.key(0)), make_optimizer(case.optimizer, plan), jax.random.key(1)
    )
    compiled = compile_step(step_of(case, sizes, case.optimizer)(plan), state, abstract_batch(case, sizes))
    batch = jax.device_put(dict(next(case.batches(case.demo("train"), sizes, 0)).features))
    run = measure_step(compiled.executable, state, batch)
    metrics = {name: float(value) for name, value in run.metrics.items()}
    row = result_row(
        case=case.name,
        sizes=sizes,
        plan=plan,
        how="compiled, measured",
        parameters=count,
        compiled=compiled.footprint.to_dict(),
        measured=run.footprint.to_dict(),
        metrics=metrics,
    )
    ROWS.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    ROWS.with_suffix(".md").write_text(report(row), encoding="utf-8")
    print(report(row))


def report(row: dict[str, Any]) -> str:
    """The row as a page of Markdown."""
    tables = "\n\n".join(
        f"**{how}** ({row[how]['detail']})\n\n{markdown_table(PART_COLUMNS, part_rows(row[how]))}"
        for how in ("compiled", "measured")
    )
    sizes = ", ".join(f"{name} {value}" for name, value in row["sizes"].items())
    return (
        f"# One train step of AlphaFold at full size\n\n{row['parameters']:,} parameters, {sizes}; {row['plan_line']}. "
        f"Loss {row['metrics']['loss']:.2f}, gradient norm {row['metrics']['gradient_norm']:.3f}.\n"
        f"Written by `full_size_step.py`.\n\n{tables}\n\n{provenance_line(row['provenance'])}\n"
    )


def _fresh(path: Path) -> Path:
    save_deepmind(path, AlphaFold(monomer(), rngs=nnx.Rngs(0)))
    return path


if __name__ == "__main__":
    main()
