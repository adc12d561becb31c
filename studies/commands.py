"""What the commands of `elbowroom` do."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import jax

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.proteins.check import check
from elbowroom.datasets.weather.check import check_weather
from elbowroom.datasets.weather.sources import holds_weather
from elbowroom.memory.budget import BudgetError
from elbowroom.memory.devices.profile import DeviceError, device, device_keys
from elbowroom.memory.footprint.compiled import NoAccountError
from elbowroom.memory.footprint.size import SizeError
from elbowroom.memory.plan import Plan, PlanError
from elbowroom.models.aurora.encodings import GridError
from elbowroom.models.aurora.normalisation import UnknownVariableError
from elbowroom.models.published import WeightsError
from elbowroom.studies.cases import UnknownCaseError, case_named
from elbowroom.studies.choose_plan import check_plan, choose_plan, default_plan
from elbowroom.studies.compare import Comparison, compiled_rows, measured_rows
from elbowroom.studies.compare_report import save_comparison, table_of
from elbowroom.studies.console import (
    claim,
    print_json,
    print_results,
    progress_console,
    read_records,
    say,
    table_console,
)
from elbowroom.studies.demo import demonstrate
from elbowroom.studies.demo_report import save_demo, table_of_demo
from elbowroom.studies.device_report import DEVICE_CAPTION, DEVICE_COLUMNS
from elbowroom.studies.footprint_report import (
    PART_COLUMNS,
    How,
    device_row,
    fitting_plan,
    footprint_row,
    part_rows,
    verdict,
)
from elbowroom.studies.forecast import ForecastError
from elbowroom.studies.interrupt import StoppedError
from elbowroom.studies.parameter_file import write_arrays
from elbowroom.studies.protein_commands import evaluate_structures, predict_structures
from elbowroom.studies.provenance import provenance_line
from elbowroom.studies.run_folder import RunError, inspect_folder
from elbowroom.studies.sizes import CaseSizeError, chosen_sizes, with_defaults
from elbowroom.studies.structure_files import StructureError
from elbowroom.studies.table import Column, terminal_table
from elbowroom.studies.target_process import TargetError
from elbowroom.studies.train import DivergedError, Training, train
from elbowroom.studies.trained import run_record
from elbowroom.studies.weather_commands import evaluate_weather, predict_weather

USER_MISTAKES = (
    BudgetError,
    CaseSizeError,
    DataError,
    DeviceError,
    DivergedError,
    ForecastError,
    GridError,
    NoAccountError,
    PlanError,
    RunError,
    SizeError,
    StructureError,
    TargetError,
    UnknownCaseError,
    UnknownVariableError,
    WeightsError,
)
"""Errors whose text tells the user what to do; any other is a fault of the program and keeps its traceback."""


AUTO = Path("auto")
"""In place of a plan's file: choose one"""
COUNTED = ("proteins", "residues", "resolved_residues", "alignments", "alignment_rows", "structures")
COUNTED_WEATHER = (
    "variables",
    "levels_hpa",
    "latitudes",
    "longitudes",
    "times",
    "first_time",
    "last_time",
    "step_hours",
    "missing_times",
    "missing",
)


def advice(error: Exception) -> tuple[str | None, int]:
    """The line to print for an error and the exit code; no line for a fault of the program."""
    if isinstance(error, StoppedError):
        return str(error), error.exit_code
    if isinstance(error, USER_MISTAKES):
        return f"error: {error}", 2
    if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error):
        return "error: the step does not fit the device's memory; give --budget, or smaller sizes with --size", 2
    if isinstance(error, FileExistsError | NotADirectoryError | PermissionError):
        return f"error: {error.filename} cannot be written: {error.strerror}; choose another --out", 2
    return None, 1


