"""What the structure module, its losses and the template stack read."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elbowroom.datasets.proteins.alphabet import GAP, indices, letters
from elbowroom.datasets.proteins.crop import crop
from elbowroom.datasets.proteins.features import (
    FeatureSizes,
    evaluation_features,
    prediction_features,
    training_features,
)
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.structure import Structure, Template

SIZES = FeatureSizes(res=16, seq=5, extra_seq=8, templates=4)
EARLIER = ("msa_feat", "msa_mask", "extra_msa", "extra_msa_mask", "extra_has_deletion", "extra_deletion_value")
OFFICIAL = Path(__file__).parents[2] / "oracles" / "af2" / "features.npz"


def train(protein, seed=0, sizes=SIZES):
    return training_features(protein, sizes, np.random.default_rng(seed))


@pytest.fixture
def templated(family, template):
    """A protein with as many templates as asked for, each recognised by its first atom's x."""

    def protein(count: int, *, res: int = 16):
        found = []
        for i in range(count):
            one = template(f"t{i}", res=res, seed=i)
            one.aatype[0], one.atom_mask[0, 0], one.atom_positions[0, 0] = 0, True, i + 1
            found.append(one)
        return replace(family(res=res), templates=tuple(found))

    return protein


def chosen(features) -> list[int]:
    return [int(x) - 1 for x in features["template_all_atom_positions"][:, 0, 0, 0] if x]


def test_atoms_are_those_of_the_structure(family):
    protein = family(res=16)
    features = train(protein)
    np.testing.assert_array_equal(features["all_atom_positions"], protein.structure.atom_positions)
    np.testing.assert_array_equal(features["all_atom_mask"], protein.structure.atom_mask)


def test_atoms_and_templates_are_cut_with_the_sequence(templated):
    protein = templated(1, res=40)
    starts = set()
    for seed in range(40):
        features = train(protein, seed)
        start = int(features["residue_index"][0])
        window = slice(start, start + 16)
        np.testing.assert_array_equal(features["all_atom_positions"], protein.structure.atom_positions[window])
        if features["template_mask"][0]:
            one = protein.templates[0]
            np.testing.assert_array_equal(features["template_aatype"][0], one.aatype[window])
            np.testing.assert_array_equal(features["template_all_atom_positions"][0], one.atom_positions[window])
            np.testing.assert_array_equal(features["template_all_atom_masks"][0], one.atom_mask[window])
            starts.add(start)
    assert len(starts) > 5
    assert crop(protein, 3, 5).templates[0].name == "t0"


@pytest.mark.parametrize(("known", "shown"), [(None, 0.0), (1.8, 1.8)])
def test_an_unknown_resolution_is_zero(family, known, shown):
    protein = family()
    features = train(replace(protein, structure=replace(protein.structure, resolution=known)))
    assert features["resolution"] == np.float32(shown)
    assert train(replace(protein, structure=None))["resolution"] == 0


def test_nine_of_ten_training_examples_are_clamped_and_all_others(family):
    protein = family()
    # Three standard deviations of 1000 draws are 0.028.
    assert np.mean([train(protein, seed)["use_clamped_fape"] for seed in range(1000)]) == pytest.approx(0.9, abs=0.028)
    assert evaluation_features(protein, SIZES)["use_clamped_fape"] == 1


def test_crops_with_unclamped_error_start_earlier_and_all_places_are_possible(family):
    starts = {True: [], False: []}
    for seed in range(3000):
        features = train(family(res=20), seed)  # five places for sixteen residues
        starts[bool(features["use_clamped_fape"])].append(int(features["residue_index"][0]))
    # A uniform start has mean 2 and variance 2; below a uniform last place, mean 1.
    for clamped, mean, deviation in ((True, 2.0, 1.42), (False, 1.0, 1.3)):
        assert np.mean(starts[clamped]) == pytest.approx(mean, abs=3 * deviation / len(starts[clamped]) ** 0.5)
        assert set(starts[clamped]) == set(range(5))


def test_without_structure_no_atom_is_known(family):
    features = train(family(structure=False))
    assert features["all_atom_mask"].sum() == 0
    np.testing.assert_array_equal(features["all_atom_positions"], 0)


def test_pseudo_betas_are_the_official_ones():
    with np.load(OFFICIAL) as file:
        official = {name.removeprefix("inputs/"): file[name] for name in file.files}
    structure = Structure(
        residue_index=official["residue_index"],
        atom_positions=official["all_atom_positions"],
        atom_mask=official["all_atom_mask"] > 0,
    )
    names = ("aatype", "all_atom_positions", "all_atom_masks")
    templates = tuple(
        Template(name=str(i), aatype=aatype, atom_positions=positions, atom_mask=mask > 0)
        for i, (aatype, positions, mask) in enumerate(
            zip(*(official[f"template_{name}"] for name in names), strict=True)
        )
    )
    assert any((template.aatype == GAP).any() for template in templates)
    sequence = letters(official["aatype"])
    protein = Protein(name="peptide", sequence=sequence, structure=structure, templates=templates)
    sizes = FeatureSizes(res=len(sequence), seq=1, extra_seq=0, templates=len(templates))
    features = evaluation_features(protein, sizes)
    for name in ("pseudo_beta", "template_pseudo_beta"):
        mask = official[f"{name}_mask"]
        assert 0 < mask.sum() < mask.size
        np.testing.assert_array_equal(features[f"{name}_mask"], mask)
        np.testing.assert_array_equal(features[name][mask > 0], official[name][mask > 0])
    for name in ("all_atom_mask", "template_aatype", "template_all_atom_positions", "template_all_atom_masks"):
        np.testing.assert_array_equal(features[name], official[name], err_msg=name)


