"""An evaluation of forecasts as a table on the terminal and as files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from elbowroom.studies.provenance import provenance_line
from elbowroom.studies.table import Column, csv_table, markdown_table, save_texts, terminal_table
from elbowroom.studies.weather_evaluate import CLIMATOLOGY, MODEL, PERSISTENCE, Evaluation
from elbowroom.studies.weather_plots import plot_errors, plot_maps

DAYS = (1, 3, 5, 7, 10)
"""Lead times that people look at"""
FEW_LEADS = 4
"""Up to so many are all shown."""

type Report = Mapping[str, Any]


def forecast_table(report: Report) -> Table:
    return terminal_table(_title(report), COLUMNS, _shown_rows(report), caption(report))


def save_forecast_evaluation(folder: Path, report: Report, evaluation: Evaluation) -> list[Path]:
    """Write evaluation.md, .csv (a line for each row), .json, and two plots; gives their paths."""
    title, rows = _title(report), _shown_rows(report)
    markdown = f"### {title}\n\n{markdown_table(COLUMNS, rows)}\n\n{caption(report)}\n"
    paths = save_texts(folder, "evaluation", markdown=markdown, csv=csv_table(EACH, report["rows"]), rows=report)
    last = f"{title}: root mean square error after {evaluation.lead_hours[-1]:g} h"
    return [
        *paths,
        plot_errors(folder / "rmse.png", report["rows"], report["shown"], title),
        plot_maps(folder / "error_map.png", evaluation, report["shown"], last),
    ]


def caption(report: Report) -> str:
    """How the numbers came about, and where."""
    usual = report["climatology"] or "not given, so there is no anomaly correlation (ACC)"
    return " ".join(
        (
            "Weighted by area; RMSE: root of the mean squared error over starts, with bootstrap 95 % intervals over "
            "starts, of which neighbours resemble each other; gain: how much lower the model's RMSE is.",
            f"Climatology: {usual}.",
            f"Data: {report['data']}.",
            *report["notes"],
            f"Model: {report['parameters']}; {report['plan_line']}.",
            f"{provenance_line(report['provenance'])}.",
        )
    )


def _title(report: Report) -> str:
    starts = report["starts"]
    count = f"{len(starts)} forecast{'s' if len(starts) > 1 else ''}"
    return f"{report['case']}: {count} from {starts[0]} to {starts[-1]}"


def _shown_rows(report: Report) -> list[dict[str, Any]]:
    """A line for each channel and lead that is shown, the predictors side by side."""
    hours = sorted({row["lead_hours"] for row in report["rows"]})
    if len(hours) > FEW_LEADS:
        hours = [hour for hour in hours if hour / 24 in DAYS or hour == hours[-1]]
    lines: dict[tuple[str, float], dict[str, Any]] = {}
    for row in report["rows"]:
        if row["channel"] in report["shown"] and row["lead_hours"] in hours:
            lines.setdefault((row["channel"], row["lead_hours"]), {})[row["predictor"]] = row
    order = sorted(lines, key=lambda line: (report["shown"].index(line[0]), line[1]))
    return [lines[line] for line in order]


def _of(predictor: str, key: str) -> Any:
    return lambda line: line[predictor][key] if predictor in line else None


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _interval(found: Mapping[str, float]) -> str:
    return f"{_number(found['value'])} [{_number(found['low'])}, {_number(found['high'])}]"


def _value(found: Mapping[str, float]) -> str:
    return _number(found["value"])


def _part(key: str, part: str) -> Any:
    return lambda row: None if row[key] is None else row[key][part]


COLUMNS: Sequence[Column] = (
    Column("variable", _of(MODEL, "channel")),
    Column("lead", _of(MODEL, "lead_hours"), "{:g} h".format),
    Column("unit", _of(MODEL, "unit")),
    Column("RMSE", _of(MODEL, "rmse"), _interval),
    Column("persistence", _of(PERSISTENCE, "rmse"), _value),
    Column("gain", _of(PERSISTENCE, "gain"), _interval),
    Column("climatology", _of(CLIMATOLOGY, "rmse"), _value),
    Column("gain", _of(CLIMATOLOGY, "gain"), _interval),
    Column("bias", _of(MODEL, "bias"), _number),
    Column("MAE", _of(MODEL, "mae"), _number),
    Column("ACC", _of(MODEL, "acc"), "{:.3f}".format),
)
EACH: Sequence[Column] = (
    *(
        Column(key, lambda row, key=key: row[key])
        for key in ("variable", "level_hpa", "unit", "lead_hours", "predictor")
    ),
    *(
        Column(key if part == "value" else f"{key}_{part}", _part(key, part))
        for key in ("rmse", "gain")
        for part in ("value", "low", "high")
    ),
    *(Column(key, lambda row, key=key: row[key]) for key in ("bias", "mae", "acc", "starts")),
)
