"""The committed memory results say what is claimed of them, and their pages are made from their rows."""

import importlib.util
import json
from pathlib import Path

import pytest

from elbowroom.memory.plan import Plan

RESULTS = Path(__file__).parents[2] / "results"


def script(name):
    spec = importlib.util.spec_from_file_location(name, RESULTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, json.loads((RESULTS / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["exact_techniques", "formula_vs_compiled"])
def test_pages_are_rendered_from_the_rows(name):
    module, rows = script(name)
    assert (RESULTS / f"{name}.md").read_text() == module.report(rows)


def test_exact_techniques_need_a_sixth_of_the_plain_temporaries_at_most():
    module, rows = script("exact_techniques")
    assert module.saving(rows) >= 6


def test_the_peak_grows_with_the_square_of_the_crop_and_the_plain_one_faster():
    module, rows = script("exact_techniques")
    assert len(module.chosen(rows, module.ALL)) == len(module.CROPS)
    assert module.slope(rows, module.ALL) <= 2.1
    assert module.slope(rows, module.ALL) < module.slope(rows, Plan())


def test_cudnn_takes_less_of_the_card_than_whole_logits():
    module, (portable, cudnn) = script("kernels")
    assert (RESULTS / "kernels.md").read_text() == module.markdown_of([portable, cudnn])
    assert cudnn["plan"]["kernels"] == {"attention": "cudnn"}
    assert cudnn["device_bytes"] < portable["device_bytes"]


def test_the_step_of_aurora_is_no_slower_than_the_originals_and_grows_half_as_much():
    module, found = script("beside_aurora")
    assert (RESULTS / "beside_aurora.md").read_text() == module.report(found)
    original, lean = found["rows"][:2]
    assert (original["code"], lean["code"]) == (module.ORIGINAL, f"elbowroom, {module.PLANS[0]}")
    assert lean["seconds_ratio"] <= 1
    assert lean["growth_ratio"] <= 0.5
    assert all(row["loss_difference"] <= 1e-5 for row in found["rows"])
