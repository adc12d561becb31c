"""Can the small model fold one real chain that it is shown again and again? lDDT-Ca and handedness along the way.

Writes `overfit_one_chain.json`, `.md` and `.png` beside this file; about five minutes on two cores.
"""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import nnx
from matplotlib.axes import Axes

from elbowroom.datasets.proteins.atoms import CA
from elbowroom.memory.plan import Plan, Recompute
from elbowroom.memory.step import initial_state, make_step
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.studies.alphafold import ALPHAFOLD_SMALL
from elbowroom.studies.alphafold_model import model_of
from elbowroom.studies.case import Features
from elbowroom.studies.compare_report import save_plot
from elbowroom.studies.metrics.lddt import lddt_ca
from elbowroom.studies.metrics.similarity import tm_score
from elbowroom.studies.optimizer import OptimizerSettings, averaged_parameters, make_optimizer
from elbowroom.studies.provenance import provenance, provenance_line

ROWS = Path(__file__).with_suffix(".json")
STEPS, EVERY = 900, 30
SHORTEST, LONGEST = 60, 100
PLAN = Plan(recompute=Recompute(blocks=True))
SETTINGS = OptimizerSettings(learning_rate=2e-3, warmup_steps=50, decay=0.2, decay_after=600, average=0.98)
MIRROR = np.array([1.0, 1.0, -1.0])


def main() -> None:
    case = ALPHAFOLD_SMALL
    protein = next(p for p in case.demo("train").items if SHORTEST <= len(p.sequence) <= LONGEST)
    length = len(protein.sequence)
    sizes = {"crop": length, "clusters": 16, "extra": 16, "blocks": 2, "extra_blocks": 1}
    sizes |= {"templates": 0, "recycles": 0, "batch": 1}
    records = case.demo("train")
    ((_, features),) = case.held_out(type(records)(items=[protein], fingerprint=""), sizes)
    optimizer = make_optimizer(SETTINGS, PLAN)
    state = initial_state(case.parameters(sizes, jax.random.key(0)), optimizer, jax.random.key(1))
    step = jax.jit(make_step(case.loss(sizes, PLAN), optimizer, PLAN, clip_norm=SETTINGS.clip_norm), donate_argnums=0)
    fold = folding(model_of(case.model, sizes))
    batch = {name: array[None] for name, array in features.items()}
    curve = [measured(0, fold(averaged_parameters(state.optimizer), features), features)]
    for number in range(1, STEPS + 1):
        state, metrics = step(state, batch)
        if number % EVERY == 0:
            point = measured(number, fold(averaged_parameters(state.optimizer), features), features)
            curve.append({**point, "loss": float(metrics["loss"]), "fape": float(metrics["fape"])})
            print(curve[-1], flush=True)
    write({"chain": protein.name, "residues": length, "sizes": sizes, "curve": curve, "provenance": provenance()})


def folding(model: AlphaFold) -> Any:
    """A compiled function from parameters and features to CA positions."""
    graph, _ = nnx.split(model, nnx.Param)

    @jax.jit
    def fold(parameters: Any, features: Any) -> Any:
        prediction = nnx.merge(graph, parameters)(features, None, Plan(), None)
        return prediction.structure.atom37[:, CA]

    return fold


def measured(step: int, predicted: Any, features: Features) -> dict[str, float]:
    """lDDT-Ca, and TM-scores of the prediction and of its mirror image."""
    known = features["all_atom_mask"][:, CA] > 0
    found, true = np.asarray(predicted, np.float64)[known], features["all_atom_positions"][known, CA].astype(np.float64)
    return {
        "step": step,
        "lddt_ca": lddt_ca(found, true, np.ones(len(true), bool)),
        "tm_score": tm_score(found, true),
        "mirror_tm_score": tm_score(found * MIRROR, true),
    }


def write(row: dict[str, Any]) -> None:
    ROWS.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    last = row["curve"][-1]
    save_plot(ROWS.with_suffix(".png"), lambda axes: plot(axes, row))
    ROWS.with_suffix(".md").write_text(
        f"# One chain, learned by heart\n\n`{row['chain']}` of {row['residues']} residues, the small model with "
        f"{row['sizes']['blocks']} Evoformer blocks, {last['step']} steps: lDDT-Ca {last['lddt_ca']:.3f}, TM-score "
        f"{last['tm_score']:.3f}, its mirror image {last['mirror_tm_score']:.3f}.\n"
        f"Written by `overfit_one_chain.py`.\n\n![Curve](overfit_one_chain.png)\n\n"
        f"{provenance_line(row['provenance'])}\n",
        encoding="utf-8",
    )


def plot(axes: Axes, row: dict[str, Any]) -> None:
    steps = [point["step"] for point in row["curve"]]
    for name, label in (("lddt_ca", "lDDT-Ca"), ("tm_score", "TM-score"), ("mirror_tm_score", "TM-score, mirrored")):
        axes.plot(steps, [point[name] for point in row["curve"]], label=label)
    axes.set(xlabel="training step", ylabel="score", ylim=(0, 1))
    axes.legend(frameon=False)
    axes.set_title(f"{row['chain']}, {row['residues']} residues", fontsize=8, loc="left")


if __name__ == "__main__":
    main()
