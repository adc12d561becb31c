"""Pictures of how good forecasts are: errors over lead time, and where on the globe they are."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from elbowroom.studies.weather_evaluate import CLIMATOLOGY, MODEL, PERSISTENCE, Evaluation

COLOURS = {MODEL: "C0", PERSISTENCE: "C1", CLIMATOLOGY: "C2"}
COLUMNS = 3
FEW_TICKS = 8

type Row = Mapping[str, Any]


def plot_errors(path: Path, rows: Sequence[Row], names: Sequence[str], title: str) -> Path:
    """RMSE against lead time, a panel for each channel, bands for the intervals."""

    def panel(name: str) -> Callable[[Axes], None]:
        own = [row for row in rows if row["channel"] == name and row["rmse"] is not None]

        def draw(axes: Axes) -> None:
            for predictor, colour in COLOURS.items():
                line = [row for row in own if row["predictor"] == predictor]
                if not line:
                    continue
                hours = [row["lead_hours"] for row in line]
                low, value, high = ([row["rmse"][key] for row in line] for key in ("low", "value", "high"))
                style = "-" if predictor == MODEL else "--"  # a model that equals a baseline is seen between its dashes
                axes.plot(hours, value, marker="o", ls=style, ms=3, color=colour, label=predictor)
                axes.fill_between(hours, low, high, color=colour, alpha=0.2, lw=0)
            axes.set(xlabel="lead time (h)", ylabel=f"RMSE ({own[0]['unit']})" if own else "RMSE")
            axes.set_ylim(bottom=0)
            axes.spines[["top", "right"]].set_visible(False)
            hours = sorted({row["lead_hours"] for row in own})
            if len(hours) <= FEW_TICKS:
                axes.set_xticks(hours)
            axes.set_title(name, fontsize=9, loc="left")

        return draw

    return _panels(path, [panel(name) for name in names], title, legend=True)


def plot_maps(path: Path, evaluation: Evaluation, names: Sequence[str], title: str) -> Path:
    """Root of the mean squared error of the model at every point, at the last lead."""
    units = {channel.name: channel.unit for channel in evaluation.channels}

    def panel(name: str, field: Float[np.ndarray, "lat lon"]) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            places = (evaluation.longitudes, evaluation.latitudes)
            image = axes.pcolormesh(*places, np.ma.masked_invalid(field), shading="nearest", cmap="viridis")
            axes.figure.colorbar(image, ax=axes, label=units[name])
            axes.set(xlabel="longitude (°E)", ylabel="latitude (°N)", ylim=(-90, 90))
            axes.set(xticks=range(0, 361, 90), yticks=range(-90, 91, 30))
            axes.set_title(name, fontsize=9, loc="left")

        return draw

    return _panels(path, [panel(name, evaluation.maps[name]) for name in names], title, legend=False)


def _panels(path: Path, draws: Sequence[Callable[[Axes], None]], title: str, *, legend: bool) -> Path:
    """Side by side and below each other, drawn without a display."""
    columns = min(COLUMNS, len(draws))
    rows = math.ceil(len(draws) / columns)
    figure = Figure(figsize=(4.2 * columns, 3.0 * rows + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    for number, draw in enumerate(draws, start=1):
        draw(figure.add_subplot(rows, columns, number))
    if legend:
        figure.axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    figure.savefig(path, dpi=120)
    return path
