"""mmCIF: the sequence of the entry, the first model, one conformer, and what is refused."""

import gzip

import numpy as np
import pytest

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.atoms import ATOM_INDEX, CA
from elbowroom.datasets.proteins.collect import collect
from elbowroom.datasets.proteins.pairing import NO_RESOLUTION
from elbowroom.datasets.proteins.structure import pseudo_beta

AGS = [(1, "ALA"), (2, "GLY"), (3, "SER")]


def read(path):
    found = collect(path)
    (protein,) = found.proteins
    return protein, {warned.kind: warned.count for warned in found.warnings if warned.kind != NO_RESOLUTION}


def distance(protein, one, other) -> float:
    return float(np.linalg.norm(protein.structure.atom_positions[one] - protein.structure.atom_positions[other]))


def test_unresolved_residues_are_in_the_sequence_and_masked(write, cif, cif_residue):
    monomers = [(1, "MET"), (2, "ALA"), (3, "GLY"), (4, "SER"), (5, "LYS")]
    atoms = cif_residue("ALA", 2, author_number=-1) + cif_residue("SER", 4, author_number=7, insertion="B")
    protein, warnings = read(write("1abc.cif", cif(atoms, monomers, resolution="1.85")))
    assert (protein.name, protein.sequence) == ("1abc", "MAGSK")
    np.testing.assert_array_equal(protein.structure.residue_index, [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(protein.structure.atom_mask[:, CA], [False, True, False, True, False])
    assert protein.structure.resolution == 1.85
    assert distance(protein, (1, CA), (3, CA)) == pytest.approx(6.0, abs=1e-4)  # file coordinates have 3 decimals
    assert warnings == {}


@pytest.mark.parametrize("group", ["ATOM", "HETATM"])
def test_selenomethionine_is_methionine_and_its_selenium_the_sulphur(write, cif, cif_residue, group):
    names = ("N", "CA", "C", "O", "CB", "SE")
    text = cif(cif_residue("MSE", 1, group=group, atoms=names) + cif_residue("ALA", 2), [(1, "MSE"), (2, "ALA")])
    protein, _ = read(write("a.cif", text))
    assert protein.sequence == "MA"
    assert protein.structure.atom_mask[0, ATOM_INDEX["SD"]]


def test_the_nitrogen_of_arginine_nearer_to_cd_is_nh1(write, cif, cif_residue):
    atoms = cif_residue("ARG", 1, atoms=("N", "CA", "C", "O", "CB", "CD", "NH1", "NH2"))
    structure = read(write("a.cif", cif(atoms, [(1, "ARG")])))[0].structure
    cd, first, second = (structure.atom_positions[0, ATOM_INDEX[name]] for name in ("CD", "NH1", "NH2"))
    assert np.linalg.norm(first - cd) == pytest.approx(2.5, abs=1e-4)
    assert np.linalg.norm(second - cd) == pytest.approx(3.0, abs=1e-4)


@pytest.mark.parametrize("item", ["em_3d_reconstruction.resolution", "reflns.d_resolution_high"])
def test_without_refinement_the_map_or_the_data_give_the_resolution(write, cif, cif_residue, item):
    text = cif(cif_residue("ALA", 1), [(1, "ALA")], resolution="?")
    text = text.replace("data_test\n", f"data_test\n_{item} 3.2\n")
    assert read(write("a.cif", text))[0].structure.resolution == 3.2


def test_at_microheterogeneity_the_most_occupied_monomer_stays(write, cif, cif_residue):
    monomers = [(1, "ALA"), (2, "SER"), (2, "THR"), (3, "GLY")]
    atoms = (
        cif_residue("ALA", 1)
        + cif_residue("SER", 2, altloc="A", occupancy=0.4)
        + cif_residue("THR", 2, altloc="B", occupancy=0.6)
        + cif_residue("GLY", 3)
    )
    assert read(write("a.cif", cif(atoms, monomers)))[0].sequence == "ATG"
    even = atoms.replace(" 0.6 ", " 0.4 ")
    assert even != atoms
    assert read(write("b/b.cif", cif(even, monomers)))[0].sequence == "ASG"
    assert read(write("c/c.cif", cif(cif_residue("ALA", 1), monomers)))[0].sequence == "ASG"


def test_alternate_locations_come_from_one_conformer(write, cif, cif_residue):
    def residue(first: float, second: float) -> str:
        return (
            cif_residue("SER", 2, atoms=("N", "C"))
            + cif_residue("SER", 2, altloc="B", occupancy=second, atoms=("CA", "O", "CB"), shift=0.5)
            + cif_residue("SER", 2, altloc="A", occupancy=first, atoms=("CA", "CB"))
        )

    first = cif_residue("ALA", 1)
    more, _ = read(write("a.cif", cif(first + residue(0.3, 0.7), [(1, "ALA"), (2, "SER")])))
    assert more.structure.atom_mask[1, ATOM_INDEX["O"]]
    assert distance(more, (0, CA), (1, CA)) == pytest.approx(3.5, abs=1e-4)
    even, _ = read(write("b/b.cif", cif(first + residue(0.5, 0.5), [(1, "ALA"), (2, "SER")])))
    assert not even.structure.atom_mask[1, ATOM_INDEX["O"]]
    assert distance(even, (0, CA), (1, CA)) == pytest.approx(3.0, abs=1e-4)


def test_of_several_models_the_first_is_read_and_no_resolution_is_unknown(write, cif, cif_residue):
    atoms = cif_residue("ALA", 1, model=3) + cif_residue("GLY", 1, model=4, shift=9.0)
    protein, warnings = read(write("nmr.cif", cif(atoms, [(1, "ALA")], resolution="?")))
    assert protein.sequence == "A"
    assert protein.structure.resolution is None
    assert warnings == {"structure with several models, first one read": 1}


def test_a_resolution_of_zero_is_unknown(write, cif, cif_residue):
    assert (
        read(write("a.cif", cif(cif_residue("ALA", 1), [(1, "ALA")], resolution="0.0")))[0].structure.resolution is None
    )


def test_without_a_sequence_table_the_atoms_give_sequence_and_gaps(write, cif, cif_residue):
    atoms = cif_residue("ALA", 5) + cif_residue("GLY", 9) + cif_residue("HOH", 30, group="HETATM", atoms=("O",))
    protein, warnings = read(write("a.cif", cif(atoms, None)))
    assert protein.sequence == "AG"
    np.testing.assert_array_equal(protein.structure.residue_index, [0, 4])
    assert warnings == {"sequence taken from the atoms, in which unresolved residues cannot be seen": 1}


def test_a_chain_without_any_atom_is_masked_and_has_no_nan(write, cif, cif_residue):
    found = collect(write("a.cif", cif(cif_residue("ALA", 1), AGS, chains=("A", "B"))))
    assert [protein.name for protein in found.proteins] == ["a_A", "a_B"]
    empty = found.proteins[1].structure
    assert not empty.atom_mask.any()
    positions, mask = pseudo_beta(indices("AGS").astype(np.int32), empty)
    assert mask.sum() == 0
    np.testing.assert_array_equal(positions, 0)


def test_a_chain_far_from_the_origin_is_centred_so_that_half_precision_holds_it(write, cif, cif_residue):
    def structure(name: str, shift: float):
        atoms = "".join(cif_residue(monomer, number, shift=shift) for number, monomer in AGS)
        return read(write(f"{name}/{name}.cif", cif(atoms, AGS)))[0].structure

    near, far = structure("near", 0.0), structure("far", 10_000.0)
    np.testing.assert_allclose(far.atom_positions[:, CA].mean(axis=0), 0, atol=1e-3)
    # Float32 steps at 10,000 are 0.001; float16 steps at the 8 Angstrom of this chain are 0.004.
    np.testing.assert_allclose(far.atom_positions, near.atom_positions, atol=2e-3)
    np.testing.assert_allclose(far.atom_positions.astype(np.float16), near.atom_positions, atol=6e-3)


def test_label_and_author_chains_both_find_their_sequence(write, cif, cif_residue):
    atoms = "".join(cif_residue(monomer, number, chain="A", author="E") for number, monomer in AGS)
    write("1abc.cif", cif(atoms, AGS))
    path = write("seq.fasta", ">1abc_A\nAGS\n")
    (protein,) = collect(path.parent).proteins
    assert protein.structure is not None
    write("seq.fasta", ">1abc_E\nAGS\n")
    found = collect(path.parent)
    assert [p.name for p in found.proteins] == ["1abc_E"]
    assert found.proteins[0].structure is not None
    assert "chain found by its author's name, not its label" in {warned.kind for warned in found.warnings}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a.cif: the file is empty"),
        ("hello\nworld\n", "a.cif: has no atom_site table"),
        ("data_x\n_entry.id x\n", "a.cif: has no atom_site table"),
        (
            "data_x\nloop_\n_atom_site.id\n_atom_site.x\n1 2 3\n",
            "a.cif line 5: 3 values, but the atom_site table has 2 columns",
        ),
        ("data_x\nloop_\n_atom_site.id\n_atom_site.x\n1 2\n", "a.cif: is not readable as mmCIF .*label_atom_id"),
    ],
)
def test_what_is_no_mmcif_is_refused(write, text, reason):
    with pytest.raises(DataError, match=reason):
        collect(write("a.cif", text))


def test_a_broken_coordinate_is_refused_with_its_residue(write, cif, cif_residue):
    text = cif(cif_residue("ALA", 1) + cif_residue("SER", 2, author_number=44), [(1, "ALA"), (2, "SER")])
    for bad in ("x.5", "nan"):
        with pytest.raises(DataError, match=r"a.cif atom 7, residue SER 44: a coordinate is not a finite number"):
            collect(write("a.cif", text.replace(" 6.000 0.000 0.000", f" {bad} 0.000 0.000")))


def test_a_file_without_protein_is_refused(write, cif, cif_residue):
    with pytest.raises(DataError, match=r"a.cif: holds no protein chain"):
        collect(write("a.cif", cif(cif_residue("DA", 1, atoms=("P",)), None)))


def test_a_truncated_gzip_file_is_refused(write, cif, cif_residue):
    packed = gzip.compress(cif(cif_residue("ALA", 1), AGS).encode())
    with pytest.raises(DataError, match=r"a.cif.gz: damaged gzip data"):
        collect(write("a.cif.gz", packed[:-20]))
