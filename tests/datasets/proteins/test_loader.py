"""Training batches: every protein, any order, the same again after a stop."""

import json
from dataclasses import replace

import pytest

from elbowroom.datasets.proteins.features import FeatureSizes, evaluation_features
from elbowroom.datasets.proteins.loader import evaluation_examples, training_batches

SIZES = FeatureSizes(res=8, seq=3, extra_seq=4)


@pytest.fixture
def proteins(family):
    return [family(f"p{i}", res=10 + i, seq=6, seed=i) for i in range(6)]


def take(batches, count):
    return [next(batches) for _ in range(count)]


def same(one, other) -> bool:
    return one.names == other.names and all((one.features[k] == other.features[k]).all() for k in one.features)


def test_every_pass_has_each_protein_once_in_an_order_of_its_own(proteins):
    batches = take(training_batches(proteins, SIZES, seed=0, batch=2), 9)
    names = [name for batch in batches for name in batch.names]
    passes = [names[:6], names[6:12], names[12:]]
    assert all(sorted(one) == [f"p{i}" for i in range(6)] for one in passes)
    assert len({tuple(one) for one in passes}) > 1


def test_examples_are_stacked_and_residues_counted(proteins):
    batch = next(training_batches(proteins, SIZES, seed=0, batch=4))
    assert batch.features["msa_feat"].shape == (4, 3, 8, 49)
    assert batch.residues == 32


@pytest.mark.parametrize("size", [1, 4])
def test_batches_may_be_one_example_or_cross_passes(proteins, size):
    batches = take(training_batches(proteins, SIZES, seed=0, batch=size), 7)
    assert all(len(batch.names) == size for batch in batches)


def test_one_protein_is_enough_and_its_crops_differ(proteins):
    batches = take(training_batches(proteins[-1:], SIZES, seed=0, batch=2), 5)
    starts = {int(start) for batch in batches for start in batch.features["residue_index"][:, 0]}
    assert len(starts) > 1


def test_the_seed_decides_everything(proteins):
    first = take(training_batches(proteins, SIZES, seed=3, batch=2), 4)
    again = take(training_batches(proteins, SIZES, seed=3, batch=2), 4)
    other = take(training_batches(proteins, SIZES, seed=4, batch=2), 4)
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert not all(same(a, b) for a, b in zip(first, other, strict=True))


def test_a_stored_state_continues_with_the_next_batch(proteins):
    batches = training_batches(proteins, SIZES, seed=5, batch=2)
    take(batches, 4)
    state = json.loads(json.dumps(batches.get_state()))
    expected = take(batches, 3)
    resumed = training_batches(proteins, SIZES, seed=5, batch=2)
    resumed.set_state(state)
    assert all(same(a, b) for a, b in zip(expected, take(resumed, 3), strict=True))


def test_templates_are_drawn_again_and_the_same_after_a_stop(proteins, template):
    templates = tuple(template(f"t{i}", res=15, seed=i) for i in range(3))
    one = [replace(proteins[-1], templates=templates)]
    sizes = replace(SIZES, templates=2)
    batches = training_batches(one, sizes, seed=0, batch=2)
    first = take(batches, 3)
    assert first[0].features["template_all_atom_positions"].shape == (2, 2, 8, 37, 3)
    assert len({int(count) for batch in first for count in batch.features["template_mask"].sum(axis=1)}) > 1
    state = json.loads(json.dumps(batches.get_state()))
    expected = take(batches, 3)
    resumed = training_batches(one, sizes, seed=0, batch=2)
    resumed.set_state(state)
    assert all(same(a, b) for a, b in zip(expected, take(resumed, 3), strict=True))


def test_threads_change_nothing(proteins, monkeypatch):
    many = take(training_batches(proteins, SIZES, seed=6, batch=2), 5)
    monkeypatch.setattr("elbowroom.datasets.proteins.loader._THREADS", 1)
    one = take(training_batches(proteins, SIZES, seed=6, batch=2), 5)
    assert all(same(a, b) for a, b in zip(many, one, strict=True))


def test_no_proteins_are_refused():
    with pytest.raises(ValueError, match="no proteins to train on"):
        training_batches([], SIZES, seed=0, batch=1)


def test_evaluation_examples_come_once_each_in_order(proteins):
    examples = list(evaluation_examples(proteins, SIZES))
    assert [name for name, _ in examples] == [protein.name for protein in proteins]
    wanted = evaluation_features(proteins[2], SIZES)
    assert all((examples[2][1][key] == wanted[key]).all() for key in wanted)
