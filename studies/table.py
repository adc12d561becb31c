"""One set of rows as a table on the terminal, in Markdown and as CSV."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

type Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """How one value of every row is read and shown."""

    title: str
    value: Callable[[Row], Any]
    """From a row; None where the row has no such value."""
    show: Callable[[Any], str] = str


def terminal_table(title: str, columns: Sequence[Column], rows: Sequence[Row], caption: str) -> Table:
    """Left-aligned words, right-aligned numbers."""
    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column.title, justify="left" if number == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*_shown(columns, row))
    return table


def markdown_table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A pipe table; the first column is text."""
    head = [column.title for column in columns]
    rule = ["---" if number == 0 else "---:" for number in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *(_shown(columns, row) for row in rows)))


def csv_table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Values unrounded; an empty field where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.title for column in columns])
    writer.writerows([column.value(row) for column in columns] for row in rows)
    return text.getvalue()


def save_texts(folder: Path, name: str, *, markdown: str, csv: str, rows: Any) -> list[Path]:
    """Write `name`.md, .csv and .json, the last from `rows`, into `folder`; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"md": markdown, "csv": csv, "json": json.dumps(rows, indent=2) + "\n"}
    for ending, text in texts.items():
        (folder / f"{name}.{ending}").write_text(text, encoding="utf-8")
    return [folder / f"{name}.{ending}" for ending in texts]


def _shown(columns: Sequence[Column], row: Row) -> list[str]:
    values = [column.value(row) for column in columns]
    return ["-" if value is None else column.show(value) for column, value in zip(columns, values, strict=True)]
