"""The AlphaFold case holds together: data, model, loss and plans speak the same names and sizes."""

import numpy as np
import pytest

from elbowroom.memory.plan import Chunk, Plan, PlanError, Recompute
from elbowroom.studies.alphafold import ALPHAFOLD
from elbowroom.studies.case import abstract_batch
from elbowroom.studies.cases import CASES, UnknownCaseError, case_named
from elbowroom.studies.choose_plan import check_plan
from elbowroom.studies.evaluate import prior_scores

SIZES = {
    "crop": 12,
    "clusters": 4,
    "extra": 5,
    "blocks": 2,
    "extra_blocks": 1,
    "templates": 0,
    "recycles": 0,
    "batch": 2,
}


def test_cases_are_found_by_name():
    assert all(case_named(name).name == name for name in CASES)
    with pytest.raises(UnknownCaseError, match="choose one of alphafold, alphafold-fine-tuning, alphafold-small"):
        case_named("boltz")


def test_batches_have_the_shapes_that_footprints_assume():
    batches = ALPHAFOLD.batches(ALPHAFOLD.demo("train"), SIZES, 0)
    batch = next(batches)
    assert {name: (leaf.shape, leaf.dtype) for name, leaf in batch.features.items()} == {
        name: (leaf.shape, leaf.dtype) for name, leaf in abstract_batch(ALPHAFOLD, SIZES).items()
    }
    assert batch.amount == batch.features["seq_mask"].sum() <= 2 * 12
    assert len(batch.names) == 2


def test_a_step_is_given_rows_for_every_earlier_pass():
    for recycles in (0, 3):
        sizes = {**SIZES, "recycles": recycles}
        shapes, (_, held_out) = ALPHAFOLD.example(sizes), ALPHAFOLD.held_out(ALPHAFOLD.demo("test"), sizes)[0]
        rows = [shape.shape[0] for name, shape in shapes.items() if name.startswith("earlier_")]
        assert rows == [recycles] * (6 if recycles else 0)
        assert {name: array.shape for name, array in held_out.items()} == {n: s.shape for n, s in shapes.items()}


def test_a_batch_iterator_goes_on_from_its_state():
    records = ALPHAFOLD.demo("train")
    first = ALPHAFOLD.batches(records, SIZES, 3)
    next(first)
    state = first.get_state()
    expected = next(first)
    second = ALPHAFOLD.batches(records, SIZES, 3)
    second.set_state(state)
    got = next(second)
    assert got.names == expected.names
    for name, array in expected.features.items():
        np.testing.assert_array_equal(got.features[name], array)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 48])
def test_every_technique_of_a_comparison_does_something_at_its_sizes(blocks):
    sizes = {name: ALPHAFOLD.compared_sizes.get(name, size.default) for name, size in ALPHAFOLD.sizes.items()}
    sizes["blocks"] = blocks
    plans = ALPHAFOLD.techniques(sizes)
    assert next(iter(plans.values())) == Plan()
    for plan in plans.values():
        check_plan(ALPHAFOLD, sizes, plan)
    check_plan(ALPHAFOLD, sizes, ALPHAFOLD.plan)


def test_the_prior_knows_more_than_nothing():
    held_out = ALPHAFOLD.held_out(ALPHAFOLD.demo("test"), SIZES)
    scores = prior_scores(ALPHAFOLD.prior(ALPHAFOLD.demo("train")), held_out)
    assert len(held_out) == 24
    assert scores.mean() < 0.9 * np.log(64)


def test_train_and_test_are_other_proteins():
    train, test = (ALPHAFOLD.demo(split) for split in ("train", "test"))
    assert not {p.sequence for p in train.items} & {p.sequence for p in test.items}
    assert train.fingerprint != test.fingerprint


def test_a_product_that_never_exists_whole_cannot_be_saved():
    """In rows it is computed in loops, where jax takes its name in silence and saves nothing."""
    saving = Recompute(blocks=True, save=("triangle_product",))
    check_plan(ALPHAFOLD, SIZES, Plan(recompute=saving))
    with pytest.raises(PlanError, match=r"recompute\.save: the model names no activation 'triangle_product'"):
        check_plan(ALPHAFOLD, SIZES, Plan(recompute=saving, chunk=Chunk(rows=3)))
