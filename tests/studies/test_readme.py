"""The README's numbers are those of the committed results."""

import json
from pathlib import Path

import pytest

from elbowroom.memory.footprint.size import format_size
from elbowroom.studies.compare_report import columns, markdown_of
from elbowroom.studies.reproduce import frontier_report, weather_report
from elbowroom.studies.table import markdown_table

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
FRONTIER = ("step", "card", "device", "host", "arithmetic / plain")
MEASURED = ROOT / "results" / "techniques" / "alphafold-measured.json"


def test_the_table_of_techniques_is_rendered_from_its_rows():
    rows = json.loads(MEASURED.read_text())
    assert markdown_table(columns(rows), rows) in README
    assert MEASURED.with_suffix(".md").read_text() == markdown_of(rows)


def test_the_default_plan_takes_at_most_a_quarter_more_time_and_chunking_alone_none():
    times = {row["name"]: row["time_ratio"] for row in json.loads(MEASURED.read_text())}
    assert times["recompute blocks"] <= 1.25
    assert times["chunked rows"] <= 1.0


def test_the_peaks_in_the_text_are_the_compiled_ones():
    rows = json.loads((ROOT / "results" / "exact_techniques.json").read_text())
    plain, *_, exact = [r["footprint"]["peak"] for r in rows if r["sizes"]["crop"] == 256]
    assert f"falls from {format_size(plain).removesuffix(' GiB')} to {format_size(exact)}" in README


@pytest.mark.parametrize(("name", "report"), [("frontier", frontier_report), ("weather", weather_report)])
def test_the_tables_of_cards_are_rendered_from_their_rows(name, report):
    rows = json.loads((ROOT / "results" / f"{name}.json").read_text())
    assert markdown_table([column for column in report.COLUMNS if column.title in FRONTIER], rows) in README
