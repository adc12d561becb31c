"""The frontier as a person reads it: table, Markdown, CSV, plot, and every plan as a file to use."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from rich.table import Table

from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Plan
from elbowroom.studies.compare_report import save_plot
from elbowroom.studies.provenance import provenance_line
from elbowroom.studies.reproduce.frontier import GROWTH, growth, reached
from elbowroom.studies.table import Column, csv_table, markdown_table, save_texts, terminal_table

type Row = Mapping[str, Any]

TITLE = "The frontier: whole AlphaFold train steps, compiled for the card named"
INTRODUCTION = """Published model 1 (48 + 4 blocks, 4 templates, recycling), all losses, gradients and Adam, batch 1,
bfloat16 arithmetic. Compiled by the card's own compiler, without the card; nothing ran. Device bytes are argument +
output + temporary - alias; beside them the host may hold 128 GiB for an RTX 4090 and 512 GiB for an H100. The loop of
recycling counts once in both arithmetics. Made by `elbowroom reproduce frontier`; the plans are in `frontier/`."""

COLUMNS = (
    Column("step", lambda row: row["meaning"]),
    Column("card", lambda row: row["device"]),
    Column("before", lambda row: row["before"]),
    Column("device", lambda row: row.get("device_bytes"), format_size),
    Column("limit", lambda row: row["peak_limit"], format_size),
    Column("host", lambda row: row.get("host_bytes"), format_size),
    Column("arithmetic / plain", lambda row: _arithmetic(row), "{:.2f}".format),
    Column("limit / plain", lambda row: row["arithmetic_limit"], "{:.2f}".format),
    Column("reached", lambda row: "yes" if reached(row) else "NO"),
)


def frontier_table(rows: Sequence[Row]) -> Table:
    return terminal_table(TITLE, COLUMNS, rows, caption(rows))


def caption(rows: Sequence[Row]) -> str:
    """The power of growth, the compilers and this machine."""
    power, crops = growth(rows), ", ".join(str(row["sizes"]["crop"]) for row in rows if row["name"] in GROWTH)
    grown = "" if power is None else f"The peak grows with the crop to the power {power:.2f} (crops {crops}). "
    compilers = dict.fromkeys(row["footprint"]["detail"] for row in rows if "error" not in row)
    return f"{grown}compiled: {'; '.join(compilers) or 'nothing'}. {provenance_line(rows[0]['provenance'])}."


def markdown_of(rows: Sequence[Row]) -> str:
    plans = "\n".join(f"- **{row['name']}**: {row['plan_line']}" for row in rows)
    failed = "".join(f"\n{row['name']} has no answer: {row['error']}\n" for row in rows if "error" in row)
    return (
        f"# {TITLE}\n\n{INTRODUCTION}\n\n{markdown_table(COLUMNS, rows)}\n{failed}\n{caption(rows)}\n\n{plans}\n\n"
        "![Peak against crop](frontier.png)\n"
    )


def save_frontier(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Write frontier.md, .csv, .json and .png, and each plan below frontier/; gives the paths of the first four."""
    save_plans(folder / "frontier", rows)
    csv = csv_table(COLUMNS, rows)
    paths = save_texts(folder, "frontier", markdown=markdown_of(rows), csv=csv, rows=list(rows))
    return [*paths, save_plot(folder / "frontier.png", lambda axes: _plot(axes, rows))]


def save_plans(folder: Path, rows: Sequence[Row]) -> None:
    """One file for each row's plan, named after the row."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        text = f"# {row['meaning']}, on {row['device']}\n{Plan.from_dict(row['plan']).to_toml()}"
        (folder / f"{row['name']}.toml").write_text(text, encoding="utf-8")


def _plot(axes: Axes, rows: Sequence[Row]) -> None:
    """Device bytes against crop, one marker for each point, the limit above it as a tick."""
    answered = [row for row in rows if "error" not in row]
    for number, row in enumerate(answered):
        crop, label = row["sizes"]["crop"], f"{row['name']}, {row['device']}"
        axes.loglog(crop, row["device_bytes"] / 2**30, "o", color=f"C{number % 10}", label=label)
        axes.loglog(crop, row["peak_limit"] / 2**30, "_", color=f"C{number % 10}", ms=14)
    axes.set(xlabel="crop (residues)", ylabel="device memory of a train step (GiB)")
    if answered:
        axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)
    axes.set_title("o compiled, _ limit", fontsize=8, loc="left")


def _arithmetic(row: Row) -> float | None:
    return None if "error" in row else row["flops"] / row["plain_flops"]
