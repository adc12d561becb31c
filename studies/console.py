"""Where commands say what: progress on standard error, tables and JSON on standard output."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from elbowroom.studies.case import Case, Records
from elbowroom.studies.run_folder import RunError, unusable


def progress_console() -> Console:
    """Progress goes to standard error, so that tables and JSON can be piped."""
    return Console(file=sys.stderr)


def table_console() -> Console:
    """The width of the terminal, or as wide as a table needs where there is none."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def claim(out: Path) -> None:
    """Make the folder of results now, so that a place which cannot be written is told before the work."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(out, error) from None


def print_results(
    results: Any, table: RenderableType, paths: Sequence[Path], console: Console, *, as_json: bool
) -> None:
    """As JSON or as a table, and where they are saved."""
    if as_json:
        print_json(results)
    else:
        table_console().print(table)
    say(console, f"saved {', '.join(map(str, paths))}")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def read_records(case: Case, data: Path | None, structures: Path | None, console: Console) -> Records:
    """The user's data, or the case's own to train on, with the warnings said."""
    if data is None and structures is not None:
        raise RunError(f"--structures needs --data: {structures} would have no sequences to belong to")
    records = case.demo("train") if data is None else case.read(data, structures)
    for warning in records.warnings:
        say(console, f"warning: {warning}")
    return records
