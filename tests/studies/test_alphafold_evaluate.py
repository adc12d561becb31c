"""Evaluation of structures: what perfect, useless and constant predictions score."""

import numpy as np
import pytest

from elbowroom.datasets.demo.load import demo_proteins
from elbowroom.datasets.proteins.atoms import CA
from elbowroom.studies.alphafold_evaluate import constant_predict, evaluation_rows, scores_of, with_structure
from elbowroom.studies.alphafold_evaluate_report import save_evaluation
from elbowroom.studies.metrics.calibration import calibration
from elbowroom.studies.provenance import provenance


@pytest.fixture(scope="module")
def proteins():
    return with_structure(demo_proteins("test"))[:3]


def perfect(protein):
    places = protein.structure.atom_positions[:, CA]
    return places, -np.linalg.norm(places[:, None] - places[None], axis=-1)


def collapsed(protein):
    length = len(protein.sequence)
    return np.zeros((length, 3)), np.zeros((length, length))


def test_the_truth_scores_one_and_a_point_next_to_nothing(proteins):
    best, worst = (scores_of(predict, proteins[0]) for predict in (perfect, collapsed))
    assert best["lddt_ca"] == best["tm_score"] == best["gdt_ts"] == pytest.approx(1.0)
    assert best["rmsd"] == pytest.approx(0.0, abs=1e-4)
    assert best["contact_precision"] > 0.8  # of CA, while contacts are counted between CB
    assert worst["lddt_ca"] < 0.1


def test_the_constant_predictor_is_a_regular_shape_that_beats_a_point(proteins):
    name, constant = constant_predict(demo_proteins("train")[:20])
    places, contacts = constant(proteins[0])
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    np.testing.assert_allclose(steps, 3.8, atol=0.4)  # CA of neighbours in any regular chain
    assert "helix" in name
    assert contacts[0, 3] > contacts[0, 40]
    assert scores_of(constant, proteins[0])["lddt_ca"] > scores_of(collapsed, proteins[0])["lddt_ca"]


def test_gains_are_of_the_first_predictor_over_each_other_one(proteins, tmp_path):
    seen = []
    rows, each = evaluation_rows({"truth": perfect, "point": collapsed}, proteins, seen.append)
    assert seen == [protein.name for protein in proteins]
    assert rows[0]["gain_lddt_ca"] is None
    assert rows[1]["gain_lddt_ca"]["mean"] == pytest.approx(rows[0]["lddt_ca"]["mean"] - rows[1]["lddt_ca"]["mean"])
    report = {
        "rows": rows,
        "proteins": each,
        "calibration": calibration(np.array([40.0, 60.0]), np.array([50.0, 60.0]))._asdict(),
        "provenance": provenance(),
    }
    paths = save_evaluation(tmp_path, report)
    assert [path.suffix for path in paths] == [".md", ".csv", ".json", ".png"]
    assert "correlation 1.00, mean error 5.0" in paths[0].read_text()
    assert len(paths[1].read_text().splitlines()) == 1 + len(proteins)


def test_a_confidence_that_was_never_learned_is_called_so(proteins, tmp_path):
    rows, each = evaluation_rows({"point": collapsed}, proteins[:1], lambda name: None)
    same = calibration(np.array([50.0, 50.0]), np.array([50.0, 60.0]))._asdict()
    report = {"rows": rows, "proteins": each, "calibration": same, "provenance": provenance()}
    text = save_evaluation(tmp_path, report)[0].read_text()
    assert "pLDDT is the same for all residues" in text
    assert "nan" not in text
