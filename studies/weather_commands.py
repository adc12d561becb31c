"""What `predict` and `evaluate` do for weather."""

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Int

from elbowroom.datasets.weather.climatology import Climatology, mean_by_hour, open_climatology
from elbowroom.datasets.weather.examples import VALID, example
from elbowroom.datasets.weather.times import written
from elbowroom.datasets.weather.windows import Windows, windows
from elbowroom.memory.footprint.size import parse_size
from elbowroom.memory.plan import Plan
from elbowroom.studies.case import Case, Records
from elbowroom.studies.console import claim, print_results, progress_console, read_records, say
from elbowroom.studies.forecast import Forecaster, ForecastError, Forecasts, chosen_starts
from elbowroom.studies.forecast_file import ENDINGS, Layout, forecast_file
from elbowroom.studies.progress import counting
from elbowroom.studies.provenance import provenance, provenance_line
from elbowroom.studies.weather_evaluate import evaluate_forecasts, rows_of, shown
from elbowroom.studies.weather_evaluate_report import forecast_table, save_forecast_evaluation

STEPS = 4
"""A day, of data every six hours"""


def predict_weather(
    case: Case,
    *,
    data: Path,
    parameters: Path,
    steps: int | None,
    first: str | None,
    every: int | None,
    plan_file: Path | None,
    budget: str | None,
    out: Path,
    again: bool,
) -> None:
    console, steps = progress_console(), steps or STEPS
    records = read_records(case, data, None, console)
    dataset, forecaster = _given(case, records, parameters, lambda line: say(console, line))
    starts = chosen_starts(
        dataset["time"].values, history=forecaster.history, step=forecaster.step, first=first, every=every
    )
    jobs = _jobs(out, dataset, starts, data)
    claim(jobs[0][0].parent)
    todo = [job for job in jobs if again or not job[0].exists()]
    for path, _ in jobs:
        if path not in [path for path, _ in todo]:
            say(console, f"{path}: forecast before and kept; --again forecasts it anew")
    if not todo:
        return
    forecasts = Forecasts(
        forecaster,
        example(dataset, starts[0]),
        budget=None if budget is None else parse_size(budget),
        plan=None if plan_file is None else Plan.load(plan_file),
        tell=lambda line: say(console, line),
    )
    about = _attributes(case, records, forecasts, data)
    total = steps * sum(len(of_job) for _, of_job in todo)
    with counting(console, "forecasting", total) as count:
        for path, of_job in todo:
            _write(path, forecasts, dataset, of_job, steps, about, count)
    say(console, f"{'forecast' if len(starts) == 1 else 'forecasts are'} in {out}")


def evaluate_weather(
    case: Case,
    *,
    parameters: Path,
    data: Path | None,
    climatology: Path | None,
    steps: int | None,
    every: int | None,
    budget: str | None,
    out: Path,
    as_json: bool,
) -> None:
    console, steps = progress_console(), steps or STEPS
    records = case.demo("test") if data is None else read_records(case, data, None, console)
    dataset, forecaster = _given(case, records, parameters, lambda line: say(console, line))
    chosen = _windows(dataset, forecaster, steps, every)
    usual = _climatology(case, dataset, forecaster, data, climatology)
    claim(out)
    forecasts = Forecasts(
        forecaster,
        example(dataset, chosen.steps[0, : chosen.history]),
        budget=None if budget is None else parse_size(budget),
        tell=lambda line: say(console, line),
    )
    with counting(console, "evaluating", len(chosen)) as count:
        evaluation = evaluate_forecasts(forecasts, dataset, chosen, usual, count)
    report = {
        "case": case.name,
        "parameters": forecaster.origin,
        "data": _said_of(records, data),
        "simulated": bool(dataset.attrs["simulated"]),
        "climatology": None if usual is None else usual.meaning,
        "notes": list(forecaster.notes),
        "plan": forecasts.plan.to_dict(),
        "plan_line": str(forecasts.plan),
        "starts": evaluation.starts,
        "shown": shown(evaluation.channels),
        "rows": rows_of(evaluation),
        "provenance": provenance(),
    }
    paths = save_forecast_evaluation(out, report, evaluation)
    print_results(report, forecast_table(report), paths, console, as_json=as_json)


def _given(
    case: Case, records: Records, parameters: Path, tell: Callable[[str], None]
) -> tuple[xr.Dataset, Forecaster]:
    """The data, and the model on its grid."""
    assert case.forecaster is not None
    (dataset,) = records.items
    forecaster = case.forecaster(parameters, dataset)
    for note in forecaster.notes:
        tell(f"note: {note}")
    return dataset, forecaster


