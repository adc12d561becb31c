"""Sequence, alignment and structure of one name become one protein."""

import numpy as np
import pytest

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.proteins.alphabet import AMINO_ACIDS
from elbowroom.datasets.proteins.atoms import ATOM_INDEX, CA, CB
from elbowroom.datasets.proteins.chain import place
from elbowroom.datasets.proteins.collect import collect
from elbowroom.datasets.proteins.pairing import NO_RESOLUTION

LONG = "MKTAYIAKQRQISFVKSHFSRQ"
THREE = {
    **{"A": "ALA", "C": "CYS", "D": "ASP", "E": "GLU", "F": "PHE", "G": "GLY", "H": "HIS", "I": "ILE", "K": "LYS"},
    **{"L": "LEU", "M": "MET", "N": "ASN", "P": "PRO", "Q": "GLN", "R": "ARG", "S": "SER", "T": "THR", "V": "VAL"},
    **{"W": "TRP", "Y": "TYR"},
}


@pytest.fixture
def pdb_chain(pdb_residue):
    def text(sequence: str, chain: str = "A", **options) -> str:
        return "".join(pdb_residue(THREE[letter], n, chain=chain, **options) for n, letter in enumerate(sequence, 1))

    return text


def kinds(found) -> dict[str, int]:
    return {warned.kind: warned.count for warned in found.warnings if warned.kind != NO_RESOLUTION}


def test_files_of_one_stem_are_one_protein_whatever_the_record_is_called(write, pdb_chain):
    write("mine.fasta", f">some protein\n{LONG}\n")
    write("mine.a3m.gz", f">q\n{LONG}\n>r\n{'-' * len(LONG)}\n")
    path = write("mine.pdb", pdb_chain(LONG))
    (protein,) = collect(path.parent).proteins
    assert (protein.name, protein.sequence, protein.alignment.num_rows) == ("some", LONG, 2)
    assert protein.structure.atom_mask[:, CA].all()


def test_records_of_one_fasta_find_files_of_their_own_names(write, pdb_chain):
    write("all.fasta", f">one\n{LONG}\n>two\nACDEF\n>three\nGHI\n")
    write("one.pdb", pdb_chain(LONG))
    path = write("two.sto", "# STOCKHOLM 1.0\nq ACDEF\nr AC-EF\n//\n")
    one, two, three = collect(path.parent).proteins
    assert one.structure is not None
    assert one.alignment is None
    assert two.alignment.num_rows == 2
    assert (three.structure, three.alignment) == (None, None)


def test_a_name_that_no_file_can_have_finds_its_safe_form(write):
    write("all.fasta", ">sp|P1|X\nACDEF\n>two\nGHI\n")
    path = write("sp_P1_X.a3m", ">q\nACDEF\n>r\nA-DEF\n")
    assert [(p.name, p.alignment is not None) for p in collect(path.parent).proteins] == [
        ("sp|P1|X", True),
        ("two", False),
    ]


def test_gaps_of_a_repeat_are_placed_by_number(write, pdb_residue):
    write("x.pdb", pdb_residue("ALA", 4) + pdb_residue("ALA", 6) + pdb_residue("GLY", 7))
    path = write("x.fasta", ">x\nMAAAG\n")
    (protein,) = collect(path.parent).proteins
    np.testing.assert_array_equal(protein.structure.atom_mask[:, CA], [False, True, False, True, True])


def test_structures_may_stand_elsewhere_and_the_unasked_are_left_out(write, pdb_chain):
    data = write("data/one.fasta", f">one\n{LONG}\n")
    write("solved/one.pdb", pdb_chain(LONG))
    solved = write("solved/other.pdb", pdb_chain("ACDEF")).parent
    found = collect(data, solved)
    assert [protein.name for protein in found.proteins] == ["one"]
    assert found.proteins[0].structure is not None


def test_a_name_with_a_chain_finds_that_chain_and_the_others_stay_proteins(write, pdb_chain):
    write("x.pdb", pdb_chain(LONG) + pdb_chain("ACDEF", "B"))
    path = write("x_B.a3m", ">q\nACDEF\n>r\nA--EF\n")
    found = {protein.name: protein for protein in collect(path.parent).proteins}
    assert set(found) == {"x_B", "x_A"}
    assert found["x_B"].structure is not None
    assert found["x_B"].alignment.num_rows == 2


def test_of_an_entry_with_several_chains_the_one_that_fits_is_taken(write, pdb_chain):
    write("x.pdb", pdb_chain("ACDEF") + pdb_chain(LONG, "B"))
    path = write("x.fasta", f">x\n{LONG}\n")
    found = collect(path.parent)
    assert found.proteins[0].structure.atom_mask[:, CA].sum() == len(LONG)
    assert kinds(found)["chain beside the one that fits a sequence, left out"] == 1


