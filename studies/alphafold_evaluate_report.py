"""An evaluation as a table on the terminal and as files."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from elbowroom.studies.alphafold_evaluate import COLUMNS
from elbowroom.studies.prediction_plots import plot_calibration
from elbowroom.studies.provenance import provenance_line
from elbowroom.studies.table import Column, csv_table, markdown_table, save_texts, terminal_table


def evaluation_table(report: Mapping[str, Any]) -> Table:
    return terminal_table(_title(report), COLUMNS, report["rows"], _caption(report))


def save_evaluation(folder: Path, report: Mapping[str, Any]) -> list[Path]:
    """Write evaluation.md, .csv (a line for each protein), .json and calibration.png; gives their paths."""
    markdown = f"### {_title(report)}\n\n{markdown_table(COLUMNS, report['rows'])}\n\n{_caption(report)}\n"
    csv = csv_table(_columns_of_proteins(report), report["proteins"])
    paths = save_texts(folder, "evaluation", markdown=markdown, csv=csv, rows=report)
    return [*paths, plot_calibration(folder / "calibration.png", report["calibration"]["bins"])]


def _title(report: Mapping[str, Any]) -> str:
    return f"{len(report['proteins'])} held-out proteins"


def _caption(report: Mapping[str, Any]) -> str:
    return (
        "Means over proteins with bootstrap 95 % intervals; the gain is the trained model's, protein by protein. "
        "Contacts: precision of the L/5 likeliest pairs at least 24 residues apart. "
        f"{_trust(report['calibration'])}. {provenance_line(report['provenance'])}."
    )


def _trust(found: Mapping[str, Any]) -> str:
    if not math.isfinite(found["correlation"]):
        return "pLDDT is the same for all residues: the model has never learned it, and it says nothing"
    correlation, error = found["correlation"], found["error"]
    return f"pLDDT against true lDDT-Ca of residues: correlation {correlation:.2f}, mean error {error:.1f}"


def _columns_of_proteins(report: Mapping[str, Any]) -> list[Any]:
    first = report["proteins"][0]["scores"]
    columns = [Column("protein", lambda r: r["protein"]), Column("residues", lambda r: r["residues"])]
    for name, scores in first.items():
        for metric in scores:
            columns.append(Column(f"{name} {metric}", lambda r, n=name, m=metric: r["scores"][n][m]))
    return columns