def _jobs(
    out: Path, dataset: xr.Dataset, starts: Int[np.ndarray, "start time"], data: Path
) -> list[tuple[Path, Int[np.ndarray, "start time"]]]:
    """Files to write, with the starts that each is to hold: all in one file that `out` names, or each in its own."""
    if out.resolve() == data.resolve():
        raise ForecastError(f"--out {out} is the data to forecast from; choose another")
    if out.suffix in ENDINGS:
        return [(out, starts)]
    names = [written(dataset["time"].values[start[-1]]).removesuffix(":00").replace(":", "") for start in starts]
    return [(out / f"{name}.nc", start[None]) for name, start in zip(names, starts, strict=True)]


def _write(
    path: Path,
    forecasts: Forecasts,
    dataset: xr.Dataset,
    starts: Int[np.ndarray, "start time"],
    steps: int,
    about: dict[str, str],
    count: Callable[[str], None],
) -> None:
    """One file of forecasts."""
    forecaster, times = forecasts.forecaster, dataset["time"].values
    leveled = {name: "level" in dataset[name].dims for name in forecaster.variables}
    leads = np.arange(1, steps + 1) * forecaster.step
    layout = Layout(
        starts=times[starts[:, -1]],
        leads=leads,
        levels=dataset["level"].values if any(leveled.values()) else None,
        latitudes=forecaster.latitudes,
        longitudes=dataset["longitude"].values,
        variables=leveled,
    )
    with forecast_file(path, layout, about) as file:
        for number, start in enumerate(starts):
            given = example(dataset, start)
            file.missing(number, sum(int((~known).sum()) for key, known in given.items() if key.endswith(VALID)))
            for lead, fields in enumerate(forecasts(given, steps)):
                file.fields(number, lead, fields)
                hours = leads[lead] / np.timedelta64(1, "h")
                count(f"{written(times[start[-1]])} + {hours:g} h")


def _windows(dataset: xr.Dataset, forecaster: Forecaster, steps: int, every: int | None) -> Windows:
    """Every start whose history and leads the data have, `every` hours apart."""
    times, leads = dataset["time"].values, range(1, steps + 1)
    try:
        found = windows(times, history=forecaster.history, leads=leads, step=forecaster.step)
    except ValueError as error:
        raise ForecastError(f"nothing to evaluate on: {error}") from None
    if not len(found):
        raise ForecastError(
            f"the data have no start with {forecaster.history} times up to it and {steps} steps after it; give a "
            "longer series, or fewer --steps"
        )
    if every is None:
        return found
    apart = times[found.steps[:, found.history - 1]] - times[found.steps[0, found.history - 1]]
    return dataclasses.replace(found, steps=found.steps[apart % np.timedelta64(every, "h") == np.timedelta64(0, "h")])


def _climatology(
    case: Case, dataset: xr.Dataset, forecaster: Forecaster, data: Path | None, given: Path | None
) -> Climatology | None:
    """The user's; beside embedded data that of those to train on."""
    if given is not None:
        return open_climatology(given, dataset, forecaster.variables)
    if data is not None:
        return None
    (training,) = case.demo("train").items
    return mean_by_hour(training, forecaster.variables, "the embedded training data")


def _attributes(case: Case, records: Records, forecasts: Forecasts, data: Path) -> dict[str, str]:
    """What a file of forecasts says of them."""
    forecaster, simulated = forecasts.forecaster, bool(records.items[0].attrs["simulated"])
    notes = [*forecaster.notes, "Where a value given to a forecast was missing, it was taken as the mean."]
    return {
        "title": f"Weather forecasts by {case.name}",
        "source": f"{case.name}, {forecaster.origin}; started from {_said_of(records, data)}",
        "history": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} elbowroom predict {case.name} {data.name}",
        "comment": " ".join(notes),
        "plan": str(forecasts.plan),
        "data_fingerprint": records.fingerprint,
        "provenance": provenance_line(provenance()),
        **({"simulated": "true"} if simulated else {}),
    }


def _said_of(records: Records, data: Path | None) -> str:
    """The name of the data, and whether they are simulated, as far as their files say."""
    name = "the embedded held-out data" if data is None else data.name
    simulated = records.items[0].attrs["simulated"]
    return f"{name} ({'simulated' if simulated else 'not marked as simulated'})"
