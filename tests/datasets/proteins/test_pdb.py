"""PDB files: numbering, SEQRES, conformers, and what is refused with its line."""

import numpy as np
import pytest

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.proteins.atoms import ATOM_INDEX, CA, CB
from elbowroom.datasets.proteins.collect import collect
from elbowroom.datasets.proteins.pairing import NO_RESOLUTION

ATOMS_ONLY = "sequence taken from the atoms, in which unresolved residues cannot be seen"
SEVERAL = "structure with several models, first one read"


def read(path):
    found = collect(path)
    (protein,) = found.proteins
    return protein, {warned.kind: warned.count for warned in found.warnings if warned.kind != NO_RESOLUTION}


def seqres(names: str, chain: str = "A") -> str:
    count = len(names.split())
    return f"SEQRES   1 {chain} {count:>4}  {names}\n"


def test_without_seqres_the_atoms_give_the_sequence_and_gaps_stay_in_the_numbering(write, pdb_residue):
    text = pdb_residue("MET", -1) + pdb_residue("ALA", 0) + pdb_residue("GLY", 6) + pdb_residue("SER", 7)
    protein, warnings = read(write("1abc.pdb", text))
    assert (protein.name, protein.sequence) == ("1abc", "MAGS")
    np.testing.assert_array_equal(protein.structure.residue_index, [0, 1, 7, 8])
    assert protein.structure.resolution is None
    assert warnings == {ATOMS_ONLY: 1}


def test_insertion_codes_are_residues_of_their_own(write, pdb_residue):
    text = (
        pdb_residue("ALA", 52, at=1)
        + pdb_residue("GLY", 52, insertion="A", at=2)
        + pdb_residue("SER", 52, insertion="B", at=3)
        + pdb_residue("LYS", 53, at=4)
    )
    protein, _ = read(write("a.ent", text))
    assert protein.sequence == "AGSK"
    np.testing.assert_array_equal(protein.structure.residue_index, [0, 1, 2, 3])


def test_seqres_gives_unresolved_residues_and_their_atoms_are_masked(write, pdb_residue):
    text = seqres("MET ALA ALA ALA GLY SEC") + pdb_residue("ALA", 11) + pdb_residue("ALA", 13) + pdb_residue("GLY", 14)
    protein, warnings = read(write("a.pdb", text))
    assert protein.sequence == "MAAAGU"
    # By number the second ALA is the third of the three: an alignment alone could not tell.
    np.testing.assert_array_equal(protein.structure.atom_mask[:, CA], [False, True, False, True, True, False])
    np.testing.assert_array_equal(protein.structure.residue_index, np.arange(6))
    assert warnings == {}


def test_seqres_with_insertion_codes_is_found_by_alignment(write, pdb_residue):
    names = "MET LYS TRP ASP GLY HIS PHE"
    parts = [("LYS", 5, " "), ("TRP", 5, "A"), ("GLY", 9, " "), ("HIS", 10, " ")]
    text = seqres(names) + "".join(
        pdb_residue(name, n, insertion=code, at=i) for i, (name, n, code) in enumerate(parts)
    )
    protein, _ = read(write("a.pdb", text))
    np.testing.assert_array_equal(protein.structure.atom_mask[:, CA], [False, True, True, False, True, True, False])


def test_atoms_that_contradict_seqres_are_refused(write, pdb_residue):
    text = seqres("MET LYS TRP ASP") + "".join(pdb_residue(name, n) for n, name in enumerate(["GLY", "SER", "PRO"], 1))
    with pytest.raises(DataError, match=r"a.pdb chain 'A': .*agree with SEQRES; correct SEQRES"):
        collect(write("a.pdb", text))


@pytest.mark.parametrize("record", ["ATOM", "HETATM"])
@pytest.mark.parametrize("place", [1, 2, 3])
def test_selenomethionine_counts_wherever_it_stands(write, pdb_residue, record, place):
    names = ["ALA", "ALA", "ALA"]
    names[place - 1] = "MSE"
    text = "".join(
        pdb_residue(name, n, record=record if name == "MSE" else "ATOM", atoms=("N", "CA", "C", "O", "CB", "SE"))
        for n, name in enumerate(names, 1)
    )
    protein, _ = read(write("a.pdb", text))
    assert protein.sequence == "".join("M" if name == "MSE" else "A" for name in names)
    assert protein.structure.atom_mask[place - 1, ATOM_INDEX["SD"]]


def test_the_nitrogen_of_arginine_nearer_to_cd_is_nh1_whatever_the_file_calls_it(write, pdb_residue):
    def distances(name: str, *, component: str = "ARG", atoms=("N", "CA", "C", "CD", "NH1", "NH2"), mixed_up=True):
        text = pdb_residue(component, 1, atoms=atoms)
        if not mixed_up:
            text = text.replace("NH1", "NHx").replace("NH2", "NH1").replace("NHx", "NH2")
        structure = read(write(f"{name}/a.pdb", text))[0].structure
        near, far = (ATOM_INDEX[name] for name in ("NH1", "NH2"))
        away = structure.atom_positions[0, [near, far]] - structure.atom_positions[0, ATOM_INDEX["CD"]]
        return np.where(structure.atom_mask[0, [near, far]], np.linalg.norm(away, axis=-1), np.nan)

    # File coordinates have 3 decimals.
    np.testing.assert_allclose(distances("mixed"), [2.5, 3.0], atol=1e-3)
    np.testing.assert_allclose(distances("right", mixed_up=False), [2.5, 3.0], atol=1e-3)
    np.testing.assert_allclose(distances("other", component="LYS"), [3.0, 2.5], atol=1e-3)
    one = ("N", "CA", "C", "CD", "NH1")
    np.testing.assert_allclose(distances("one", atoms=one), [3.0, np.nan], atol=1e-3)


