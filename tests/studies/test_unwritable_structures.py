"""Predicted structures that a PDB file, or no file at all, can hold."""

import numpy as np
import pytest
from biotite.structure.io.pdb import PDBFile

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.sources import find_sources, read_sources
from elbowroom.models.alphafold.residues import ATOM37_EXISTS
from elbowroom.studies.structure_files import (
    PDB_RESIDUES,
    PredictedStructure,
    StructureError,
    pdb_obstacle,
    write_structure,
)


def structure(sequence: str, fill: float = 1.0) -> PredictedStructure:
    letters = np.array(["ARNDCQEGHILKMFPSTWYVX".index(letter) for letter in sequence])
    return PredictedStructure(
        name="mine",
        sequence=sequence,
        positions=np.full((len(sequence), 37, 3), fill),
        exists=ATOM37_EXISTS[letters],
        confidence=np.full(len(sequence), 50.0),
    )


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (structure("G" * (PDB_RESIDUES + 1)), "10,000 residues are more than the 9,999"),
        (structure("W" * 8000), "112,000 atoms are more than the 99,999"),
        (structure("MG", 12_000.0), "coordinates from 12000 to 12000 Angstrom are too large"),
        (structure("MG", -1_000.0), "coordinates from -1000 to -1000 Angstrom are too large"),
    ],
    ids=["residues", "atoms", "far", "below"],
)
def test_what_a_pdb_file_cannot_hold_is_said(tmp_path, written, reason):
    assert reason in str(pdb_obstacle(written))
    if len(written.sequence) < 100:  # the long ones take seconds to write
        assert [path.suffix for path in write_structure(written, tmp_path / "mine")] == [".cif"]


def test_a_pdb_file_of_an_earlier_prediction_does_not_stay_beside_a_new_one_that_has_none(tmp_path):
    write_structure(structure("MG"), tmp_path / "mine")
    write_structure(structure("MG", 12_000.0), tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.cif"]


@pytest.mark.parametrize("fill", [9_999.9, -999.9])
def test_the_largest_coordinates_of_a_pdb_file_are_written(tmp_path, fill):
    _, path = write_structure(structure("MG", fill), tmp_path / "mine")
    np.testing.assert_allclose(PDBFile.read(path).get_structure(model=1).coord, fill, atol=6e-4)


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (structure("MG", np.nan), "mine: 12 of 12 atoms have no finite position"),
        (structure("XX"), "mine: no residue is one of the 20 amino acids"),
    ],
    ids=["not finite", "unknown"],
)
def test_a_structure_without_places_is_refused_and_leaves_no_file(tmp_path, damaged, reason):
    with pytest.raises(StructureError, match=reason):
        write_structure(damaged, tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["cif", "pdb"])
def test_our_own_reader_finds_the_same_structure(tmp_path, ending):
    """So that a prediction can be the template of another."""
    rng = np.random.default_rng(0)
    sequence = "MGWHKYEDAVLIPFTSNQC"  # without arginine, whose two NH the reader names by where they are
    written = structure(sequence)
    written.positions[...] = 30 * rng.standard_normal(written.positions.shape)
    path = next(p for p in write_structure(written, tmp_path / "mine") if p.suffix == f".{ending}")
    findings = Findings(strict=True)
    ((chain,),) = read_sources(find_sources(path, findings), findings).chains.values()
    assert chain.sequence == sequence
    np.testing.assert_array_equal(chain.structure.atom_mask, written.exists)
    centre = written.positions[:, 1].mean(axis=0)
    there = written.positions[written.exists] - centre
    np.testing.assert_allclose(chain.structure.atom_positions[written.exists], there, atol=2e-3)  # PDB has 3 decimals
