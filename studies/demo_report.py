"""The demo's results as a person reads them: tables, Markdown, CSV and a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Group

from elbowroom.memory.footprint.size import format_size
from elbowroom.studies.compare_report import markdown_of, plot_memory, table_of
from elbowroom.studies.provenance import provenance_line
from elbowroom.studies.table import Column, csv_table, markdown_table, save_texts, terminal_table

type Results = Mapping[str, Any]

SMOOTHED_OVER = 10
"""Steps averaged in the loss curve, whose proteins differ from step to step."""

COLUMNS = [
    Column("run", lambda row: row["name"]),
    Column("peak of a step", lambda row: row["footprint"] and row["footprint"]["peak"], format_size),
    Column("step", lambda row: row["step_seconds"], "{:.2f} s".format),
    Column("steps", lambda row: row["steps"]),
    Column("held-out loss", lambda row: row["score"]["mean"], "{:.3f}".format),
    Column("from", lambda row: row["score"]["low"], "{:.3f}".format),
    Column("to", lambda row: row["score"]["high"], "{:.3f}".format),
]


def table_of_demo(results: Results) -> Group:
    trained = terminal_table(_title(results), COLUMNS, _rows(results), _caption(results))
    return Group(trained, "", table_of(results["compared"]), "", verdict(results))


def verdict(results: Results) -> str:
    """The two claims of the demo in numbers."""
    plain, budget = results["trained"]
    prior, gain = results["prior"]["score"]["mean"], budget["gain_over_prior"]
    direction = "below" if budget["score"]["mean"] < prior else "NOT below"
    return (
        f"Inside {format_size(results['budget_bytes'])}, where the plain step needs "
        f"{format_size(plain['footprint']['peak'])}: held-out distogram loss {budget['score']['mean']:.3f} is "
        f"{direction} the separation prior's {prior:.3f} (gain {gain['mean']:.3f}, 95 % interval "
        f"{gain['low']:.3f} to {gain['high']:.3f} over {gain['examples']} chains); plain training reaches "
        f"{plain['score']['mean']:.3f}."
    )


def save_demo(folder: Path, results: Results) -> list[Path]:
    """Write demo.md, .csv, .json and .png into `folder`; gives their paths."""
    markdown = (
        f"### {_title(results)}\n\n{markdown_table(COLUMNS, _rows(results))}\n\n{_caption(results)}\n\n"
        f"{verdict(results)}\n\n{markdown_of(results['compared'])}"
    )
    csv, picture = csv_table(COLUMNS, _rows(results)), folder / "demo.png"
    paths = save_texts(folder, "demo", markdown=markdown, csv=csv, rows=dict(results))
    _save_picture(picture, results)
    return [*paths, picture]


def _rows(results: Results) -> list[dict[str, Any]]:
    prior = {
        "name": "prior: separation only",
        "footprint": None,
        "step_seconds": None,
        "steps": None,
        "score": results["prior"]["score"],
    }
    return [*results["trained"], prior]


def _title(results: Results) -> str:
    first = results["trained"][0]
    sizes = ", ".join(f"{name} {value}" for name, value in first["sizes"].items())
    return f"{first['case']}: {sizes}; memory budget {format_size(results['budget_bytes'])}"


def _caption(results: Results) -> str:
    plain, budget = results["trained"]
    return (
        f"Held-out loss: distogram cross-entropy in nats per residue pair, mean over {plain['score']['examples']} "
        f"chains with its bootstrap 95 % interval. The prior knows the {results['prior']['meaning']}. "
        f"Peak: the compiler's account. Budget plan: {budget['plan_line']}. {provenance_line(plain['provenance'])}."
    )


def _save_picture(path: Path, results: Results) -> None:
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _plot_losses(left, results)
    plot_memory(right, results["compared"])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _plot_losses(axes: Axes, results: Results) -> None:
    for row in results["trained"]:
        losses = np.asarray(row["losses"])
        window = min(SMOOTHED_OVER, len(losses))
        smooth = np.convolve(losses, np.ones(window) / window, mode="valid")
        label = f"{row['name']}: {format_size(row['footprint']['peak'])}"
        axes.plot(np.arange(window, len(losses) + 1), smooth, label=label)
    axes.set_xlabel("step")
    axes.set_ylabel("training loss")
    axes.set_title("same data, same seed", fontsize=10, loc="left")
    axes.legend(frameon=False)
