"""A3M and Stockholm: what is a column, what a deletion, and what is refused."""

import numpy as np
import pytest

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.proteins.alphabet import GAP, UNKNOWN, letters
from elbowroom.datasets.proteins.collect import collect
from elbowroom.datasets.proteins.features import FeatureSizes, evaluation_features


def only(path):
    found = collect(path)
    (protein,) = found.proteins
    return protein, {warned.kind: warned.count for warned in found.warnings}


def rows(protein) -> list[str]:
    return [letters(row) for row in protein.alignment.msa]


def test_lower_case_letters_are_deletions_before_the_next_column(write):
    protein, warnings = only(write("mine.a3m", ">q\nACDE\n>r\n-gCxyDE\n>s\nacA-cD-\n"))
    assert (protein.name, protein.sequence) == ("mine", "ACDE")
    assert rows(protein) == ["ACDE", "-CDE", "A-D-"]
    np.testing.assert_array_equal(protein.alignment.deletions, [[0, 0, 0, 0], [0, 1, 2, 0], [2, 0, 1, 0]])
    np.testing.assert_array_equal(protein.alignment.msa[0], [0, 4, 3, 6])
    assert warnings == {}


@pytest.mark.parametrize("first", ["#4\t1", "#A3M#"])
def test_a_first_line_of_tools_is_a_comment(write, first):
    protein, warnings = only(write("mine.a3m", f"{first}\n>q\nACDE\n>r\nA-DE\n"))
    assert rows(protein) == ["ACDE", "A-DE"]
    assert warnings == {}


def test_byte_order_mark_windows_line_ends_and_a_nul_at_the_end(write):
    protein, warnings = only(write("mine.a3m", b"\xef\xbb\xbf>q\r\nAC\r\nDE\r\n>r\r\nA-DE\r\n\0"))
    assert rows(protein) == ["ACDE", "A-DE"]
    assert warnings == {"NUL byte, left out": 1}


def test_a_lower_case_query_is_read_as_capitals(write):
    protein, warnings = only(write("mine.a3m", ">q\nacDE\n>r\nA-DE\n"))
    assert (protein.sequence, rows(protein)) == ("ACDE", ["ACDE", "A-DE"])
    assert warnings == {"lower-case letters in a query, read as capitals": 1}


def test_insertions_after_the_last_column_are_counted(write):
    protein, warnings = only(write("mine.a3m", ">q\nACD\n>r\nA-Defg\n"))
    np.testing.assert_array_equal(protein.alignment.deletions, np.zeros((2, 3)))
    assert warnings == {"letter inserted after the query's last residue, left out": 3}


def test_points_mean_nothing_stars_end_a_row_and_blanks_are_left_out(write):
    protein, warnings = only(write("mine.a3m", ">q\nA.CD*\n>r\nA -D\n"))
    assert rows(protein) == ["ACD", "A-D"]
    assert warnings == {"blanks inside a sequence, left out": 1}


def test_ambiguous_letters_are_unknown_in_rows_as_in_the_query(write):
    protein, _ = only(write("mine.a3m", ">q\nABZU\n>r\nJOXA\n"))
    assert protein.sequence == "ABZU"
    np.testing.assert_array_equal(protein.alignment.msa, [[0, UNKNOWN, UNKNOWN, UNKNOWN], [UNKNOWN] * 3 + [0]])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (">q\nACDE\n>r\nAC-E\n>s\nACD\n", "mine.a3m line 5, row 's': 3 aligned letters, but the query has 4"),
        (">q\nACDE\n>r\n>s\nACDE\n", "mine.a3m line 3, row 'r': has no letters"),
        ("ACDE\nACDE\n", "mine.a3m line 1: no '>' before the first letters"),
        ("", "mine.a3m: the file is empty"),
        (">q\nACDE\n>r\nAC4E\n", "mine.a3m line 4, column 3, row 'r': '4' is not a residue letter"),
        (">q\n----\n>r\nACDE\n", "mine.a3m row 1: the query is all gaps"),
    ],
)
def test_broken_a3m_is_refused_with_row_and_line(write, text, reason):
    with pytest.raises(DataError, match=reason):
        collect(write("mine.a3m", text))


def test_a_query_with_gaps_turns_its_columns_into_insertions(write):
    protein, warnings = only(write("mine.a3m", ">q\nA--CD\n>r\nAefGHCD\n>s\nA-G-Dx\n"))
    assert (protein.sequence, rows(protein)) == ("ACD", ["ACD", "A-D"])
    # Row r equals the query in the columns; s has one letter in the removed columns and one at the end.
    np.testing.assert_array_equal(protein.alignment.deletions, [[0, 0, 0], [0, 1, 0]])
    assert warnings == {
        "query with gaps, whose columns became insertions": 1,
        "letter inserted after the query's last residue, left out": 1,
        "alignment row equal to an earlier one, left out": 1,
    }


@pytest.mark.parametrize("sequence", ["M", "MKTAYIAKQ"])
def test_one_residue_nine_residues_and_one_row_are_accepted_up_to_the_features(write, sequence):
    protein, _ = only(write("mine.a3m", f">q\n{sequence}\n"))
    assert protein.alignment.msa.shape == (1, len(sequence))
    features = evaluation_features(protein, FeatureSizes(res=12, seq=3, extra_seq=2))
    assert features["msa_mask"].sum() == features["seq_mask"].sum() == len(sequence)
    assert all(np.isfinite(array).all() for array in features.values())


def test_stockholm_columns_are_those_of_its_first_row(write):
    text = "# STOCKHOLM 1.0\n#=GF ID x\n\nq/1-4   AC..D\nr       A.ghD\n#=GC SS  HHHHH\n\nq/1-4   -E\nr       KE\n//\n"
    protein, warnings = only(write("mine.sto.gz", text))
    assert protein.name == "mine"
    assert (protein.sequence, rows(protein)) == ("ACDE", ["ACDE", "A-DE"])
    np.testing.assert_array_equal(protein.alignment.deletions, [[0, 0, 0, 0], [0, 0, 2, 1]])
    assert warnings == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (">q\nACD\n", "mine.sto line 1: does not begin with '# STOCKHOLM"),
        ("# STOCKHOLM 1.0\nq ACD\nr AC\n//\n", "mine.sto line 3, row 'r': 2 columns in all, but the query has 3"),
        ("# STOCKHOLM 1.0\nq ACD\nr A1D\n//\n", "mine.sto line 3, row 'r': '1' is not a residue letter"),
        ("# STOCKHOLM 1.0\nq ACD\nr\n//\n", "mine.sto line 3, row 'r': has no letters"),
        ("# STOCKHOLM 1.0\n//\n", "mine.sto: holds no sequence"),
        ("# STOCKHOLM 1.0\nq ACD\n//\n# STOCKHOLM 1.0\nq AC\n//\n", "mine.sto line 4: a second alignment begins"),
        ("", "mine.sto: the file is empty"),
    ],
)
def test_broken_stockholm_is_refused_with_row_and_line(write, text, reason):
    with pytest.raises(DataError, match=reason):
        collect(write("mine.sto", text))


def test_gaps_have_their_own_index(write):
    protein, _ = only(write("mine.a3m", ">q\nAC\n>r\n-C\n"))
    assert protein.alignment.msa[1, 0] == GAP
