"""Stormer from random parameters, a quarter of an hour on two cores, beside persistence and ridge regression.

    python results/weather_from_scratch.py held_suarez_T21.npz

Learns from all but the last 50 times of a file of weather, and forecasts those one step ahead. The planet must be the
same at every longitude and in both hemispheres. Writes `weather_from_scratch.md`, `.csv`, `.json` and `.png` beside
this file. Interrupted, the same command goes on.
"""

import csv
import dataclasses
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from rich.console import Console

from elbowroom.datasets.weather.fingerprint import fingerprint
from elbowroom.datasets.weather.normal import open_weather
from elbowroom.datasets.weather.symmetry import NORTHWARD
from elbowroom.memory.plan import Plan
from elbowroom.models.stormer.config import small
from elbowroom.studies.case import Records
from elbowroom.studies.compare import Comparison, measured_rows
from elbowroom.studies.compare_report import caption, columns, save_plot
from elbowroom.studies.evaluate import Score, score_of
from elbowroom.studies.interrupt import StoppedError
from elbowroom.studies.metrics.weather import area_weights, mse, rmse
from elbowroom.studies.optimizer import averaged_parameters
from elbowroom.studies.provenance import provenance, provenance_line
from elbowroom.studies.ridge import LATITUDES, LONGITUDES, RidgeForecast
from elbowroom.studies.stormer import STORMER_SYMMETRIC, forecast_of, techniques
from elbowroom.studies.stormer_features import Scaling, scaling_of
from elbowroom.studies.table import Column, Row, csv_table, markdown_table, save_texts
from elbowroom.studies.train import Training, train

type Fields = Float[np.ndarray, "time channel lat lon"]

HELD_OUT = 50
STEPS, SHORT_STEPS, BATCH = 5_000, 500, 4
SHORT = ("plain", "all exact", "bfloat16")
"""Techniques that the model is trained under for `SHORT_STEPS`"""
MODEL, MIRRORED = "Stormer", "ridge regression, mirrored weather too"
POINTS, AREA = "every point alike", "by area"
HERE = Path(__file__).parent
RUNS = HERE / "runs" / "weather_from_scratch"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("give one file of weather, such as held_suarez_T21.npz")
    weather, console = open_weather(Path(sys.argv[1])), Console(file=sys.stderr)
    try:
        write(results(weather, console))
    except StoppedError as stopped:
        sys.exit(str(stopped))


def results(weather: xr.Dataset, console: Console) -> dict[str, Any]:
    seen, later = weather.isel(time=slice(-HELD_OUT)), weather.isel(time=slice(-HELD_OUT - 1, None))
    sizes = {"leads": 1, "batch": BATCH, "channels": len(scaling_of(seen, 1).channels)}
    sizes |= {f"{name}s": weather.sizes[name] for name in ("latitude", "longitude")}
    whole = training(seen, sizes, Plan(), "whole", STEPS)
    parameters = averaged_parameters(train(whole, console).optimizer)
    plans = plan_rows(whole, console)
    runs = {name: training(seen, sizes, techniques(sizes)[name], name.replace(" ", "-"), SHORT_STEPS) for name in SHORT}
    learned = {name: averaged_parameters(train(run, console).optimizer) for name, run in runs.items()}
    judge = Judge(seen, later, Scaling.from_dict(whole.case.model["statistics"]))
    forecasts = {"persistence": np.zeros_like(judge.truth), **judge.linear_forecasts()}
    forecasts[MODEL] = judge.forecasts(whole, Plan(), parameters)
    for row in plans:
        plan, name = Plan.from_dict(row["plan"]), row["name"]
        row["error"] = judge.mean_error(judge.forecasts(whole, plan, parameters))
        if name in runs:
            row["short_error"] = judge.mean_error(judge.forecasts(runs[name], plan, learned[name]))
    return {
        "simulated": weather.attrs["simulated"],
        "times": [len(seen["time"]), HELD_OUT],
        "lead_hours": judge.scaling.step_hours,
        "sizes": sizes,
        "steps": STEPS,
        "short_steps": SHORT_STEPS,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(parameters)),
        "minutes": seconds_of(whole) / 60,
        "scores": judge.rows(forecasts),
        "plans": plans,
        "provenance": provenance(),
    }


