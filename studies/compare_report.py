"""The comparison of techniques as a person reads it: table, Markdown, CSV and plot."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.table import Table

from elbowroom.memory.footprint.size import format_size
from elbowroom.studies.provenance import provenance_line
from elbowroom.studies.table import Column, csv_table, markdown_table, save_texts, terminal_table

type Row = Mapping[str, Any]

MARKERS = "os^Dv<>PX*hpd8"


def columns(rows: Sequence[Row]) -> list[Column]:
    """What the rows hold: memory always, time and accuracy where they were measured."""
    memory = [
        Column("technique", lambda row: row["name"]),
        Column("peak", lambda row: row["footprint"]["peak"], format_size),
        Column("temporaries", _temporaries, format_size),
        Column("temporaries / plain", lambda row: _temporaries(row) / _temporaries(rows[0]), "{:.2f}".format),
    ]
    measured = [
        Column("step", lambda row: row["step_seconds"], "{:.2f} s".format),
        Column("time / plain", lambda row: row["time_ratio"], "{:.2f}".format),
        Column("loss difference", lambda row: row["loss_difference"], "{:.1e}".format),
        Column("gradient difference", lambda row: row["gradient_difference"], "{:.1e}".format),
    ]
    return memory + (measured if "time_ratio" in rows[0] else [])


def title(rows: Sequence[Row]) -> str:
    sizes = ", ".join(f"{name} {value}" for name, value in rows[0]["sizes"].items())
    return f"{rows[0]['case']}: {sizes}"


def caption(rows: Sequence[Row]) -> str:
    """How the numbers came about, and where."""
    memory = "peak and temporaries (gradients included): the compiler's account of one train step"
    accuracy = (
        "; time: median of alternating steps; differences: relative to the first row, the gradient's in the "
        "parameter where it is largest"
    )
    how = memory + (accuracy if "time_ratio" in rows[0] else "")
    return f"{how}. {provenance_line(rows[0]['provenance'])}."


def table_of(rows: Sequence[Row]) -> Table:
    return terminal_table(title(rows), columns(rows), rows, caption(rows))


def markdown_of(rows: Sequence[Row]) -> str:
    plans = "\n".join(f"- **{row['name']}**: {row['plan_line']}" for row in rows)
    return f"### {title(rows)}\n\n{markdown_table(columns(rows), rows)}\n\n{caption(rows)}\n\n{plans}\n"


def save_comparison(folder: Path, name: str, rows: Sequence[Row]) -> list[Path]:
    """Write `name`.md, .csv, .json and .png into `folder`; gives their paths."""
    csv = csv_table(columns(rows), rows)
    paths = save_texts(folder, name, markdown=markdown_of(rows), csv=csv, rows=list(rows))
    draw = plot_trade if "time_ratio" in rows[0] else plot_memory
    return [*paths, save_plot(folder / f"{name}.png", lambda axes: draw(axes, rows))]


def plot_trade(axes: Axes, rows: Sequence[Row]) -> None:
    """Peak memory against step time, one marker for each technique; lower left is better."""
    for number, row in enumerate(rows):
        peak = row["footprint"]["peak"] / 2**20
        axes.plot(
            row["time_ratio"], peak, MARKERS[number % len(MARKERS)], color=f"C{number % 10}", ms=9, label=row["name"]
        )
    axes.set_xlabel("step time / plain")
    axes.set_ylabel("compiled peak (MiB)")
    axes.set_ylim(bottom=0)
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    axes.set_title(title(rows), fontsize=8, loc="left")


def plot_memory(axes: Axes, rows: Sequence[Row]) -> None:
    """Compiled peak of each technique as bars, the baseline at the top."""
    peaks = [row["footprint"]["peak"] / 2**20 for row in rows]
    bars = axes.barh([row["name"] for row in rows], peaks, color="C0")
    axes.bar_label(bars, labels=[format_size(row["footprint"]["peak"]) for row in rows], padding=4)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.2 * max(peaks))
    axes.set_xlabel("compiled peak (MiB)")
    axes.set_title(title(rows), fontsize=8, loc="left")


def save_plot(path: Path, draw: Callable[[Axes], None]) -> Path:
    """One picture, drawn without a display; gives its path back."""
    figure = Figure(figsize=(8.5, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes)
    figure.savefig(path, dpi=150)
    return path


def _temporaries(row: Row) -> int:
    return row["footprint"]["temporaries"] + row["footprint"]["gradients"]
