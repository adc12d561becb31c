"""The demo end to end on the toy case: it trains twice, compares, can be stopped anywhere, and states its claim."""

import io
import json
import os
import signal

import pytest
from rich.console import Console

from elbowroom.studies import cases
from elbowroom.studies.demo import DemoSettings, demonstrate
from elbowroom.studies.demo_report import save_demo, table_of_demo, verdict
from elbowroom.studies.interrupt import StoppedError


@pytest.fixture
def settings(monkeypatch, toy) -> DemoSettings:
    monkeypatch.setattr(cases, "CASES", {"toy": toy})
    return DemoSettings(
        trained_case="toy",
        trained_sizes={"length": 8, "width": 16, "batch": 2},
        steps=40,
        optimizer=toy.optimizer,
        budget_share=2.0,  # the toy is too small for a plan to save anything
        compared_case="toy",
        compared_sizes={"length": 12, "width": 16, "batch": 1},
        compared_techniques=("plain", "bfloat16"),
    )


def test_the_demo_trains_twice_and_states_its_claim(settings, tmp_path):
    results = demonstrate(tmp_path, Console(quiet=True), settings)
    plain, budget = results["trained"]
    assert (plain["name"], budget["name"]) == ("plain", "budget")
    assert budget["footprint"]["peak"] <= results["budget_bytes"]
    assert budget["score"]["mean"] < results["prior"]["score"]["mean"]
    assert budget["gain_over_prior"]["examples"] == 6
    assert len(plain["losses"]) == 40
    assert [row["name"] for row in results["compared"]] == ["plain", "bfloat16"]
    assert "is below the separation prior's" in verdict(results)


def test_its_results_are_saved_in_every_format_and_a_second_run_trains_nothing(settings, tmp_path):
    first = demonstrate(tmp_path, Console(quiet=True), settings)
    markdown, table, saved, picture = save_demo(tmp_path, first)
    assert json.loads(saved.read_text()) == first
    assert "prior: separation only" in markdown.read_text()
    assert len(table.read_text().splitlines()) == 4
    assert picture.read_bytes().startswith(b"\x89PNG")
    log = Console(record=True, file=io.StringIO(), width=160)
    again = demonstrate(tmp_path, log, settings)
    assert again["trained"] == first["trained"]
    log.print(table_of_demo(again))
    assert "step 40/40" not in log.export_text()


def test_a_demo_that_was_stopped_goes_on(settings, tmp_path, monkeypatch, toy):

    whole = demonstrate(tmp_path / "whole", Console(quiet=True), settings)
    original = toy.batches.__next__

    def interrupted(self):
        if self.place == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self)

    monkeypatch.setattr(toy.batches, "__next__", interrupted)
    with pytest.raises(StoppedError, match="stopped while training plain; the same command goes on"):
        demonstrate(tmp_path / "halves", Console(quiet=True), settings)
    monkeypatch.setattr(toy.batches, "__next__", original)
    halves = demonstrate(tmp_path / "halves", Console(quiet=True), settings)
    for one, other in zip(halves["trained"], whole["trained"], strict=True):
        assert one["losses"] == other["losses"]
        assert one["score"] == other["score"]