def test_a_structure_that_differs_is_aligned_and_its_differences_are_listed(write, pdb_chain):
    seen = LONG[2:10] + "W" + LONG[11:]  # two residues unresolved, residue 11 mutated
    write("x.pdb", pdb_chain(seen, atoms=("N", "CA", "C", "O", "CB", "CG", "CH2")))
    path = write("x.fasta", f">x\n{LONG}\n")
    found = collect(path.parent)
    structure = found.proteins[0].structure
    np.testing.assert_array_equal(np.flatnonzero(~structure.atom_mask[:, CA]), [0, 1])
    assert structure.atom_mask[10, CB]
    assert not structure.atom_mask[10, ATOM_INDEX["CH2"]]  # tryptophan's own atoms are not the sequence's
    assert structure.atom_mask[9, ATOM_INDEX["CH2"]]
    assert kinds(found)["residue that differs between sequence and structure"] == 1
    assert any(f"{LONG[10]}11W" in warned.first for warned in found.warnings)


def test_a_tag_of_the_structure_is_left_out_with_a_warning(write, pdb_chain):
    write("x.pdb", pdb_chain("HHHHHH" + LONG))
    path = write("x.fasta", f">x\n{LONG}\n")
    found = collect(path.parent)
    assert found.proteins[0].structure.atom_mask[:, CA].all()
    assert kinds(found)["residue of a structure that its sequence lacks, left out"] == 6


def test_under_ninety_percent_identity_is_refused(write, pdb_chain):
    changed = "WWW" + LONG[3:]  # 19 of 22
    write("x.pdb", pdb_chain(changed))
    path = write("x.fasta", f">x\n{LONG}\n")
    with pytest.raises(DataError, match=r"x.pdb chain 'A': 86% identical with the sequence 'x' .*x.fasta line 1"):
        collect(path.parent)


def test_unknown_residues_agree_with_any(write, pdb_chain):
    write("x.pdb", pdb_chain(LONG))
    path = write("x.fasta", f">x\n{'X' * 10}{LONG[10:]}\n")
    (protein,) = collect(path.parent).proteins
    assert protein.structure.atom_mask[:, CA].all()
    assert protein.sequence.startswith("XXXXXXXXXX")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (LONG[:-1], r"x.a3m row 1: the query has 21 residues, but .*x.fasta line 1 22"),
        ("W" + LONG[1:], r"x.a3m row 1: residue 1 of the query is W, but M in .*x.fasta line 1"),
    ],
)
def test_an_alignment_of_another_sequence_is_refused(write, query, reason):
    write("x.a3m", f">q\n{query}\n")
    path = write("x.fasta", f">x\n{LONG}\n")
    with pytest.raises(DataError, match=reason):
        collect(path.parent)


def test_two_alignments_or_two_structures_of_one_name_are_refused(write, pdb_chain):
    write("a/x.a3m", ">q\nACD\n")
    path = write("a/x.sto", "# STOCKHOLM 1.0\nq ACD\n//\n")
    with pytest.raises(DataError, match=r"x.sto: .*x.a3m has the same name: two alignments"):
        collect(path.parent)
    write("b/x.ent", pdb_chain("ACD"))
    path = write("b/x.pdb", pdb_chain("ACD"))
    with pytest.raises(DataError, match=r"x.pdb: .*x.ent has the same name: two structures"):
        collect(path.parent)


def test_files_of_other_kinds_are_counted(write):
    write("notes.txt", "x")
    write(".hidden", "x")
    path = write("one.fasta", ">one\nACD\n")
    assert kinds(collect(path.parent)) == {"file of no known kind, left out": 1}


def test_placement_by_number_and_by_alignment_agree_where_both_can_tell():
    random = np.random.default_rng(0)
    for _ in range(20):
        whole = "".join(random.choice(list(AMINO_ACIDS), 60))
        kept = np.sort(random.choice(60, 45, replace=False))
        seen = "".join(whole[i] for i in kept)
        numbered = place(whole, seen, [int(i) + 7 for i in kept])
        np.testing.assert_array_equal(numbered.position, kept)
        assert numbered.identity == 1.0


def test_structures_that_teach_no_confidence_are_counted(write, pdb_chain):
    write("one.pdb", pdb_chain(LONG))
    write("two.pdb", "REMARK   2 RESOLUTION.    1.80 ANGSTROMS.\n" + pdb_chain(LONG))
    path = write("three.fasta", f">three\n{LONG}\n")
    (found,) = (w for w in collect(path.parent).warnings if w.kind == NO_RESOLUTION)
    assert (found.count, found.first) == (1, str(path.parent / "one.pdb"))
