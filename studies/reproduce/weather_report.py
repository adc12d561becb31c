"""Aurora's memory as a person reads it: one table of whole steps, one of parts, and every plan as a file to use."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from elbowroom.memory.footprint.size import format_size
from elbowroom.studies.provenance import provenance_line
from elbowroom.studies.reproduce.frontier import reached
from elbowroom.studies.reproduce.frontier_report import save_plans
from elbowroom.studies.reproduce.weather import BASELINES
from elbowroom.studies.reproduce.weather_parts import PARTS
from elbowroom.studies.table import Column, csv_table, markdown_table, save_texts, terminal_table

type Row = Mapping[str, Any]

TITLE = "Aurora, all 1.256 billion parameters trained at 0.25 degree: memory of a step, compiled for the card named"
INTRODUCTION = """The published model (721 x 1440 points, 13 levels, batch 1), loss, gradients and optimizer; bfloat16
arithmetic, but for the plain model. Compiled by the card's own compiler, without the card; nothing ran. Device bytes
are argument + output + temporary - alias; what waits in host memory is in the compiler's own account too. Parts are
compiled alone, each with its parameters, its gradients and the tokens it is given and gives; they do not add up, as
they are not there at the same time. The decoder includes the head; the optimizer is the whole model's update. Made by
`elbowroom reproduce weather`; the plans are in `weather/`."""

COLUMNS = (
    Column("step", lambda row: row["meaning"]),
    Column("card", lambda row: row["device"]),
    Column("before", lambda row: row["before"]),
    Column("device", lambda row: row.get("device_bytes"), format_size),
    Column("limit", lambda row: row["peak_limit"], format_size),
    Column("host", lambda row: row.get("host_bytes"), format_size),
    Column("parameters", lambda row: _part(row, "parameters"), format_size),
    Column("gradients", lambda row: _part(row, "gradients"), format_size),
    Column("optimizer", lambda row: _part(row, "optimizer"), format_size),
    Column("temporaries", lambda row: _part(row, "temporaries"), format_size),
    Column("arithmetic / plain", lambda row: _arithmetic(row), "{:.2f}".format),
    Column("reached", lambda row: _verdict(row)),
)
PART_COLUMNS = (
    Column("step, each part alone", lambda row: row["meaning"]),
    Column("card", lambda row: row["device"]),
    *(Column(part, lambda row, part=part: row["alone"].get(part), format_size) for part in PARTS),
)


def weather_table(rows: Sequence[Row]) -> Table:
    return terminal_table(TITLE, COLUMNS, rows, caption(rows))


def caption(rows: Sequence[Row]) -> str:
    compilers = dict.fromkeys(row["footprint"]["detail"] for row in rows if "error" not in row)
    return f"compiled: {'; '.join(compilers) or 'nothing'}. {provenance_line(rows[0]['provenance'])}."


def markdown_of(rows: Sequence[Row]) -> str:
    plans = "\n".join(f"- **{row['name']}**: {row['plan_line']}" for row in rows)
    by_part = [row for row in rows if "alone" in row]
    words = [(row["name"], told["error"]) for row in rows for told in (row, row.get("alone", {})) if "error" in told]
    failed = "".join(f"\n{name} has no answer: {error}\n" for name, error in words)
    tables = f"{markdown_table(COLUMNS, rows)}\n\n{markdown_table(PART_COLUMNS, by_part)}"
    return f"# {TITLE}\n\n{INTRODUCTION}\n\n{tables}\n{failed}\n{caption(rows)}\n\n{plans}\n"


def save_weather(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Write weather.md, .csv and .json, and each plan below weather/; gives the paths of the first three."""
    save_plans(folder / "weather", rows)
    csv = csv_table(COLUMNS, rows)
    return save_texts(folder, "weather", markdown=markdown_of(rows), csv=csv, rows=list(rows))


def _part(row: Row, part: str) -> int | None:
    return None if "error" in row else row["parts"][part]


def _arithmetic(row: Row) -> float | None:
    return None if "error" in row else row["flops"] / row["plain_flops"]


def _verdict(row: Row) -> str | None:
    if row["name"] in BASELINES:
        return None
    return "yes" if reached(row) else "NO"
