"""The embedded chains are whole, and are the chemistry they claim to be."""

import gzip

import biotite.structure.io.pdbx as pdbx
import numpy as np
import pytest

from elbowroom.datasets.demo.load import CHAINS, RAW_FILES, demo_proteins
from elbowroom.datasets.proteins.alphabet import GAP, indices
from elbowroom.datasets.proteins.atoms import ATOM_INDEX, CA, CB
from elbowroom.datasets.proteins.check import check
from elbowroom.datasets.proteins.collect import collect


@pytest.mark.parametrize(("split", "count"), [("train", 72), ("test", 24)])
def test_every_chain_has_its_alignment_and_structure(split, count):
    proteins = demo_proteins(split)
    assert len(proteins) == count
    for protein in proteins:
        assert 50 <= len(protein.sequence) <= 160
        assert 1 < protein.alignment.num_rows <= 48
        np.testing.assert_array_equal(protein.alignment.msa[0], indices(protein.sequence))
        assert protein.alignment.msa.max() <= GAP
        assert protein.structure.atom_mask[:, CA].all()
        glycine = np.array([letter == "G" for letter in protein.sequence])
        np.testing.assert_array_equal(protein.structure.atom_mask[:, CB], ~glycine)
        assert protein.structure.atom_mask[:, [ATOM_INDEX[name] for name in ("N", "CA", "C", "O")]].all()
        assert protein.structure.resolution is None  # the source does not say


def test_bonds_have_the_lengths_of_chemistry():
    for protein in demo_proteins("test"):
        positions = protein.structure.atom_positions
        n, ca, c = (positions[:, ATOM_INDEX[name]] for name in ("N", "CA", "C"))
        np.testing.assert_allclose(np.linalg.norm(ca - n, axis=1), 1.46, atol=0.1)
        np.testing.assert_allclose(np.linalg.norm(c - ca, axis=1), 1.52, atol=0.1)
        np.testing.assert_allclose(np.linalg.norm(n[1:] - c[:-1], axis=1), 1.33, atol=0.15)


def test_the_splits_share_no_chain():
    train, test = ({p.name for p in demo_proteins(split)} for split in ("train", "test"))
    assert len(train | test) == 96


def test_the_raw_files_are_free_of_defects_and_the_same_proteins():
    report = check(RAW_FILES)
    assert report.defects == ()
    assert (report.proteins, report.alignments, report.structures) == (5, 1, 1)
    packed = {protein.name: protein for protein in demo_proteins("test")}
    for protein in collect(RAW_FILES).proteins:
        if protein.name in packed:
            assert protein.sequence == packed[protein.name].sequence
        if protein.alignment is not None:
            rows = packed[protein.name].alignment.num_rows
            np.testing.assert_array_equal(protein.alignment.msa[:rows], packed[protein.name].alignment.msa)


def test_the_package_data_is_small():
    files = [CHAINS, *RAW_FILES.iterdir()]
    assert sum(path.stat().st_size for path in files) < 1_000_000


def test_the_embedded_entry_reads_as_another_reader_reads_it():
    (path,) = RAW_FILES.glob("*.cif.gz")
    with gzip.open(path, "rt") as file:
        entry = pdbx.CIFFile.read(file)
    atoms = pdbx.get_structure(entry, model=1, altloc="occupancy")
    alpha = atoms[(atoms.atom_name == "CA") & (atoms.res_id > 0)]
    (protein,) = collect(path).proteins
    (sequence,) = pdbx.get_sequence(entry).values()
    assert protein.sequence == str(sequence)
    assert protein.structure.resolution == 1.7
    resolved = protein.structure.atom_mask[:, CA]
    np.testing.assert_array_equal(np.flatnonzero(resolved) + 1, alpha.res_id)
    ours = protein.structure.atom_positions[resolved, CA]
    np.testing.assert_allclose(ours, alpha.coord - alpha.coord.mean(axis=0), atol=1e-4)  # float32 at 50 Angstrom
