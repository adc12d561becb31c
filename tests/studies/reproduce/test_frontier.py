"""What is said of the frontier is what the card's compiler said; what is not reached is not hidden."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from elbowroom.memory.devices.profile import DeviceError, device
from elbowroom.memory.footprint import target
from elbowroom.memory.plan import Plan, Recompute
from elbowroom.studies import cases, footprint_report
from elbowroom.studies.reproduce.frontier import GROWTH, POINTS, Point, frontier_rows, growth, reached
from elbowroom.studies.reproduce.frontier_report import COLUMNS, markdown_of, save_frontier
from elbowroom.studies.table import csv_table
from elbowroom.studies.target_process import TargetError

RESULTS = Path(__file__).parents[3] / "results"
GOAL = {"peak_limit": 100, "host_limit": 10, "arithmetic_limit": 1.8}
KEPT = {**GOAL, "device_bytes": 100, "host_bytes": 10, "flops": 18, "plain_flops": 10}


def test_the_committed_pages_are_rendered_from_their_rows():
    rows = json.loads((RESULTS / "frontier.json").read_text())
    assert (RESULTS / "frontier.md").read_text() == markdown_of(rows)
    assert (RESULTS / "frontier.csv").read_text() == csv_table(COLUMNS, rows)


def test_the_committed_plans_are_those_that_were_compiled():
    rows = json.loads((RESULTS / "frontier.json").read_text())
    plans = {point.name: point.plan for point in POINTS}
    assert {row["name"]: Plan.from_dict(row["plan"]) for row in rows} == plans
    assert {path.stem: Plan.load(path) for path in (RESULTS / "frontier").glob("*.toml")} == plans


def test_a_goal_is_reached_up_to_its_limits():
    assert reached(KEPT)


@pytest.mark.parametrize(
    "over", [{"device_bytes": 101}, {"host_bytes": 11}, {"flops": 19}, {"error": "it crashed"}], ids=str
)
def test_a_goal_is_missed_where_one_limit_is(over):
    assert not reached({**KEPT, **over})


def test_the_power_of_growth_is_the_exponent():
    rows = [{"name": name, "sizes": {"crop": 2**n}, "device_bytes": 3 * 2 ** (2 * n)} for n, name in enumerate(GROWTH)]
    assert growth(rows) == pytest.approx(2.0)
    assert growth(rows[1:]) is None
    assert growth([{**rows[0], "error": "it crashed"}, *rows[1:]]) is None


CRASHED = "rtx4090, float32 · recompute blocks: the compiler ended with code -6: it said nothing"


def toy_points(monkeypatch, toy) -> list[Point]:
    monkeypatch.setattr(cases, "CASES", {"toy": toy})
    plan = Plan(recompute=Recompute(blocks=True))
    shared = {"before": "-", "device": "rtx4090", "case": "toy", "sizes": {"length": 6}, "plan": plan}
    return [Point(name=name, meaning=f"the {name} toy", **shared) for name in ("one", "other")]


@pytest.fixture
def unanswered(toy, monkeypatch) -> list:
    """Rows of points whose compiler crashes."""

    def crash(*arguments: object) -> None:
        raise TargetError(CRASHED)

    monkeypatch.setattr(target, "PACKAGES", {"cuda": "jax"})
    monkeypatch.setattr(footprint_report, "target_footprint", crash)
    return frontier_rows(toy_points(monkeypatch, toy), lambda line: None)


def test_a_missing_compiler_is_told_before_anything_is_compiled(toy, monkeypatch):
    first, last = toy_points(monkeypatch, toy)
    compiled: list[object] = []
    monkeypatch.setattr(target, "PACKAGES", {"cuda": "jax", "tpu": "no-such-compiler"})
    monkeypatch.setattr(footprint_report, "target_footprint", lambda *arguments: compiled.append(arguments))
    with pytest.raises(DeviceError, match="tpu-v5e needs no-such-compiler"):
        frontier_rows([first, replace(last, device="tpu-v5e")], lambda line: None)
    assert not compiled


def test_a_point_without_an_answer_is_a_row_and_not_the_end(unanswered):
    assert [row["name"] for row in unanswered] == ["one", "other"]
    for row in unanswered:
        assert row["error"] == CRASHED
        assert (row["peak_limit"], row["sizes"]["length"]) == (device("rtx4090").usable_memory, 6)
        assert not reached(row)


def test_saved_pages_tell_what_has_no_answer_and_plans_can_be_loaded(unanswered, tmp_path):
    paths = save_frontier(tmp_path, unanswered)
    assert [path.name for path in paths] == ["frontier.md", "frontier.csv", "frontier.json", "frontier.png"]
    assert f"one has no answer: {CRASHED}" in paths[0].read_text()
    assert paths[0].read_text().count("| NO |") == 2
    assert Plan.load(tmp_path / "frontier" / "one.toml") == Plan(recompute=Recompute(blocks=True))
    assert all(path.stat().st_size for path in paths)