def run_train(
    name: str,
    *,
    data: Path | None,
    structures: Path | None,
    plan_file: Path | None,
    budget: str | None,
    steps: int,
    out: Path,
    resume: bool,
    size_texts: list[str],
    seed: int,
    checkpoint_every: int,
    start: Path | None,
) -> None:
    case, console = case_named(name), progress_console()
    if start is not None:
        if case.starting_from is None:
            raise RunError(f"--from: no published parameters are known of {name}; leave it out")
        case = case.starting_from(start)
    sizes = chosen_sizes(case.sizes, size_texts)
    training = Training(
        case=case,
        records=read_records(case, data, structures, console),
        sizes=sizes,
        plan=Plan(),
        steps=steps,
        out=out,
        seed=seed,
        optimizer=case.optimizer,
        checkpoint_every=checkpoint_every,
        resume=resume,
    )
    inspect_folder(out, training.settings, resume=resume)
    if resume and plan_file is None and budget is None:
        plan_file = out / "plan.toml"
    choice = choose_plan(case, sizes, plan_file=plan_file, budget=budget, tell=lambda line: say(console, line))
    say(console, f"plan: {choice.plan}")
    state = train(dataclasses.replace(training, plan=choice.plan, compiled=choice.compiled), console)
    say(console, f"{out}: at step {int(state.step)}; metrics in metrics.csv and tensorboard/, state in checkpoints/")


def run_footprint(
    name: str, *, size_texts: list[str], plan_file: Path | None, how: How, on: str | None, as_json: bool
) -> None:
    case, console = case_named(name), progress_console()
    sizes = chosen_sizes(case.sizes, size_texts)
    target = None if on is None else device(on)
    with console.status(f"{how} for {on or 'this machine'}"):
        if plan_file is None:
            plan = default_plan(case, sizes, accelerator=target is not None)
        elif plan_file != AUTO:
            plan = Plan.load(plan_file)
            check_plan(case, sizes, plan, None if target is None else target.platform)
        elif target is not None:
            plan = fitting_plan(case, sizes, how, target, lambda line: say(console, line))
        else:
            raise PlanError("--plan auto needs a --device to fit; see `elbowroom devices`")
        row = footprint_row(case, sizes, plan, how) if target is None else device_row(case, sizes, plan, how, target)
    if as_json:
        print_json(row)
        return
    title = f"{name} ({', '.join(f'{size} {value}' for size, value in sizes.items())}), {plan}"
    caption = f"{how}: {row['footprint']['detail']}. {provenance_line(row['provenance'])}."
    table_console().print(terminal_table(title, PART_COLUMNS, part_rows(row["footprint"]), caption))
    if on is not None:
        say(console, verdict(row))


def run_devices(*, as_json: bool) -> None:
    """Print every device; in JSON with the source of each number."""
    profiles = [device(key) for key in device_keys()]
    if as_json:
        print_json([profile.to_dict() for profile in profiles])
        return
    table_console().print(terminal_table("devices", DEVICE_COLUMNS, [{"profile": p} for p in profiles], DEVICE_CAPTION))


def run_compare(
    name: str, *, size_texts: list[str], how: Literal["compiled", "measured"], out: Path, as_json: bool
) -> None:
    case, console = case_named(name), progress_console()
    sizes = chosen_sizes(with_defaults(case.sizes, case.compared_sizes), size_texts)
    comparison = Comparison(case=case, sizes=sizes, plans=case.techniques(sizes))
    for plan in comparison.plans.values():
        check_plan(case, sizes, plan)
    claim(out)
    store = out / "rows.json"
    if how == "compiled":
        rows = compiled_rows(comparison, store, lambda line: say(console, line))
    else:
        batch = next(case.batches(case.demo("train"), sizes, 0)).features
        rows = measured_rows(comparison, batch, store, lambda line: say(console, line))
    paths = save_comparison(out, f"{name}-{how}", rows)
    print_results(rows, table_of(rows), paths, console, as_json=as_json)


