"""Prediction from a run and from a parameter file, at the plan that the memory asks for."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tiny_alphafold import tiny_model

from elbowroom.datasets.proteins.features import prediction_features
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.memory.budget import BudgetError
from elbowroom.memory.plan import Plan
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.studies import alphafold_predict
from elbowroom.studies.alphafold_predict import LADDER, Predictor, is_written, stems, trust_in, write_prediction

pytestmark = pytest.mark.xdist_group("predict")
SIZES = {"clusters": 3, "extra": 4, "templates": 0, "recycles": 1}
PROTEINS = [Protein(name="a/b one", sequence="MKVLAAGIVGLX"), Protein(name="a:b one", sequence="GG")]


@pytest.fixture(scope="module")
def model() -> AlphaFold:
    return tiny_model()


def test_the_plain_plan_is_taken_where_memory_allows_and_files_tell_all(model, tmp_path):
    predictor = Predictor(model, SIZES, budget=2**33)
    places = stems(PROTEINS, tmp_path)
    assert len({str(place).lower() for place in places}) == 2
    for protein, place in zip(PROTEINS, places, strict=True):
        assert not is_written(place)
        predicted = predictor(protein)
        assert predicted.plan == Plan()
        assert predicted.structure.positions.shape == (len(protein.sequence), 37, 3)
        assert np.isfinite(predicted.structure.positions).all()
        paths = write_prediction(predicted, place, {"parameters": "none"})
        assert {path.name.removeprefix(place.name) for path in paths} == {
            *(".cif", ".pdb", "_confidence.json", "_plddt.png", "_pae.png")
        }
        record = json.loads(place.with_name(f"{place.name}_confidence.json").read_text())
        assert len(record["plddt"]) == len(record["predicted_aligned_error"]) == len(protein.sequence)
        assert 0 <= record["ptm"] <= 1
        assert record["name"] == protein.name
        assert is_written(place)


def test_a_leaner_plan_gives_the_same_structure(model):
    plain, lean = (Predictor(model, SIZES, plan=plan)(PROTEINS[0]) for plan in (Plan(), LADDER[-1]))
    np.testing.assert_allclose(lean.structure.positions, plain.structure.positions, atol=1e-3)
    np.testing.assert_allclose(lean.structure.confidence, plain.structure.confidence, atol=1e-2)
    assert trust_in(plain.structure) == f"mean pLDDT {plain.structure.confidence.mean():.1f}"
    unlearned = replace(plain.structure, confidence=np.full_like(plain.structure.confidence, 50.0))
    assert "says nothing" in trust_in(unlearned)


def test_every_pass_of_a_prediction_is_given_rows_of_its_own(model, monkeypatch):
    asked = []

    def spied(protein, sizes):
        asked.append(prediction_features(protein, sizes))
        return asked[-1]

    monkeypatch.setattr(alphafold_predict, "prediction_features", spied)
    Predictor(model, SIZES, plan=Plan())(PROTEINS[1])
    assert asked[0]["earlier_msa_feat"].shape == (SIZES["recycles"], *asked[0]["msa_feat"].shape)


def test_what_no_plan_can_hold_is_refused_with_what_it_needs(model):
    with pytest.raises(BudgetError, match=r"a/b one: 32 residues need .* even chunked"):
        Predictor(model, SIZES, budget=1000, plan=LADDER[-1])(PROTEINS[0])
