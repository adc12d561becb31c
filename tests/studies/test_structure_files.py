"""Predicted structures are read back by another program's eyes."""

import numpy as np
import pytest
from biotite.structure.io.pdb import PDBFile
from biotite.structure.io.pdbx import CIFFile, get_structure

from elbowroom.models.alphafold.residues import ATOM37_EXISTS
from elbowroom.studies.structure_files import PDB_RESIDUES, PredictedStructure, write_structure

SEQUENCE = "MGWX"


def structure(sequence: str) -> PredictedStructure:
    rng = np.random.default_rng(0)
    letters = np.array(["ARNDCQEGHILKMFPSTWYVX".index(letter) for letter in sequence])
    return PredictedStructure(
        name="one",
        sequence=sequence,
        positions=40 * rng.standard_normal((len(sequence), 37, 3)),
        exists=ATOM37_EXISTS[letters],
        confidence=100 * rng.random(len(sequence)),
    )


@pytest.mark.parametrize("ending", ["cif", "pdb"])
def test_atoms_places_and_confidence_survive_the_file(tmp_path, ending):
    written = structure(SEQUENCE)
    paths = {path.suffix: path for path in write_structure(written, tmp_path / "one")}
    path = paths[f".{ending}"]
    if ending == "cif":
        atoms = get_structure(CIFFile.read(path), model=1, extra_fields=["b_factor"])
    else:
        atoms = PDBFile.read(path).get_structure(model=1, extra_fields=["b_factor"])
    residue, column = np.nonzero(written.exists)
    np.testing.assert_allclose(atoms.coord, written.positions[residue, column], atol=6e-4)
    np.testing.assert_allclose(atoms.b_factor, written.confidence[residue], atol=6e-3)
    assert list(dict.fromkeys(atoms.res_name)) == ["MET", "GLY", "TRP"]  # nothing is known of X
    assert set(atoms.chain_id) == {"A"}
    assert list(tmp_path.glob(".*")) == []


def test_a_chain_too_long_for_pdb_is_written_as_mmcif_alone(tmp_path):
    paths = write_structure(structure("G" * (PDB_RESIDUES + 1)), tmp_path / "long")
    assert [path.suffix for path in paths] == [".cif"]