def training(seen: xr.Dataset, sizes: dict[str, int], plan: Plan, name: str, steps: int) -> Training:
    """Most of the steps at the full rate, the rest at a tenth of it."""
    folder = RUNS / name
    return Training(
        case=STORMER_SYMMETRIC,
        records=Records(items=[seen], fingerprint=fingerprint(seen)),
        sizes=sizes,
        plan=plan,
        steps=steps,
        out=folder,
        optimizer=dataclasses.replace(STORMER_SYMMETRIC.optimizer, decay=0.1, decay_after=round(0.7 * steps)),
        checkpoint_every=250,
        resume=(folder / "run.json").exists(),
        title=name,
    )


def seconds_of(run: Training) -> float:
    with (run.out / "metrics.csv").open(encoding="utf-8") as file:
        return sum(float(row["seconds"]) for row in csv.DictReader(file))


def plan_rows(run: Training, console: Console) -> list[dict[str, Any]]:
    """Memory, time, loss and gradient of a train step under every technique."""
    comparison = Comparison(case=run.case, sizes=run.sizes, plans=techniques(run.sizes))
    batch = next(run.case.batches(run.records, run.sizes, 0)).features
    return measured_rows(comparison, batch, RUNS / "plans.json", console.print)


class Judge:
    """Compares forecast changes with those that came, in standard deviations of the training times' anomalies."""

    def __init__(self, seen: xr.Dataset, later: xr.Dataset, scaling: Scaling) -> None:
        """`later` begins with the last time of `seen`, from which the first forecast starts."""
        self.scaling, self._later = scaling, later
        self._seen, self._starts = stacked(seen, scaling), stacked(later, scaling)
        self._centre = self._seen.mean(axis=0)
        self.unit = (self._seen - self._centre).std(axis=(0, 2, 3))[:, None, None]
        self.truth = np.diff(self._starts, axis=0) / self.unit
        area = area_weights(later["latitude"].values)
        self._weights = {POINTS: np.ones_like(area), AREA: area}

    def linear_forecasts(self) -> dict[str, Fields]:
        signs = np.array([-1.0 if channel.variable in NORTHWARD else 1.0 for channel in self.scaling.channels])
        symmetric = (self._centre + self._centre[:, ::-1] * signs[:, None, None]) / 2
        kinds = {"ridge regression": (self._centre, None), MIRRORED: (symmetric, signs)}
        return {name: self._linear(centre, mirrored) for name, (centre, mirrored) in kinds.items()}

    def _linear(
        self, centre: Float[np.ndarray, "channel lat lon"], mirrored: Float[np.ndarray, "channel"] | None
    ) -> Fields:
        ridge = RidgeForecast((self._seen - centre) / self.unit, mirrored)
        return ridge((self._starts[:-1] - centre) / self.unit)

    def forecasts(self, run: Training, plan: Plan, parameters: Any) -> Fields:
        sizes = {name: run.sizes[name] for name in ("channels", "latitudes", "longitudes")}
        forecast = jax.jit(forecast_of(dataclasses.replace(small(), **sizes), plan))
        examples = run.case.held_out(Records(items=[self._later], fingerprint=""), run.sizes)
        changes = np.stack([np.asarray(forecast(parameters, features), np.float64) for _, features in examples])
        spread = np.array([channel.changes[0] for channel in self.scaling.channels])
        return changes * spread[:, None, None] / self.unit

    def mean_error(self, forecast: Fields) -> float:
        """Mean over channels of the root mean square error, every point alike."""
        return float(rmse(self._squares(forecast, POINTS)).mean())

    def _squares(self, forecast: Fields, weighting: str) -> Float[np.ndarray, "time channel"]:
        return np.asarray(mse(forecast, self.truth, self._weights[weighting]))

    def rows(self, forecasts: Mapping[str, Fields]) -> list[dict[str, Any]]:
        """A row for each forecast and weighting."""
        return [row for weighting in self._weights for row in self._rows(forecasts, weighting)]

    def _rows(self, forecasts: Mapping[str, Fields], weighting: str) -> list[dict[str, Any]]:
        squares = {name: self._squares(forecast, weighting) for name, forecast in forecasts.items()}
        of_time = {name: np.sqrt(found).mean(axis=1) for name, found in squares.items()}
        channels = [str(channel) for channel in self.scaling.channels]
        return [
            {
                "forecast": name,
                "weighting": weighting,
                "rmse": dict(zip(channels, np.atleast_1d(rmse(found)).tolist(), strict=True)),
                "mean": score_of(of_time[name]).to_dict(),
                "gain": None if name == MODEL else score_of(of_time[name] - of_time[MODEL]).to_dict(),
            }
            for name, found in squares.items()
        ]