def test_templates_that_there_are_not_are_masked(templated):
    features = evaluation_features(templated(2, res=10), SIZES)
    np.testing.assert_array_equal(features["template_mask"], [1, 1, 0, 0])
    for name, array in features.items():
        if name.startswith("template_") and array.ndim > 1:
            assert array[:2, :10].any()
            np.testing.assert_array_equal(array[2:], 0, err_msg=name)
            np.testing.assert_array_equal(array[:, 10:], 0, err_msg=name)
    gap = features["template_aatype"] == GAP
    assert gap.any()
    assert features["template_all_atom_masks"][gap].sum() == 0


def test_evaluation_takes_the_first_templates(templated):
    assert chosen(evaluation_features(templated(6), SIZES)) == [0, 1, 2, 3]


def test_training_draws_from_none_to_four_templates_and_any_of_them(templated):
    protein = templated(6)
    draws = [chosen(train(protein, seed)) for seed in range(1000)]
    counts = Counter(map(len, draws))
    # min(Uniform(0..6), 4); three standard deviations of 1000 draws are below 0.05.
    shares = [1 / 7, 1 / 7, 1 / 7, 1 / 7, 3 / 7]
    np.testing.assert_allclose([counts[n] / 1000 for n in range(5)], shares, atol=0.05)
    assert all(len(set(draw)) == len(draw) for draw in draws)
    seen = Counter(i for draw in draws for i in draw)
    mean = sum(seen.values()) / 6
    np.testing.assert_allclose([seen[i] / mean for i in range(6)], 1, atol=0.2)


def test_training_draws_among_the_twenty_best(templated):
    protein = templated(23)
    assert {i for seed in range(300) for i in chosen(train(protein, seed))} == set(range(20))


def test_templates_change_no_other_feature(templated):
    many, none = train(templated(6)), train(templated(0), sizes=replace(SIZES, templates=0))
    for name, array in none.items():
        if not name.startswith("template_"):
            np.testing.assert_array_equal(array, many[name], err_msg=name)
        else:
            assert array.shape[0] == 0
    assert many.keys() == none.keys()


@pytest.mark.parametrize("res", [20, 27])
def test_prediction_sees_the_whole_chain(templated, res):
    protein = templated(2, res=20)
    sizes = replace(SIZES, res=res)
    features, again = prediction_features(protein, sizes), prediction_features(protein, sizes)
    np.testing.assert_array_equal(features["seq_mask"], [1] * 20 + [0] * (res - 20))
    np.testing.assert_array_equal(features["aatype"][:20], indices(protein.sequence))
    assert features.keys() == train(protein).keys()
    for name in features:
        np.testing.assert_array_equal(features[name], again[name], err_msg=name)


@pytest.mark.parametrize("draw", [train, lambda protein, sizes: evaluation_features(protein, sizes)])
def test_each_earlier_pass_sees_other_rows_of_the_same_alignment(family, draw):
    protein, shown = family(res=16, seq=200), slice(0, 23)
    once, often = draw(protein, sizes=SIZES), draw(protein, sizes=replace(SIZES, recycles=2))
    for name, array in once.items():
        np.testing.assert_array_equal(often[name], array, err_msg=name)
    rows = {tuple(row) for row in protein.alignment.msa}
    passes = [once, *({name: often["earlier_" + name][i] for name in EARLIER} for i in range(2))]
    assert len({features["extra_msa"].tobytes() for features in passes}) == 3
    assert len({features["msa_feat"].tobytes() for features in passes}) == 3
    for features in passes:
        assert all(tuple(row) in rows for row in features["extra_msa"])
        query = features["msa_feat"][0, :, shown].argmax(-1)
        assert np.mean(query == indices(protein.sequence)) > 0.6  # what is not, was corrupted
        for name in EARLIER:
            assert (features[name].shape, features[name].dtype) == (once[name].shape, once[name].dtype)


def test_prediction_refuses_to_cut_a_chain(family):
    with pytest.raises(ValueError, match="p: 20 residues do not fit in 16; ask for at least 20"):
        prediction_features(family(res=20), SIZES)


def test_fewer_than_no_templates_are_refused():
    with pytest.raises(ValueError, match="no negative number"):
        FeatureSizes(res=1, seq=1, extra_seq=0, templates=-1)


def test_a_template_of_another_length_is_refused(family, template):
    with pytest.raises(ValueError, match="p: 20 residues but 19 in the template short; align it to this sequence"):
        replace(family(res=20), templates=(template("short", res=19),))
