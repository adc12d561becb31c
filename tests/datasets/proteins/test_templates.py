"""A template is another chain on the query's residues, with its own letters and atoms."""

from pathlib import Path

import numpy as np
import pytest
from biotite.sequence import ProteinSequence
from biotite.sequence.align import SubstitutionMatrix

from elbowroom.datasets.findings import DataError
from elbowroom.datasets.proteins.alphabet import AMINO_ACIDS, indices, letters
from elbowroom.datasets.proteins.atoms import ATOM_INDEX, CA
from elbowroom.datasets.proteins.chain import Chain, aligned_positions
from elbowroom.datasets.proteins.structure import Structure
from elbowroom.datasets.proteins.templates import template_from_chain

QUERY = "MKTAYIAKQRQISFVKSHFSRQWDEGHLNPC"
BLOSUM62 = SubstitutionMatrix.std_protein_matrix()


def chain(sequence: str, *, unresolved: tuple[int, ...] = ()) -> Chain:
    """All 37 atoms of residue r at x = 100 * r + 1 to 37."""
    positions = np.zeros((len(sequence), 37, 3), np.float32)
    positions[..., 0] = 100 * np.arange(len(sequence))[:, None] + np.arange(1, 38)
    mask = np.ones((len(sequence), 37), bool)
    mask[list(unresolved)] = False
    structure = Structure(
        residue_index=np.arange(len(sequence), dtype=np.int32),
        atom_positions=np.where(mask[..., None], positions, np.float32(0)),
        atom_mask=mask,
    )
    return Chain(label="B", author="B", sequence=sequence, structure=structure, path=Path("1abc.cif.gz"))


def test_a_template_has_its_own_letters_where_it_is_aligned_and_gaps_elsewhere():
    inserted, cut, changed = QUERY[:10] + "GGGGG" + QUERY[10:], QUERY[:12] + QUERY[16:], QUERY[:5] + "W" + QUERY[6:]
    assert letters(template_from_chain(QUERY, chain(inserted)).aatype) == QUERY
    assert letters(template_from_chain(QUERY, chain(cut)).aatype) == QUERY[:12] + "----" + QUERY[16:]
    assert letters(template_from_chain(QUERY, chain(changed)).aatype) == changed
    tail = template_from_chain(QUERY, chain(QUERY[20:] + "AAAA"))
    assert letters(tail.aatype) == "-" * 20 + QUERY[20:]
    assert tail.name == "1abc_B"


def test_atoms_go_with_their_residues_and_gaps_have_none():
    source = chain(QUERY[:12] + QUERY[16:], unresolved=(3,))
    template = template_from_chain(QUERY, source)
    residue = np.array([*range(12), -1, -1, -1, -1, *range(12, 27)])  # of the source, at each query position
    resolved = (residue >= 0) & (residue != 3)
    np.testing.assert_array_equal(template.atom_mask, np.repeat(resolved[:, None], 37, axis=1))
    np.testing.assert_array_equal(template.atom_positions[~resolved], 0)
    wanted = source.structure.atom_positions[residue[resolved]]
    wanted = wanted - wanted[:, CA].mean(axis=0)
    # Float32 steps at 3000 Angstrom are 0.0002.
    np.testing.assert_allclose(template.atom_positions[resolved], wanted, atol=1e-3)
    assert template.aatype[3] == indices(QUERY)[3]


def test_a_template_keeps_side_chains_that_the_query_lacks():
    template = template_from_chain(QUERY, chain(QUERY[:5] + "W" + QUERY[6:]))
    assert template.atom_mask[5, ATOM_INDEX["CH2"]]


@pytest.mark.parametrize("sequence", ["GG", "MKT"])
def test_a_chain_that_shares_too_little_is_refused(sequence):
    reason = r"1abc.cif.gz chain 'B': covers [0-3] of the query's 31 residues, under 10%; leave it out, or take"
    with pytest.raises(DataError, match=reason):
        template_from_chain(QUERY, chain(sequence))
    assert template_from_chain(QUERY, chain("MKTAY")).atom_mask[:5].all()


def test_a_chain_that_is_not_resolved_where_it_is_aligned_is_refused():
    with pytest.raises(DataError, match="covers 0 of the query's 31 residues"):
        template_from_chain(QUERY, chain(QUERY + "A", unresolved=tuple(range(31))))


def test_unknown_residues_of_either_side_are_x():
    template = template_from_chain("U" + QUERY[1:], chain(QUERY[:8] + "X" + QUERY[9:]))
    assert letters(template.aatype) == QUERY[:8] + "X" + QUERY[9:]


def test_a_query_of_one_residue_is_enough():
    assert letters(template_from_chain("W", chain("W")).aatype) == "W"


def test_alignments_are_the_best_ones():
    """Against the recurrences of Gotoh (1982) with free ends, without a gap directly after one of the other side."""
    random = np.random.default_rng(0)
    gaps = 0
    for _ in range(12):
        query = "".join(random.choice(list(AMINO_ACIDS), 40))
        kept = np.concatenate([np.arange(5, 18), np.arange(21, 36)])
        other = "".join(query[i] if random.random() < 0.6 else random.choice(list(AMINO_ACIDS)) for i in kept)
        position = aligned_positions(indices(query), indices(other))
        assert score(query, other, position) == best_score(query, other)
        placed = np.flatnonzero(position >= 0)
        gaps += (np.diff(position[placed]) > 1).any()
    assert gaps > 6


def scores(query: str, other: str) -> np.ndarray:
    codes = [ProteinSequence(text).code for text in (query, other)]
    return BLOSUM62.score_matrix()[np.ix_(*codes)].astype(np.int64)


def score(query: str, other: str, position: np.ndarray) -> int:
    placed = np.flatnonzero(position >= 0)
    total = int(scores(query, other)[position[placed], placed].sum())
    for skipped in (*(np.diff(position[placed]) - 1), *(np.diff(placed) - 1)):
        total -= 10 + int(skipped) if skipped else 0
    return total


def best_score(query: str, other: str) -> int:
    pair = scores(query, other)
    rows, columns = pair.shape
    never = -(10**6)
    matched = np.full((rows + 1, columns + 1), never)
    matched[0], matched[:, 0] = 0, 0
    in_query, in_other = np.full_like(matched, never), np.full_like(matched, never)
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            before = max(table[i - 1, j - 1] for table in (matched, in_query, in_other))
            matched[i, j] = pair[i - 1, j - 1] + before
            in_query[i, j] = max(matched[i - 1, j] - 11, in_query[i - 1, j] - 1)
            in_other[i, j] = max(matched[i, j - 1] - 11, in_other[i, j - 1] - 1)
    return max(int(matched[-1].max()), int(matched[:, -1].max()))