def stacked(dataset: xr.Dataset, scaling: Scaling) -> Fields:
    fields = []
    for channel in scaling.channels:
        field = dataset[channel.variable]
        fields.append((field if channel.level is None else field.sel(level=channel.level)).values)
    return np.stack(fields, axis=1).astype(np.float64)


def score_columns(rows: Sequence[Row]) -> list[Column]:
    def of_channel(name: str, row: Row) -> float:
        return row["rmse"][name]

    def interval(score: Mapping[str, Any]) -> str:
        return str(Score(**score))

    return [
        Column("forecast", lambda row: row["forecast"]),
        Column("points count", lambda row: row["weighting"]),
        *(Column(name, partial(of_channel, name), "{:.3f}".format) for name in rows[0]["rmse"]),
        Column("mean", lambda row: row["mean"], interval),
        Column(f"{MODEL}'s gain", lambda row: row["gain"], interval),
    ]


def plan_columns(rows: Sequence[Row]) -> list[Column]:
    return [
        *columns(rows),
        Column("error", lambda row: row["error"], "{:.4f}".format),
        Column("error, short", lambda row: row.get("short_error"), "{:.4f}".format),
    ]


def report(found: Mapping[str, Any]) -> str:
    """The results as a page of Markdown."""
    scores, plans, (trained, held_out) = found["scores"], found["plans"], found["times"]
    sizes, kind = found["sizes"], "SIMULATED" if found["simulated"] else "observed"
    return f"""# Weather from scratch

{kind} weather, {sizes["channels"]} channels on {sizes["latitudes"]} x {sizes["longitudes"]} points. {MODEL} (small,
{found["parameters"] / 1e6:.2f} million parameters) learned from random parameters from the first {trained} times alone,
turned and mirrored, as its planet is the same at every longitude and in both hemispheres: {found["steps"]} steps of
{sizes["batch"]} examples, {found["minutes"]:.1f} minutes. It forecasts each of the last {held_out} times from the one
{found["lead_hours"]:g} hours before.

{markdown_table(score_columns(scores), scores)}

Root mean square errors of {held_out} forecasts, in standard deviations of the training times' anomalies from each
point's mean. Mean: over channels and times, with its bootstrap 95 % interval over times; the gain is {MODEL}'s, time by
time. Ridge regression: {LATITUDES} latitudes x {LONGITUDES} longitudes around each point, all channels, coefficients
for each latitude, the penalty chosen on the last fifth of the training times.

The rate, the batch and the width were chosen in trials of three minutes whose errors on the same {held_out} times were
looked at; the interval takes its times for independent, though they follow each other.

![Errors by channel](weather_from_scratch.png)

## Under every memory plan

{markdown_table(plan_columns(plans), plans)}

{caption(plans)} Error: mean over channels of the first table, every point alike, when the model trained plainly
forecasts under the plan; "short" after {found["short_steps"]} steps trained under the plan from the same start.

Written by `weather_from_scratch.py`. {provenance_line(found["provenance"])}
"""


def plot(axes: Axes, rows: Sequence[Row]) -> None:
    """Bars of every forecast for each channel, every point alike."""
    shown = [row for row in rows if row["weighting"] == POINTS]
    width = 0.8 / len(shown)
    for number, row in enumerate(shown):
        places = np.arange(len(row["rmse"])) + (number - (len(shown) - 1) / 2) * width
        axes.bar(places, list(row["rmse"].values()), width, label=row["forecast"])
    axes.set_xticks(range(len(shown[0]["rmse"])), list(shown[0]["rmse"]))
    axes.set_ylabel("error (standard deviations)")
    axes.legend(frameon=False)
    axes.set_title("12-hour forecasts of simulated weather", fontsize=8, loc="left")


def write(found: Mapping[str, Any]) -> None:
    scores = found["scores"]
    table = csv_table(score_columns(scores), scores)
    save_texts(HERE, "weather_from_scratch", markdown=report(found), csv=table, rows=found)
    save_plot(HERE / "weather_from_scratch.png", lambda axes: plot(axes, scores))


if __name__ == "__main__":
    main()
