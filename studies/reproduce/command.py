"""What `elbowroom reproduce` does."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table

from elbowroom.studies.console import claim, print_results, progress_console, say
from elbowroom.studies.reproduce import frontier, weather
from elbowroom.studies.reproduce.frontier_report import frontier_table, save_frontier
from elbowroom.studies.reproduce.offload import TRANSFERS, offload_rows, offload_table, save_offload
from elbowroom.studies.reproduce.weather_report import save_weather, weather_table

type Rows = Sequence[Mapping[str, Any]]
type Report = Callable[[str], None]


class Study(NamedTuple):
    """How a study is made, shown and saved."""

    rows: Callable[[Report], Rows]
    table: Callable[[Rows], Table]
    save: Callable[[Path, Rows], list[Path]]


STUDIES = {
    "frontier": Study(lambda report: frontier.frontier_rows(frontier.POINTS, report), frontier_table, save_frontier),
    "offload": Study(lambda report: offload_rows(TRANSFERS, report), offload_table, save_offload),
    "weather": Study(lambda report: weather.weather_rows(weather.POINTS, report), weather_table, save_weather),
}


def run_reproduce(name: str, out: Path, *, as_json: bool) -> None:
    study, console = STUDIES[name], progress_console()
    claim(out)
    with console.status("compiling"):
        rows = study.rows(lambda line: say(console, line))
    print_results(rows, study.table(rows), study.save(out, rows), console, as_json=as_json)
