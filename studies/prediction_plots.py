"""Pictures of how far a predicted structure can be trusted."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from elbowroom.studies.compare_report import save_plot

BANDS = ((90, "very high"), (70, "confident"), (50, "low"))
"""Least pLDDT of each band that the AlphaFold database names"""


def plot_confidence(path: Path, confidence: Float[np.ndarray, "res"], title: str) -> Path:
    """pLDDT along the chain."""

    def draw(axes: Axes) -> None:
        axes.plot(np.arange(1, len(confidence) + 1), confidence, color="C0")
        for least, label in BANDS:
            axes.axhline(least, color="0.8", lw=0.8, zorder=0)
            axes.text(len(confidence), least, label, fontsize=7, color="0.5", ha="right", va="bottom")
        axes.set(xlabel="residue", ylabel="predicted lDDT-Ca", ylim=(0, 100))
        axes.set_title(title, fontsize=8, loc="left")

    return save_plot(path, draw)


def plot_aligned_error(path: Path, error: Float[np.ndarray, "res res"], largest: float, title: str) -> Path:
    """Expected error of each residue (x) as seen from the frame of each other (y)."""

    def draw(axes: Axes) -> None:
        extent = (0.5, len(error) + 0.5, len(error) + 0.5, 0.5)
        image = axes.imshow(error, cmap="Greens_r", vmin=0, vmax=largest, extent=extent)
        axes.figure.colorbar(image, ax=axes, label="expected position error (Angstrom)")
        axes.set(xlabel="scored residue", ylabel="aligned residue")
        axes.set_title(title, fontsize=8, loc="left")

    return save_plot(path, draw)


def plot_calibration(path: Path, bins: Sequence[tuple[float, float, int]]) -> Path:
    """Mean true lDDT-Ca of the residues in each tenth of pLDDT, with their numbers."""

    def draw(axes: Axes) -> None:
        axes.axline((0, 0), slope=1, color="0.8", lw=0.8, zorder=0)
        axes.plot([predicted for predicted, _, _ in bins], [true for _, true, _ in bins], "o-", color="C0")
        for predicted, true, count in bins:
            axes.annotate(f"{count}", (predicted, true), xytext=(3, -9), textcoords="offset points", fontsize=7)
        axes.set(xlabel="predicted lDDT-Ca", ylabel="true lDDT-Ca", xlim=(0, 100), ylim=(0, 100))

    return save_plot(path, draw)
