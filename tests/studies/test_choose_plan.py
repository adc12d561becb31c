"""Plans chosen for a budget say nothing that they do not do."""

import dataclasses

import jax
import pytest

from elbowroom.memory.budget import BudgetError
from elbowroom.memory.plan import Chunk, Plan, PlanError, Recompute
from elbowroom.studies.cases import CASES
from elbowroom.studies.choose_plan import (
    check_plan,
    choose_plan,
    compiled_step_of,
    default_plan,
    fitted,
    plan_that_fits,
)
from elbowroom.studies.sizes import Sizes


@pytest.fixture
def sizes(toy) -> Sizes:
    return {name: size.default for name, size in toy.sizes.items()}


def test_a_generous_budget_gets_the_fastest_plan(toy, sizes):
    assert fitted(toy, sizes, toy.optimizer, 2**30, lambda line: None).plan == Plan()


def test_chunks_that_cut_nothing_at_these_sizes_are_not_considered(toy, sizes):
    told = []
    with pytest.raises(BudgetError, match="no plan fits"):
        fitted(toy, sizes, toy.optimizer, 1, told.append)
    assert told
    assert not [line for line in told if "16 rows" in line or "queries" in line]  # the toy's only axis is 8 long
    assert not [line for line in told if "groups" in line]  # and its only block is one
    assert [line for line in told if "4 rows" in line]


def test_a_plan_whose_groups_group_nothing_is_refused(toy, sizes):
    with pytest.raises(PlanError, match=r"recompute\.groups = 2 puts no two blocks together: .*hidden \(1\)"):
        check_plan(toy, sizes, Plan(recompute=Recompute(blocks=True, groups=2)))


def test_the_defaults_plan_is_used_when_nothing_is_asked_for(toy, sizes):
    assert choose_plan(toy, sizes, plan_file=None, budget=None, tell=print) == (toy.plan, None)


def test_an_accelerator_has_a_default_plan_of_its_own(toy, sizes, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert choose_plan(toy, sizes, plan_file=None, budget=None, tell=print) == (toy.accelerator_plan, None)


def test_a_default_plan_cuts_nothing_that_is_too_short_to_cut(toy, sizes):
    short = {**sizes, "length": 4}
    assert default_plan(toy, short, accelerator=True) == dataclasses.replace(toy.accelerator_plan, chunk=Chunk())
    check_plan(toy, short, default_plan(toy, short, accelerator=True))


@pytest.mark.filterwarnings("ignore:chunk.rows = 32 leaves whole")  # a default may leave short axes whole
@pytest.mark.parametrize("accelerator", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_every_case_can_be_run_as_it_is_by_default(name, accelerator):
    case = CASES[name]
    usual = {size: given.default for size, given in case.sizes.items()}
    check_plan(case, usual, default_plan(case, usual, accelerator=accelerator))


def test_a_plan_that_fits_the_budget_is_taken_as_it_is(toy, sizes, tmp_path):
    path = tmp_path / "plan.toml"
    plan = Plan(chunk=Chunk(rows=2))
    path.write_text(plan.to_toml())
    needed = compiled_step_of(toy, sizes, toy.optimizer, plan).footprint.peak
    assert choose_plan(toy, sizes, plan_file=path, budget=f"{needed}B", tell=print).plan == plan
    with pytest.raises(BudgetError, match=rf"needs .* more than --budget {needed - 1}B"):
        choose_plan(toy, sizes, plan_file=path, budget=f"{needed - 1}B", tell=print)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_the_plan_with_the_least_arithmetic_that_fits_is_found_without_asking_about_all(toy, sizes, first):
    asked = []

    def fits(plan: Plan) -> bool:
        asked.append(plan)
        return toy.ladder.index(plan) >= first

    assert plan_that_fits(toy, sizes, fits) == toy.ladder[first]
    assert len(asked) <= 2


def test_where_not_even_the_leanest_fits_it_is_named(toy, sizes):
    with pytest.raises(BudgetError, match="no plan fits, not even bfloat16"):
        plan_that_fits(toy, sizes, lambda plan: False)
