"""The formula's footprint: programs whose bytes can be counted by hand, then whole steps against the compiler."""

import json
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_stack

from elbowroom.memory.footprint.compiled import compile_step
from elbowroom.memory.footprint.dataflow import program
from elbowroom.memory.footprint.formula import formula_footprint
from elbowroom.memory.footprint.lifetimes import Buffer, packed_bytes, peak_bytes
from elbowroom.memory.plan import Chunk, Plan, Precision, Recompute
from elbowroom.studies.alphafold import ALPHAFOLD
from elbowroom.studies.case import abstract_batch
from elbowroom.studies.choose_plan import abstract_train_state
from elbowroom.studies.train import step_of

SIDE = 64
SQUARE = 4 * SIDE * SIDE
RESULTS = Path(__file__).parents[2] / "results" / "formula_vs_compiled.json"


def temporaries(function, *shapes) -> int:
    arguments = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return peak_bytes(program(jax.make_jaxpr(function)(*arguments)))


def test_pointwise_operations_are_fused_into_the_result():
    assert temporaries(lambda x: jnp.tanh(x * 2.0 + 1.0), (SIDE, SIDE)) == 0


def test_a_product_of_products_holds_one_square_and_the_next():
    def chain(x):
        return jnp.tanh(x @ x @ x @ x)

    assert temporaries(chain, (SIDE, SIDE)) == 2 * SQUARE


def test_an_operand_that_ends_gives_its_memory_to_a_pointwise_result():
    def squashed(x):
        y = jnp.exp(x @ x)  # read twice, and too expensive to compute twice
        return (y @ y) * y.sum()

    # exp(x @ x) over x @ x, beside its own square.
    assert temporaries(squashed, (SIDE, SIDE)) <= 2 * SQUARE + 64


def test_a_loop_holds_its_stack_and_the_inside_of_one_iteration():
    def steps(x):
        def body(carry, _):
            product = carry @ carry
            return jnp.tanh(product @ product), product

        return jax.lax.scan(body, x, None, length=10)[1].sum()

    # The stack of 10; the carry; in one iteration the product and its square.
    assert temporaries(steps, (SIDE, SIDE)) == pytest.approx((10 + 1 + 2) * SQUARE, rel=0.01)


def test_an_unread_result_costs_nothing():
    def dead(x):
        _ = x @ x @ x
        return x * 2.0

    assert temporaries(dead, (SIDE, SIDE)) == 0


def test_equal_operations_are_computed_once_unless_a_barrier_stands_between():
    def twice(x, fence):
        first = jnp.tanh(x @ x)
        y = fence(x)
        return (first @ jnp.tanh(y @ y)) @ x

    once = temporaries(lambda x: twice(x, lambda y: y), (SIDE, SIDE))
    apart = temporaries(lambda x: twice(x, jax.lax.optimization_barrier), (SIDE, SIDE))
    assert apart - once == SQUARE


def test_transposed_operands_are_copied():
    def batched(x, y):
        return jnp.exp(jnp.einsum("rqhc,rkhc->rhqk", x, y))

    shape = (4, 16, 8, 8)
    logits, operand = 4 * 4 * 8 * 16 * 16, 4 * 4 * 16 * 8 * 8
    assert temporaries(batched, shape, shape) == logits + 2 * operand


@pytest.mark.parametrize("seed", range(5))
def test_packing_is_between_the_largest_sum_alive_and_the_sum_of_all(seed):
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, 50, 40)
    ends = starts + rng.integers(1, 20, 40)
    sizes = rng.integers(1, 100, 40)
    buffers = [Buffer(int(s), int(a), int(b)) for s, a, b in zip(sizes, starts, ends, strict=True)]
    alive = max(sum(b.size for b in buffers if b.start <= t < b.end) for t in range(80))
    assert alive <= packed_bytes(buffers) <= 1.5 * alive


def test_buffers_that_never_meet_share_one_place():
    assert packed_bytes([Buffer(10, 3 * t, 3 * t + 3) for t in range(20)]) == 10
    assert packed_bytes([Buffer(10, 0, 6), Buffer(10, 5, 9)]) == 20
    assert packed_bytes([]) == 0


PLANS = (
    Plan(),
    Plan(recompute=Recompute(blocks=True)),
    Plan(recompute=Recompute(blocks=True, modules=True), chunk=Chunk(rows=5, queries=16, keys=16)),
    Plan(precision=Precision(compute="bfloat16")),
)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_step_is_estimated_within_15_percent_of_the_compilers_peak(plan):
    """A stack that the rules were not fitted to."""
    step, shapes = toy_stack.step_of(plan), toy_stack.shapes()
    formula, compiled = formula_footprint(step, *shapes), compile_step(step, *shapes).footprint
    assert formula.peak == pytest.approx(compiled.peak, rel=0.15)
    for exact in ("parameters", "gradients", "optimizer", "inputs"):
        assert getattr(formula, exact) == getattr(compiled, exact)
    assert formula.provenance == "formula"


@pytest.mark.parametrize(
    "plan",
    [
        Plan(recompute=Recompute(blocks=True, save=("attention_out",))),
        Plan(recompute=Recompute(blocks=True), precision=Precision(compute="bfloat16")),
    ],
    ids=str,
)
def test_small_steps_can_be_overestimated_by_up_to_half(plan):
    """A known weakness: the compiler reorders these 5 MiB steps. The trunk's own plans are within 15 %, below."""
    step, shapes = toy_stack.step_of(plan), toy_stack.shapes()
    assert 1.0 < formula_footprint(step, *shapes).peak / compile_step(step, *shapes).footprint.peak < 1.5


def test_leaner_plans_are_estimated_leaner():
    plans = (
        Plan(),
        Plan(chunk=Chunk(queries=16, keys=16)),
        Plan(recompute=Recompute(blocks=True)),
        Plan(recompute=Recompute(blocks=True, modules=True)),
        Plan(recompute=Recompute(blocks=True, modules=True), chunk=Chunk(rows=5)),
    )
    peaks = [formula_footprint(toy_stack.step_of(plan), *toy_stack.shapes()).peak for plan in plans]
    assert all(lean < fat for fat, lean in pairwise(peaks))


def test_the_formula_still_agrees_with_the_published_compiled_peaks_of_the_trunk():
    """Tracing takes seconds where compiling takes a minute: plain, recomputed, and both with chunks, at one size."""
    rows = [row for row in json.loads(RESULTS.read_text(encoding="utf-8")) if row["sizes"]["crop"] == 64]
    exact = [row for row in rows if "precision" not in row["plan"]]
    chunked = [row for row in exact if {"recompute", "chunk"} <= row["plan"].keys()]
    assert len(chunked) == 2
    for row in exact[:2] + chunked:
        plan, sizes, settings = Plan.from_dict(row["plan"]), row["sizes"], ALPHAFOLD.optimizer
        state, batch = abstract_train_state(ALPHAFOLD, sizes, settings, plan), abstract_batch(ALPHAFOLD, sizes)
        formula = formula_footprint(step_of(ALPHAFOLD, sizes, settings)(plan), state, batch)
        assert formula.peak == pytest.approx(row["compiled"]["peak"], rel=0.15)


def test_every_published_estimate_is_within_15_percent():
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert len({(row["plan_line"], row["sizes"]["crop"]) for row in rows}) == len(rows) >= 12
    for row in rows:
        assert row["formula"]["peak"] == pytest.approx(row["compiled"]["peak"], rel=0.15), row["plan_line"]
