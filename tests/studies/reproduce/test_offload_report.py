"""What offload takes off a device is what the host receives, and a page says what its rows say."""

import json
from pathlib import Path

import pytest

from elbowroom.memory.devices.profile import DeviceError
from elbowroom.memory.footprint import target
from elbowroom.memory.footprint.footprint import Footprint
from elbowroom.memory.plan import Plan
from elbowroom.studies import cases, footprint_report
from elbowroom.studies.reproduce import offload
from elbowroom.studies.reproduce.offload import COLUMNS, TRANSFERS, WITHOUT, markdown_of, offload_rows
from elbowroom.studies.table import csv_table

RESULTS = Path(__file__).parents[3] / "results"


@pytest.fixture
def committed() -> list:
    return json.loads((RESULTS / "offload.json").read_text())


def test_the_committed_pages_are_rendered_from_their_rows(committed):
    assert (RESULTS / "offload.md").read_text() == markdown_of(committed)
    assert (RESULTS / "offload.csv").read_text() == csv_table(COLUMNS, committed)
    assert [(row["what"], row["device"]) for row in committed] == [(t.what, t.device) for t in TRANSFERS]


def test_the_device_is_lower_by_what_the_host_holds(committed):
    for row in committed:
        lower = row["before"] - row["after"]
        assert row["host"] > 0
        assert 0.9 * row["host"] <= lower <= 1.1 * row["host"], row["what"]


def test_a_row_holds_both_compilations(monkeypatch, toy):
    """Two numbers that a compiler could have given, by the plan asked about."""

    def answer(case: object, sizes: object, plan: Plan, device: object) -> Footprint:
        moved = plan != WITHOUT
        parts = {"parameters": 1, "gradients": 0, "optimizer": 0, "inputs": 0, "outputs": 0}
        held = 30 if moved else 70
        return Footprint(
            **parts, temporaries=held, peak=1 + held, host=40 * moved, provenance="compiled", detail="a compiler"
        )

    monkeypatch.setattr(cases, "CASES", {"alphafold": toy})
    monkeypatch.setattr(offload, "SIZES", ("length=6",))
    monkeypatch.setattr(target, "PACKAGES", {"cuda": "jax", "tpu": "jax"})
    monkeypatch.setattr(footprint_report, "target_footprint", answer)
    (row,) = offload_rows(TRANSFERS[:1], lambda line: None)
    assert (row["before"], row["after"], row["host"]) == (71, 31, 40)


def test_a_missing_compiler_is_told_before_anything_is_compiled(monkeypatch):
    compiled: list[object] = []
    monkeypatch.setattr(target, "PACKAGES", {"cuda": "jax", "tpu": "no-such-compiler"})
    monkeypatch.setattr(footprint_report, "target_footprint", lambda *arguments: compiled.append(arguments))
    with pytest.raises(DeviceError, match="no-such-compiler"):
        offload_rows(TRANSFERS, lambda line: None)
    assert not compiled