def test_ligands_and_waters_are_no_residues(write, pdb_residue):
    free_acid = pdb_residue("GLU", 301, record="HETATM", at=40)
    water = pdb_residue("HOH", 401, record="HETATM", atoms=("O",))
    protein, _ = read(write("a.pdb", pdb_residue("ALA", 1) + pdb_residue("GLY", 2) + "TER\n" + free_acid + water))
    assert protein.sequence == "AG"


def test_missing_atoms_are_masked(write, pdb_residue):
    protein, _ = read(write("a.pdb", pdb_residue("ALA", 1, atoms=("N", "CA")) + pdb_residue("SER", 2)))
    np.testing.assert_array_equal(protein.structure.atom_mask[:, CB], [False, True])
    np.testing.assert_array_equal(protein.structure.atom_positions[0, CB], 0)


def test_alternate_locations_come_from_the_most_occupied_conformer(write, pdb_residue):
    text = (
        pdb_residue("ALA", 1)
        + pdb_residue("SER", 2, altloc="A", occupancy=0.3)
        + pdb_residue("SER", 2, altloc="B", occupancy=0.7, shift=0.5)
    )
    structure = read(write("a.pdb", text))[0].structure
    between = np.linalg.norm(structure.atom_positions[1, CA] - structure.atom_positions[0, CA])
    assert between == pytest.approx(3.5, abs=1e-4)


def test_only_the_first_model_is_read(write, pdb_residue):
    text = f"MODEL        1\n{pdb_residue('ALA', 1)}ENDMDL\nMODEL        2\n{pdb_residue('GLY', 1)}ENDMDL\n"
    protein, warnings = read(write("nmr.pdb.gz", text))
    assert protein.sequence == "A"
    assert warnings == {ATOMS_ONLY: 1, SEVERAL: 1}


def test_a_chain_of_one_residue_is_accepted(write, pdb_residue):
    protein, _ = read(write("a.pdb", pdb_residue("TRP", 5)))
    assert protein.sequence == "W"
    np.testing.assert_array_equal(protein.structure.residue_index, [0])


@pytest.mark.parametrize(("remark", "angstrom"), [("    2.10 ANGSTROMS.", 2.1), (" NOT APPLICABLE.", None)])
def test_resolution_is_that_of_remark_2(write, pdb_residue, remark, angstrom):
    protein, _ = read(write("a.pdb", f"REMARK   2 RESOLUTION.{remark}\n{pdb_residue('ALA', 1)}"))
    assert protein.structure.resolution == angstrom


def test_fields_that_many_programs_leave_out_are_not_needed(write, pdb_residue):
    short = "".join(f"{line[:54]}\r\n" for line in pdb_residue("ALA", 1).splitlines())
    assert read(write("a.pdb", short))[0].sequence == "A"


def test_chains_of_one_file_are_proteins_of_their_own(write, pdb_residue):
    found = collect(write("x.pdb", pdb_residue("ALA", 1) + pdb_residue("GLY", 1, chain="B")))
    assert [(p.name, p.sequence) for p in found.proteins] == [("x_A", "A"), ("x_B", "G")]


@pytest.mark.parametrize(
    ("at", "with_", "reason"),
    [
        (slice(30, 38), "  x1.000", "a.pdb line 8, residue GLY 2: a number cannot be read"),
        (slice(38, 46), "     nan", "a.pdb line 8, residue GLY 2: a number cannot be read"),
        (slice(22, 26), "  2x", "a.pdb line 8, residue GLY 2x: a number cannot be read"),
        (slice(30, 80), "", "a.pdb line 8, residue GLY 2: a number cannot be read"),
    ],
)
def test_a_broken_atom_is_refused_with_its_line(write, pdb_residue, at, with_, reason):
    lines = f"HEADER\n{pdb_residue('ALA', 1)}{pdb_residue('GLY', 2)}".splitlines()
    lines[7] = lines[7][: at.start] + with_ + lines[7][at.stop :]
    with pytest.raises(DataError, match=reason):
        collect(write("a.pdb", "\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a.pdb: the file is empty"),
        ("HEADER x\nEND\n", "a.pdb: holds no ATOM record"),
        ("\x00\x01", "binary content"),
    ],
)
def test_what_is_no_pdb_file_is_refused(write, text, reason):
    with pytest.raises(DataError, match=reason):
        collect(write("a.pdb", text))


def test_a_file_without_protein_is_refused(write, pdb_residue):
    with pytest.raises(DataError, match=r"a.pdb: holds no protein chain"):
        collect(write("a.pdb", pdb_residue("HOH", 1, record="HETATM", atoms=("O",))))
