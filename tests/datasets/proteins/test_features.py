"""The features of an example: official names, shapes and meaning, and what padding and chance may do."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.alphabet import MASKED, indices
from elbowroom.datasets.proteins.atoms import CA, CB
from elbowroom.datasets.proteins.crop import crop
from elbowroom.datasets.proteins.features import FeatureSizes, evaluation_features, feature_shapes, training_features
from elbowroom.datasets.proteins.structure import Structure

SIZES = FeatureSizes(res=16, seq=5, extra_seq=8)
OFFICIAL = Path(__file__).parents[2] / "oracles" / "af2" / "features.npz"


def train(protein, seed=0, sizes=SIZES):
    return training_features(protein, sizes, np.random.default_rng(seed))


def test_names_and_types_are_the_official_ones_and_shapes_follow_the_sizes():
    with np.load(OFFICIAL) as file:
        official = {name.removeprefix("inputs/"): file[name] for name in file.files}
    res, seq = official["true_msa"].shape[::-1]
    templates = official["template_mask"].shape[0]
    sizes = FeatureSizes(res=res, seq=seq, extra_seq=official["extra_msa"].shape[0], templates=templates)
    for name, (shape, dtype) in feature_shapes(sizes).items():
        assert (shape, dtype) == (official[name].shape, official[name].dtype), name


def test_sizes_that_hold_nothing_are_refused():
    with pytest.raises(ValueError, match="at least one residue and one sequence"):
        FeatureSizes(res=0, seq=1, extra_seq=0)


def test_the_query_is_the_first_row_and_gives_the_target_features(family):
    protein = family(res=16)
    features = train(protein)
    np.testing.assert_array_equal(features["true_msa"][0], indices(protein.sequence))
    np.testing.assert_array_equal(features["aatype"], indices(protein.sequence))
    np.testing.assert_array_equal(features["target_feat"][:, 0], 0)
    np.testing.assert_array_equal(features["target_feat"][:, 1:], np.eye(21)[features["aatype"]])


def test_msa_features_hold_what_their_channels_say(family):
    protein = family(res=16, seq=40)
    features = evaluation_features(protein, SIZES)
    shown = features["msa_feat"][..., :23].argmax(-1)
    np.testing.assert_array_equal(features["msa_feat"][..., :23].sum(-1), 1)
    untouched = features["bert_mask"] == 0
    assert untouched.any()
    assert (shown == MASKED).any()
    np.testing.assert_array_equal(shown[untouched], features["true_msa"][untouched])
    np.testing.assert_allclose(features["msa_feat"][..., 25:48].sum(-1), 1, rtol=1e-5)
    rows = {
        tuple(row): deletions for row, deletions in zip(protein.alignment.msa, protein.alignment.deletions, strict=True)
    }
    assert len(rows) == 40
    for s in range(5):
        deletions = rows[tuple(features["true_msa"][s])]
        np.testing.assert_array_equal(features["msa_feat"][s, :, 23], deletions > 0)
        np.testing.assert_allclose(features["msa_feat"][s, :, 24], 2 / np.pi * np.arctan(deletions / 3), rtol=1e-6)
    for s in range(8):
        deletions = rows[tuple(features["extra_msa"][s])]
        np.testing.assert_array_equal(features["extra_has_deletion"][s], deletions > 0)
        np.testing.assert_allclose(features["extra_deletion_value"][s], 2 / np.pi * np.arctan(deletions / 3), rtol=1e-6)


def test_without_other_rows_the_mean_deletions_are_the_centres_own(family):
    features = evaluation_features(family(res=16, seq=5), SIZES)
    np.testing.assert_allclose(features["msa_feat"][..., 48], features["msa_feat"][..., 24], rtol=1e-6)
    np.testing.assert_array_equal(features["msa_feat"][..., 25:48], features["msa_feat"][..., :23])
    assert features["extra_msa_mask"].sum() == 0


def test_extra_rows_are_none_of_the_centres(family):
    protein = family(res=16, seq=13)
    features = evaluation_features(protein, SIZES)
    seen = [tuple(row) for row in (*features["true_msa"], *features["extra_msa"])]
    assert len(set(seen)) == 13
    assert set(seen) == {tuple(row) for row in protein.alignment.msa}


def test_whatever_is_missing_is_zero_and_masked(family):
    features = train(family(res=10, seq=3))
    np.testing.assert_array_equal(features["seq_mask"], [1] * 10 + [0] * 6)
    assert features["msa_mask"][0].sum() == 10
    assert features["extra_msa_mask"].sum() == 0
    assert {name for name, array in features.items() if array.ndim == 0} == {"resolution", "use_clamped_fape"}
    for name, array in features.items():
        if array.ndim == 0:
            continue
        padding = array[..., 10:] if name.startswith(("extra", "true", "bert", "msa_mask")) else None
        padding = array[:, 10:] if name == "msa_feat" else array[10:] if padding is None else padding
        np.testing.assert_array_equal(padding, 0, err_msg=name)
    rows = int(features["msa_mask"].any(axis=1).sum())
    assert rows < 5
    for name in ("msa_feat", "true_msa", "bert_mask"):
        np.testing.assert_array_equal(features[name][rows:], 0, err_msg=name)


def test_a_crop_is_the_same_window_everywhere(family):
    protein = family(res=40, seq=4)
    window = crop(protein, 7, 16)
    assert window.sequence == protein.sequence[7:23]
    np.testing.assert_array_equal(window.alignment.msa, protein.alignment.msa[:, 7:23])
    np.testing.assert_array_equal(window.structure.residue_index, np.arange(7, 23))
    np.testing.assert_array_equal(window.structure.atom_mask, protein.structure.atom_mask[7:23])


def test_crops_are_contiguous_and_start_anywhere(family):
    protein = family(res=20)
    starts = set()
    for seed in range(200):
        index = train(protein, seed)["residue_index"]
        np.testing.assert_array_equal(np.diff(index), 1)
        starts.add(int(index[0]))
    assert starts == set(range(5))


def test_pseudo_beta_is_cb_and_ca_for_glycine(family):
    protein = replace(family(res=16), sequence="GAGAGAGAGAGAGAGA", alignment=None)
    features = train(protein)
    for r, letter in enumerate(protein.sequence):
        atom = CA if letter == "G" else CB
        assert features["pseudo_beta_mask"][r] == protein.structure.atom_mask[r, atom]
        np.testing.assert_array_equal(features["pseudo_beta"][r], protein.structure.atom_positions[r, atom])
    assert 0 < features["pseudo_beta_mask"].sum() < 16


def test_without_structure_only_the_masked_msa_is_learnt(family):
    features = train(family(structure=False))
    assert features["pseudo_beta_mask"].sum() == 0
    assert features["bert_mask"].sum() > 0
    assert all(np.isfinite(array).all() for array in features.values())


def test_a_chain_without_any_resolved_atom_is_finite_and_masked(family):
    protein = family()
    empty = Structure(
        residue_index=protein.structure.residue_index,
        atom_positions=np.zeros((20, 37, 3), np.float32),
        atom_mask=np.zeros((20, 37), bool),
    )
    features = train(replace(protein, structure=empty))
    assert features["pseudo_beta_mask"].sum() == 0
    assert all(np.isfinite(array).all() for array in features.values())


def test_a_sequence_without_alignment_is_its_own_single_row(family):
    protein = family(res=16)
    alone = evaluation_features(replace(protein, alignment=None), SIZES)
    query = protein.alignment.msa[:1]
    itself = Alignment(msa=query, deletions=np.zeros(query.shape, np.int32))
    explicit = evaluation_features(replace(protein, alignment=itself), SIZES)
    for name in alone:
        np.testing.assert_array_equal(alone[name], explicit[name], err_msg=name)
    np.testing.assert_array_equal(alone["msa_mask"].sum(axis=1), [16, 0, 0, 0, 0])


def test_the_same_generator_gives_the_same_example_and_another_another(family):
    protein = family(res=40, seq=30)
    first, again, other = train(protein, 1), train(protein, 1), train(protein, 2)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name], err_msg=name)
    assert any((first[name] != other[name]).any() for name in first)


def test_evaluation_sees_all_rows_and_is_the_same_at_every_call(family):
    protein = family(res=40, seq=13)
    first, again = evaluation_features(protein, SIZES), evaluation_features(protein, SIZES)
    for name in first:
        np.testing.assert_array_equal(first[name], again[name], err_msg=name)
    assert first["msa_mask"].any(axis=1).sum() + first["extra_msa_mask"].any(axis=1).sum() == 13
    renamed = evaluation_features(replace(protein, name="other"), SIZES)
    assert (renamed["bert_mask"] != first["bert_mask"]).any()


@pytest.mark.parametrize("res", [1, 9])
def test_the_shortest_sequences_give_finite_features(family, res):
    features = train(family(res=res, seq=1))
    assert features["seq_mask"].sum() == res
    assert all(np.isfinite(array).all() for array in features.values())
