"""Comparisons are resumable, honest about differences, and readable in every format."""

import csv
import io
import json

import jax
import numpy as np
import pytest
from rich.console import Console

from elbowroom.memory.plan import Plan
from elbowroom.studies.case import Features
from elbowroom.studies.compare import Comparison, compiled_rows, gradient_difference, measured_rows
from elbowroom.studies.compare_report import save_comparison, table_of


@pytest.fixture
def comparison(toy) -> Comparison:
    sizes = {name: size.default for name, size in toy.sizes.items()}
    return Comparison(case=toy, sizes=sizes, plans=toy.techniques(sizes))


@pytest.fixture
def batch(toy, comparison) -> Features:
    return next(toy.batches(toy.demo("train"), comparison.sizes, 0)).features


def silent(line: str) -> None:
    pass


def test_each_technique_is_set_beside_the_baseline(comparison, batch, tmp_path):
    rows = {row["name"]: row for row in measured_rows(comparison, batch, tmp_path / "rows.json", silent)}
    assert rows["plain"]["loss_difference"] == rows["plain"]["gradient_difference"] == 0
    assert rows["recompute"]["gradient_difference"] < 1e-5  # same arithmetic, fused differently
    assert 1e-4 < rows["bfloat16"]["gradient_difference"] < 0.1  # eight bits of mantissa
    assert rows["plain"]["footprint"]["peak"] > 0
    assert rows["bfloat16"]["plan"] == {"precision": {"compute": "bfloat16"}}
    assert all(row["step_seconds"] > 0 for row in rows.values())


def test_the_gradient_read_from_adam_is_the_gradient_of_the_loss(comparison, batch, toy):
    from elbowroom.studies.compare import _Running

    running = _Running(comparison, Plan(), batch)
    state, loss = comparison.state(Plan()), toy.loss(comparison.sizes, Plan())
    keys = jax.random.split(jax.random.fold_in(state.key, 0), 2)
    examples = [{name: array[i] for name, array in batch.items()} for i in range(2)]
    gradients = [
        jax.grad(lambda p, e=e, k=k: loss(p, e, k)[0])(state.parameters) for e, k in zip(examples, keys, strict=True)
    ]
    mean = jax.tree.map(lambda a, b: (a + b) / 2, *gradients)
    for got, want in zip(running.gradient, jax.tree.leaves(mean), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)  # one rounding by 1 - beta1 and back


def test_the_gradient_difference_is_the_worst_parameters():
    plain = [np.asarray([1.0, -2.0]), np.asarray([0.1])]
    changed = [np.asarray([1.0, -2.2]), np.asarray([0.12])]
    assert gradient_difference(changed, plain) == pytest.approx(0.2)


def test_rounding_in_a_gradient_that_is_zero_counts_on_the_scale_of_the_others():
    plain = [np.asarray([1.0]), np.asarray([0.0])]
    changed = [np.asarray([1.0]), np.asarray([1e-7])]
    assert gradient_difference(changed, plain) == pytest.approx(1e-4)


def test_rows_that_are_there_are_not_computed_again(comparison, tmp_path):
    store, told = tmp_path / "rows.json", []
    first = compiled_rows(comparison, store, told.append)
    assert told == ["compiling plain", "compiling recompute", "compiling bfloat16"]
    store.write_text(json.dumps(json.loads(store.read_text())[:2]))  # as if interrupted before the third
    assert compiled_rows(comparison, store, told.append) == first
    assert told[3:] == ["compiling bfloat16"]


def test_other_sizes_are_other_rows(comparison, toy, tmp_path):
    store = tmp_path / "rows.json"
    small = compiled_rows(comparison, store, silent)
    longer = Comparison(case=toy, sizes={**comparison.sizes, "length": 64}, plans=comparison.plans)
    large = compiled_rows(longer, store, silent)
    assert large[0]["footprint"]["peak"] > small[0]["footprint"]["peak"]
    assert len(json.loads(store.read_text())) == 6


def test_every_format_shows_the_same_rows(comparison, batch, tmp_path):
    rows = measured_rows(comparison, batch, tmp_path / "rows.json", silent)
    markdown, table, saved, plot = save_comparison(tmp_path / "out", "toy", rows)
    assert json.loads(saved.read_text()) == rows
    lines = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [line["technique"] for line in lines] == ["plain", "recompute", "bfloat16"]
    assert float(lines[2]["loss difference"]) == rows[2]["loss_difference"]
    assert "| recompute |" in markdown.read_text()
    assert "jax " + jax.__version__ in markdown.read_text()
    assert plot.read_bytes().startswith(b"\x89PNG")
    terminal = Console(width=200, record=True, file=io.StringIO())
    terminal.print(table_of(rows))
    assert "gradient difference" in terminal.export_text()


def test_memory_alone_is_drawn_as_bars(comparison, tmp_path):
    rows = compiled_rows(comparison, tmp_path / "rows.json", silent)
    markdown, *_, plot = save_comparison(tmp_path / "out", "toy", rows)
    assert "step" not in markdown.read_text().splitlines()[2]
    assert plot.stat().st_size > 1000
