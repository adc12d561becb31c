"""One reading names everything that is wrong."""

from elbowroom.datasets.proteins.check import check


def test_a_clean_folder_is_counted(write, pdb_residue):
    write("x.pdb", pdb_residue("ALA", 1) + pdb_residue("GLY", 2))
    write("x.a3m", ">q\nAG\n>r\nA-\n")
    report = check(write("y.fasta", ">y\nACD\n").parent)
    assert (report.proteins, report.residues, report.resolved_residues) == (2, 5, 2)
    assert (report.alignments, report.alignment_rows, report.structures) == (1, 2, 1)
    assert report.defects == ()


def test_every_defect_is_listed_with_its_place_and_the_rest_is_still_read(write, pdb_residue):
    write("a.fasta", ">one\nAC1\n>two\nACD\n>two\nACD\n>three\n\n")
    write("b.a3m", ">q\nACDE\n>r\nAC\n>s\nA?DE\n>t\nA-DE\n")
    write("c.sto", "not stockholm\n")
    write("d.cif", "data_x\n")
    write("e.pdb", pdb_residue("ALA", 1).replace("   3.000", "   x.000"))
    write("f.fasta.gz", b"not gzip")
    write("g.fasta", "")
    root = write("h.pdb", pdb_residue("ALA", 1)).parent
    report = check(root)
    told = [str(defect).removeprefix(f"{root}/") for defect in report.defects]
    expected = [
        "a.fasta line 2, column 3, row 'one': '1'",
        "a.fasta lines 3 and 5: two records are named 'two'",
        "a.fasta line 7, row 'three': has no letters",
        "b.a3m line 3, row 'r': 2 aligned letters, but the query has 4",
        "b.a3m line 6, column 2, row 's': '?'",
        "c.sto line 1: does not begin with",
        "d.cif: has no atom_site table",
        "e.pdb line 2, residue ALA 1: a number cannot be read",
        "f.fasta.gz: is not gzip data",
        "g.fasta: the file is empty",
    ]
    assert len(told) == len(expected)
    assert all(text.startswith(start) for text, start in zip(told, expected, strict=True)), told
    assert (report.proteins, report.alignment_rows) == (3, 2)


def test_warnings_are_counted_once_a_kind_with_their_first_place(write):
    root = write("a.fasta", ">one\nA C\n>two\nA C\n").parent
    write("b.fasta", ">three\nA C\n")
    (warned,) = check(root).warnings
    assert str(warned) == f"3 x blanks inside a sequence, left out (first: {root}/a.fasta line 2)"


def test_a_place_that_does_not_exist_is_a_defect(tmp_path):
    report = check(tmp_path / "nowhere", tmp_path / "nor here")
    assert [defect.reason for defect in report.defects] == ["does not exist", "does not exist"]
