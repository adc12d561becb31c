"""A budget gets the fastest plan that the compiler says fits it, or an error that says what would help."""

from itertools import pairwise

import jax.numpy as jnp
import pytest
import toy_stack

from elbowroom.memory import budget
from elbowroom.memory.budget import LADDER, BudgetError, Trial, fit
from elbowroom.memory.footprint.size import format_size, parse_size
from elbowroom.memory.plan import Chunk, Plan, Precision, Recompute

BLOCKS = Recompute(blocks=True)
CANDIDATES = (Plan(), Plan(recompute=BLOCKS), Plan(recompute=BLOCKS, chunk=Chunk(rows=5)))
PLENTY = 2**40


@pytest.fixture(scope="module")
def peaks() -> list[int]:
    """Compiled peak of each candidate alone."""
    found = [fit(toy_stack.step_of, *toy_stack.shapes(), PLENTY, candidates=[plan]) for plan in CANDIDATES]
    return [fitted.compiled.footprint.peak for fitted in found]


def test_the_candidates_are_leaner_and_leaner(peaks):
    assert all(lean < fat for fat, lean in pairwise(peaks))


def test_a_large_budget_keeps_the_plain_program():
    fitted = fit(toy_stack.step_of, *toy_stack.shapes(), PLENTY, candidates=CANDIDATES)
    assert fitted.plan == Plan()
    assert [trial.plan for trial in fitted.tried] == [Plan()]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_budget_of_exactly_a_plans_peak_gets_that_plan(peaks, index):
    fitted = fit(toy_stack.step_of, *toy_stack.shapes(), peaks[index], candidates=CANDIDATES)
    assert fitted.plan == CANDIDATES[index]
    assert fitted.compiled.footprint.peak == peaks[index]


def test_one_byte_less_gets_the_next(peaks):
    fitted = fit(toy_stack.step_of, *toy_stack.shapes(), peaks[1] - 1, candidates=CANDIDATES)
    assert fitted.plan == CANDIDATES[2]


def test_hopeless_plans_are_not_compiled_and_every_trial_is_reported(peaks, monkeypatch):
    compilations = []
    compile_step = budget.compile_step
    monkeypatch.setattr(
        budget, "compile_step", lambda step, *rest: compilations.append(step) or compile_step(step, *rest)
    )
    reported: list[Trial] = []
    fitted = fit(toy_stack.step_of, *toy_stack.shapes(), peaks[1], candidates=CANDIDATES, report=reported.append)
    assert peaks[0] > 2 * peaks[1], "the plain plan must be far off for this to test anything"
    assert len(compilations) == 1
    assert tuple(reported) == fitted.tried
    assert [trial.footprint.provenance for trial in reported] == ["formula", "compiled"]


def test_the_executable_is_ready_to_run(peaks):
    fitted = fit(toy_stack.step_of, *toy_stack.shapes(), peaks[1], candidates=CANDIDATES)
    state, metrics = fitted.compiled.executable(toy_stack.state(), toy_stack.batch())
    assert int(state.step) == 1
    assert jnp.isfinite(metrics["loss"])


def test_a_budget_that_nothing_fits_is_refused_with_one_that_would(peaks):
    with pytest.raises(BudgetError, match=r"no plan fits 1\.00 KiB: the leanest \(.*chunk 5 rows\) needs") as refused:
        fit(toy_stack.step_of, *toy_stack.shapes(), 1024, candidates=CANDIDATES)
    message = str(refused.value)
    assert format_size(peaks[2]) in message
    assert "smaller crop or on fewer rows" in message
    advised = parse_size(message.split("at least ")[1].split(",")[0])
    assert fit(toy_stack.step_of, *toy_stack.shapes(), advised, candidates=CANDIDATES).plan == CANDIDATES[2]


def test_the_ladder_starts_plain_and_stays_exact():
    assert LADDER[0] == Plan()
    assert len(set(LADDER)) == len(LADDER)
    assert all(plan.precision == Precision() for plan in LADDER)
    assert all(plan.optimizer == Plan().optimizer for plan in LADDER)
