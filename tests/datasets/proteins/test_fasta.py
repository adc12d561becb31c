"""Sequences: names, letters, line ends, and files that are no FASTA."""

import gzip
import re

import numpy as np
import pytest

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.proteins.alphabet import UNKNOWN, indices
from elbowroom.datasets.proteins.collect import collect
from elbowroom.datasets.proteins.protein import file_names


def kinds(collection) -> dict[str, int]:
    return {warned.kind: warned.count for warned in collection.warnings}


def test_wrapped_records_with_windows_line_ends_and_a_byte_order_mark_are_read(write):
    path = write("mine.fasta", b"\xef\xbb\xbf>one first\r\nACD\r\nEF\r\n\r\n>two\r\nGHI*\r\n")
    found = collect(path)
    assert [(p.name, p.sequence) for p in found.proteins] == [("one", "ACDEF"), ("two", "GHI")]
    assert found.warnings == ()


def test_old_macintosh_line_ends_are_read(write):
    assert collect(write("a.fa", b">one\rACD\rEF\r")).proteins[0].sequence == "ACDEF"


def test_a_gzip_file_is_read_whatever_its_name(write):
    plain = ">one\nACDEF\n"
    assert collect(write("a.fasta.gz", plain)).proteins[0].sequence == "ACDEF"
    assert collect(write("b.fasta", gzip.compress(plain.encode()))).proteins[0].sequence == "ACDEF"


def test_ambiguous_letters_stay_in_the_sequence_and_are_unknown_to_the_model(write):
    protein = collect(write("a.fasta", ">one\nABZJOUX\n")).proteins[0]
    assert protein.sequence == "ABZJOUX"
    np.testing.assert_array_equal(indices(protein.sequence), [0] + [UNKNOWN] * 6)


@pytest.mark.parametrize(("letter", "column"), [("1", 3), ("é", 3), ("?", 3), ("*", 3)])
def test_a_sign_that_is_no_residue_is_refused_with_line_and_column(write, letter, column):
    path = write("mine.fasta", f">one\nACD\n>two\nEF\nAC{letter}D\n")
    with pytest.raises(DataError, match=rf"mine.fasta line 5, column {column}, row 'two': {re.escape(repr(letter))}"):
        collect(path)


def test_a_gap_in_fasta_is_refused_and_a3m_is_named(write):
    with pytest.raises(DataError, match=r"line 2, column 2.*unaligned.*\.a3m"):
        collect(write("mine.fasta", ">one\nA-C\n"))


def test_blanks_and_lower_case_are_read_with_one_counted_warning_each(write):
    found = collect(write("a.fasta", ">one\nAC DE\n>two\nacd ef\n"))
    assert [p.sequence for p in found.proteins] == ["ACDE", "ACDEF"]
    assert kinds(found) == {"blanks inside a sequence, left out": 2, "lower-case sequence, read as capitals": 1}
    assert found.warnings[0].first.endswith("a.fasta line 2")


def test_two_records_of_one_name_are_refused_with_both_lines(write):
    with pytest.raises(DataError, match=r"mine.fasta lines 1 and 5: two records are named 'one'"):
        collect(write("mine.fasta", ">one\nAC\n>two\nAC\n>one again\nAC\n"))


def test_one_name_in_two_files_is_refused_with_both_places(write):
    write("a.fasta", ">one\nAC\n")
    path = write("b.fasta", ">two\nAC\n>one\nAC\n")
    with pytest.raises(DataError, match=r"b.fasta line 3: 'one' also stands in .*a.fasta line 1"):
        collect(path.parent)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "mine.fasta: the file is empty"),
        ("\n \n", "mine.fasta: the file is empty"),
        ("ACDEF\n", "mine.fasta line 1: no '>' before the first letters"),
        (">one\n>two\nAC\n", "mine.fasta line 1, row 'one': has no letters"),
        ("# a comment\n", "mine.fasta: holds no sequence"),
    ],
)
def test_a_file_without_sequences_is_refused(write, content, reason):
    with pytest.raises(DataError, match=reason):
        collect(write("mine.fasta", content))


def test_headers_with_signs_give_safe_and_distinct_file_names(write):
    text = ">sp|P1:A/B > x\nAC\n>sp_P1_A_B\nAC\n>SP|P1|A|B\nAC\n>con\nAC\n>..\nAC\n"
    names = [protein.name for protein in collect(write("a.fasta", text)).proteins]
    assert names == ["sp|P1:A/B", "sp_P1_A_B", "SP|P1|A|B", "con", ".."]
    safe = file_names(names)
    assert list(safe.values()) == ["sp_P1_A_B", "sp_P1_A_B_2", "SP_P1_A_B_3", "con_", "protein"]
    assert len({name.lower() for name in safe.values()}) == len(names)
    assert len(file_names(["x" * 500])["x" * 500]) <= 110


def test_a_header_without_a_name_is_named_after_its_file(write):
    found = collect(write("mine.fasta", ">\nAC\n> \nDE\n"))
    assert [p.name for p in found.proteins] == ["mine", "mine_2"]
    assert kinds(found) == {"header without a name, named after its file": 2}


def test_text_in_latin_1_is_read_with_a_warning(write):
    found = collect(write("a.fasta", ">one Prot\xe9ine\nACD\n".encode("latin-1")))
    assert found.proteins[0].sequence == "ACD"
    assert kinds(found) == {"text that is not UTF-8, read as Latin-1": 1}


def test_nul_bytes_are_left_out_with_a_warning(write):
    found = collect(write("a.fasta", b">one\nACD\n\0\0"))
    assert found.proteins[0].sequence == "ACD"
    assert kinds(found) == {"NUL byte, left out": 2}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(range(256)), "line 1: binary content"),
        (b">one\nAC\x02\n", "line 2: binary content"),
        (">one\nAC\n".encode("utf-16"), "the text is UTF-16"),
    ],
)
def test_binary_content_is_refused(write, content, reason):
    with pytest.raises(DataError, match=reason):
        collect(write("a.fasta", content))


def test_damaged_gzip_is_refused(write):
    packed = gzip.compress(b">one\nACDEFGHIKL\n" * 20)
    with pytest.raises(DataError, match=r"cut.fasta.gz: damaged gzip data"):
        collect(write("cut.fasta.gz", packed[:-12]))
    with pytest.raises(DataError, match=r"plain.fasta.gz: is not gzip data"):
        collect(write("plain.fasta.gz", b">one\nACD\n"))
    with pytest.raises(DataError, match=r"junk.fasta.gz: damaged gzip data"):
        collect(write("junk.fasta.gz", b"\x1f\x8b\x08\x00garbage garbage garbage"))


def test_a_missing_path_a_strange_file_and_an_empty_folder_are_refused(write, tmp_path):
    with pytest.raises(DataError, match=r"nowhere: does not exist; check the path"):
        collect(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"a.docx: is of no known kind \(\.fasta"):
        collect(write("a.docx", "x"))
    with pytest.raises(DataError, match="holds no file of a known kind"):
        collect(tmp_path)


def test_every_refusal_is_one_line(write):
    with pytest.raises(DataError, match="one line") as caught:
        raise DataError(write("a.fasta", "x"), "line 1", "not\none line", "a\n\nremedy")
    assert "\n" not in str(caught.value)