def run_check(data: Path, *, structures: Path | None, as_json: bool) -> bool:
    """Print what was found; False if training would refuse it."""
    weather = structures is None and holds_weather(data)
    report = check_weather(data) if weather else check(data, structures)
    counts = {name: getattr(report, name) for name in (COUNTED_WEATHER if weather else COUNTED)}
    if weather:
        counts["missing"] = tuple(f"{missing}" for missing in counts["missing"])
    if as_json:
        defects, warnings = [str(defect) for defect in report.defects], [str(warned) for warned in report.warnings]
        print_json({**counts, "defects": defects, "warnings": warnings})
        return not report.defects
    rows = [{"what": name.replace("_", " "), "count": _shown(count)} for name, count in counts.items()]
    columns = [Column("found", lambda row: row["what"]), Column("count", lambda row: row["count"])]
    console = table_console()
    console.print(terminal_table(str(data), columns, rows, ""))
    for kind, findings in (("defect", report.defects), ("warning", report.warnings)):
        for finding in findings:
            say(console, f"{kind}: {finding}")
    say(console, f"{len(report.defects)} defects, {len(report.warnings)} kinds of warning")
    return not report.defects


def _shown(count: Any) -> str:
    """Several things are listed one after the other."""
    return ", ".join(f"{item}" for item in count) or "none" if isinstance(count, tuple) else f"{count}"


def run_predict(
    name: str,
    *,
    data: Path,
    parameters: Path,
    templates: list[Path],
    steps: int | None,
    first: str | None,
    every: int | None,
    plan_file: Path | None,
    budget: str | None,
    size_texts: list[str],
    out: Path,
    again: bool,
) -> None:
    case = case_named(name)
    if case.forecaster is None:
        _require_unset(name, {"--steps": steps, "--start": first, "--every": every})
        predict_structures(
            case,
            data=data,
            parameters=parameters,
            templates=templates,
            plan_file=plan_file,
            budget=budget,
            size_texts=size_texts,
            out=out,
            again=again,
        )
        return
    _require_unset(name, {"--template": templates, "--size": size_texts})
    predict_weather(
        case,
        data=data,
        parameters=parameters,
        steps=steps,
        first=first,
        every=every,
        plan_file=plan_file,
        budget=budget,
        out=out,
        again=again,
    )


def run_evaluate(
    name: str,
    *,
    parameters: Path,
    data: Path | None,
    structures: Path | None,
    climatology: Path | None,
    steps: int | None,
    every: int | None,
    budget: str | None,
    size_texts: list[str],
    out: Path,
    as_json: bool,
) -> None:
    case = case_named(name)
    if case.forecaster is None:
        _require_unset(name, {"--climatology": climatology, "--steps": steps, "--every": every})
        evaluate_structures(
            case,
            parameters=parameters,
            data=data,
            structures=structures,
            budget=budget,
            size_texts=size_texts,
            out=out,
            as_json=as_json,
        )
        return
    _require_unset(name, {"--structures": structures, "--size": size_texts})
    evaluate_weather(
        case,
        parameters=parameters,
        data=data,
        climatology=climatology,
        steps=steps,
        every=every,
        budget=budget,
        out=out,
        as_json=as_json,
    )


def _require_unset(name: str, options: Mapping[str, Any]) -> None:
    """Options that mean nothing to a case are refused, not passed over."""
    for option, given in options.items():
        if given:
            raise RunError(f"{option} means nothing to {name}; leave it out")


def run_export(place: Path, out: Path) -> None:
    case = case_named(run_record(place)["case"])
    if case.published is None:
        raise RunError(f"{place} is a run of {case.name}, of which no published names are known")
    if out.exists():
        raise RunError(f"{out} exists already; choose another --out")
    arrays = case.published(place)
    write_arrays(out, arrays)
    say(progress_console(), f"{out}: {len(arrays)} arrays under their published names")


def run_demo(out: Path, *, as_json: bool) -> None:
    console = progress_console()
    # Each step is compiled once, however often it is measured, trained and resumed.
    jax.config.update("jax_compilation_cache_dir", str((out / "runs" / "compiled").absolute()))
    rows = demonstrate(out, console)
    paths = save_demo(out, rows)
    print_results(rows, table_of_demo(rows), paths, console, as_json=as_json)
