"""What `predict` and `evaluate` do for proteins."""

from pathlib import Path
from typing import Any

from elbowroom.memory.footprint.size import parse_size
from elbowroom.memory.plan import Plan
from elbowroom.studies.alphafold_evaluate import (
    calibration_of,
    constant_predict,
    evaluation_rows,
    model_predict,
    with_structure,
)
from elbowroom.studies.alphafold_evaluate_report import evaluation_table, save_evaluation
from elbowroom.studies.alphafold_model import trained_model, untrained
from elbowroom.studies.alphafold_predict import Predictor, is_written, stems, trust_in, with_templates, write_prediction
from elbowroom.studies.case import Case
from elbowroom.studies.console import claim, print_results, progress_console, read_records, say
from elbowroom.studies.progress import counting
from elbowroom.studies.provenance import provenance
from elbowroom.studies.run_folder import RunError
from elbowroom.studies.sizes import chosen_sizes, with_defaults
from elbowroom.studies.structure_files import pdb_obstacle


def predict_structures(
    case: Case,
    *,
    data: Path,
    parameters: Path,
    templates: list[Path],
    plan_file: Path | None,
    budget: str | None,
    size_texts: list[str],
    out: Path,
    again: bool,
) -> None:
    console = progress_console()
    model, trained = trained_model(parameters)
    sizes = chosen_sizes(with_defaults(case.sizes, trained), size_texts)
    proteins = [with_templates(protein, templates) for protein in read_records(case, data, None, console).items]
    predictor = Predictor(
        model,
        sizes,
        budget=None if budget is None else parse_size(budget),
        plan=None if plan_file is None else Plan.load(plan_file),
        tell=lambda line: say(console, line),
    )
    note = {"parameters": parameters.name, **provenance()}
    claim(out)
    for number, (protein, stem) in enumerate(zip(proteins, stems(proteins, out), strict=True), start=1):
        label = f"{number} of {len(proteins)}: {protein.name}"
        if is_written(stem) and not again:
            say(console, f"{label}: predicted before and kept; --again predicts it anew")
            continue
        predicted = predictor(protein)
        write_prediction(predicted, stem, note)
        if obstacle := pdb_obstacle(predicted.structure):
            say(console, f"{label}: {obstacle}")
        say(console, f"{label}: {trust_in(predicted.structure)}")
    say(console, f"predictions are in {out}")


def evaluate_structures(
    case: Case,
    *,
    parameters: Path,
    data: Path | None,
    structures: Path | None,
    budget: str | None,
    size_texts: list[str],
    out: Path,
    as_json: bool,
) -> None:
    console = progress_console()
    model, trained = trained_model(parameters)
    sizes = chosen_sizes(with_defaults(case.sizes, trained), size_texts)
    records = case.demo("test") if data is None else read_records(case, data, structures, console)
    proteins = with_structure(records.items)
    if not proteins:
        raise RunError(f"{data} holds no structure to compare with; give --structures")
    bytes_allowed = None if budget is None else parse_size(budget)
    claim(out)
    seen: list[Any] = []
    shape, constant = constant_predict(case.demo("train").items)
    predictors = {
        "trained model": model_predict(Predictor(model, sizes, budget=bytes_allowed), seen),
        "untrained model": model_predict(Predictor(untrained(model), sizes, budget=bytes_allowed), []),
        f"constant: {shape}": constant,
    }
    with counting(console, "evaluating", len(proteins)) as count:
        rows, each = evaluation_rows(predictors, proteins, count)
    report = {"rows": rows, "proteins": each, "calibration": calibration_of(seen), "provenance": provenance()}
    paths = save_evaluation(out, report)
    print_results(report, evaluation_table(report), paths, console, as_json=as_json)
