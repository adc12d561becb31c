"""The whole idea on embedded proteins: train plainly, train inside a budget that this would break, and compare."""

import csv
import dataclasses
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from elbowroom.memory.footprint.compiled import Compiled
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Plan
from elbowroom.studies.case import Case
from elbowroom.studies.cases import case_named
from elbowroom.studies.choose_plan import compiled_step_of, fitted
from elbowroom.studies.compare import Comparison, compiled_rows
from elbowroom.studies.evaluate import model_scores, prior_scores, score_of
from elbowroom.studies.interrupt import StoppedError
from elbowroom.studies.optimizer import OptimizerSettings, averaged_parameters
from elbowroom.studies.provenance import result_row
from elbowroom.studies.train import Training, train


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """Sizes for two CPU cores and a few minutes."""

    trained_case: str = "alphafold-small"
    trained_sizes: dict[str, int] = field(
        default_factory=lambda: {
            "crop": 48,
            "clusters": 8,
            "extra": 16,
            "blocks": 1,
            "extra_blocks": 1,
            "templates": 0,
            "recycles": 0,
            "batch": 1,
        }
    )
    steps: int = 1200
    optimizer: OptimizerSettings = field(
        default_factory=lambda: OptimizerSettings(
            learning_rate=3e-3, warmup_steps=20, decay=0.1, decay_after=850, beta2=0.98
        )
    )
    """A thousandth of AlphaFold's steps: a faster rate and a shorter memory; above 5e-3 the loss rises. In so few
    minutes one block learns more than two, because it takes twice the steps."""
    budget_share: float = 0.4
    """The budget, as a share of what the plain step needs."""
    compared_case: str = "alphafold"
    compared_sizes: dict[str, int] = field(
        default_factory=lambda: {
            "crop": 128,
            "clusters": 32,
            "extra": 64,
            "blocks": 8,
            "extra_blocks": 1,
            "templates": 0,
            "recycles": 0,
            "batch": 1,
        }
    )
    compared_techniques: tuple[str, ...] = ("plain", "recompute both", "all exact")


DEMO = DemoSettings()


def demonstrate(out: Path, console: Console, settings: DemoSettings = DEMO) -> dict[str, Any]:
    """Rows of the two trainings, of the comparison, and the prior's score.

    What is finished lies in `out`/runs and is not done again.
    """
    case, sizes = case_named(settings.trained_case), settings.trained_sizes
    tell(console, f"reading embedded proteins, compiling the plain step of {case.name}")
    plain = compiled_step_of(case, sizes, settings.optimizer, Plan())
    needed = plain.footprint.peak
    budget = int(settings.budget_share * needed)
    tell(console, f"the plain step needs {format_size(needed)}; choosing a plan for {format_size(budget)}")
    fit = fitted(case, sizes, settings.optimizer, budget, lambda line: tell(console, line))
    tell(console, f"plan: {fit.plan}")
    runs = {"plain": (Plan(), plain), "budget": (fit.plan, fit.compiled)}
    trained = [_trained(name, plan, compiled, out, console, settings) for name, (plan, compiled) in runs.items()]
    compared = case_named(settings.compared_case)
    plans = compared.techniques(settings.compared_sizes)
    comparison = Comparison(
        case=compared,
        sizes=settings.compared_sizes,
        plans={name: plans[name] for name in settings.compared_techniques},
    )
    rows = compiled_rows(comparison, out / "runs" / "comparison.json", lambda line: tell(console, line))
    return {"budget_bytes": budget, "trained": trained, "prior": _prior_row(case, settings), "compared": rows}


def _trained(
    name: str, plan: Plan, compiled: Compiled, out: Path, console: Console, settings: DemoSettings
) -> dict[str, Any]:
    """Train or go on training under `plan`, and evaluate on the held-out proteins."""
    case, folder = case_named(settings.trained_case), out / "runs" / name
    training = Training(
        case=case,
        records=case.demo("train"),
        sizes=settings.trained_sizes,
        plan=plan,
        steps=settings.steps,
        out=folder,
        optimizer=settings.optimizer,
        checkpoint_every=200,
        resume=(folder / "run.json").exists(),
        title=name,
        compiled=compiled,
    )
    try:
        state = train(training, console)
    except StoppedError:
        raise StoppedError(f"stopped while training {name}; the same command goes on from there") from None
    held_out = case.held_out(case.demo("test"), settings.trained_sizes)
    tell(console, f"{name}: evaluating on {len(held_out)} held-out proteins")
    scores = model_scores(case, settings.trained_sizes, plan, averaged_parameters(state.optimizer), held_out)
    logged = _logged(folder)
    return result_row(
        case=case.name,
        sizes=settings.trained_sizes,
        plan=plan,
        how="trained",
        name=name,
        footprint=compiled.footprint.to_dict(),
        steps=settings.steps,
        optimizer=dataclasses.asdict(settings.optimizer),
        step_seconds=statistics.median(logged["seconds"][1:]),
        losses=logged["loss"],
        score=score_of(scores).to_dict(),
        gain_over_prior=score_of(_prior_scores(case, settings) - scores).to_dict(),
    )


def _prior_scores(case: Case, settings: DemoSettings) -> Any:
    prior = case.prior(case.demo("train"))
    return prior_scores(prior, case.held_out(case.demo("test"), settings.trained_sizes))


def _prior_row(case: Case, settings: DemoSettings) -> dict[str, Any]:
    return {"meaning": case.prior_meaning, "score": score_of(_prior_scores(case, settings)).to_dict()}


def _logged(folder: Path) -> dict[str, list[float]]:
    """Columns of a run's metrics."""
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def tell(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
