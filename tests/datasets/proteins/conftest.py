"""Small protein files, written as text."""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.alphabet import GAP, indices
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.structure import Structure, Template

type Write = Callable[[str, str | bytes], Path]
BACKBONE = {"N": (-0.5, 1.4, 0.0), "CA": (0.0, 0.0, 0.0), "C": (1.5, 0.0, 0.0), "O": (2.2, 1.0, 0.0)}
SIDE = {"CB": (-0.6, -0.7, 1.2), "CD": (-1.0, -2.0, 2.0), "NH1": (-1.0, -5.0, 2.0), "NH2": (-1.0, -2.0, 4.5)}
"""NH1 is 3.0 from CD and NH2 2.5: by the rule of their names they are mixed up."""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of this name; text as it is, gzip where the name says so."""

    def file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") and isinstance(content, str) else raw)
        return path

    return file


def residue_atoms(number: int) -> dict[str, tuple[float, float, float]]:
    """A residue whose CA is at x = 3 * number, so that C and the next N are 1.0 apart in x."""
    return {name: (x + 3.0 * number, y, z) for name, (x, y, z) in {**BACKBONE, **SIDE}.items()}


@pytest.fixture
def pdb_residue() -> Callable[..., str]:
    """ATOM or HETATM records of one residue."""

    def records(
        component: str,
        number: int,
        *,
        chain: str = "A",
        insertion: str = " ",
        altloc: str = " ",
        occupancy: float = 1.0,
        record: str = "ATOM",
        atoms: Sequence[str] = ("N", "CA", "C", "O", "CB"),
        at: int | None = None,
        shift: float = 0.0,
    ) -> str:
        places = residue_atoms(number if at is None else at)
        lines = []
        for name in atoms:
            x, y, z = places.get(name, (0.0, 0.0, 0.0))
            shown = f"{name:<4}" if len(name) == 4 or name == "SE" else f" {name:<3}"
            lines.append(
                f"{record:<6}{1:>5} {shown}{altloc}{component:>3} {chain}{number:>4}{insertion}   "
                f"{x + shift:8.3f}{y:8.3f}{z:8.3f}{occupancy:6.2f}{10:6.2f}          {name[0]:>2}\n"
            )
        return "".join(lines)

    return records


CIF_COLUMNS = (
    *("group_PDB", "label_atom_id", "label_alt_id", "label_comp_id", "label_asym_id", "label_entity_id"),
    *("label_seq_id", "pdbx_PDB_ins_code", "Cartn_x", "Cartn_y", "Cartn_z", "occupancy", "auth_seq_id"),
    *("auth_asym_id", "pdbx_PDB_model_num"),
)


@pytest.fixture
def cif_residue() -> Callable[..., str]:
    """Rows of the atom_site table for one residue."""

    def rows(
        component: str,
        number: int,
        *,
        chain: str = "A",
        author: str = "A",
        author_number: int | None = None,
        insertion: str = "?",
        altloc: str = ".",
        occupancy: float = 1.0,
        group: str = "ATOM",
        model: int = 1,
        atoms: Sequence[str] = ("N", "CA", "C", "O", "CB"),
        shift: float = 0.0,
    ) -> str:
        lines = []
        for name in atoms:
            x, y, z = residue_atoms(number).get(name, (0.0, 0.0, 0.0))
            shown = number if author_number is None else author_number
            lines.append(
                f"{group} {name} {altloc} {component} {chain} 1 {number} {insertion} "
                f"{x + shift:.3f} {y:.3f} {z:.3f} {occupancy} {shown} {author} {model}\n"
            )
        return "".join(lines)

    return rows


@pytest.fixture
def cif() -> Callable[..., str]:
    """An mmCIF file of atom rows, with a sequence table unless `monomers` is None."""

    def text(
        atoms: str,
        monomers: Sequence[tuple[int, str]] | None,
        *,
        resolution: str | None = None,
        chains: Sequence[str] = ("A",),
    ) -> str:
        parts = ["data_test\n"]
        if resolution is not None:
            parts.append(f"_refine.ls_d_res_high {resolution}\n")
        if monomers is not None:
            parts.append("_entity_poly.entity_id 1\n_entity_poly.type 'polypeptide(L)'\n")
            parts.append("loop_\n_struct_asym.id\n_struct_asym.entity_id\n")
            parts.extend(f"{chain} 1\n" for chain in chains)
            parts.append("loop_\n_entity_poly_seq.entity_id\n_entity_poly_seq.num\n_entity_poly_seq.mon_id\n")
            parts.extend(f"1 {number} {monomer}\n" for number, monomer in monomers)
        parts.append("loop_\n" + "".join(f"_atom_site.{column}\n" for column in CIF_COLUMNS) + atoms)
        return "".join(parts)

    return text


@pytest.fixture
def family() -> Callable[..., Protein]:
    """A protein with a random alignment, and a structure that lacks some atoms."""

    def protein(name: str = "p", *, res: int = 20, seq: int = 12, seed: int = 0, structure: bool = True) -> Protein:
        random = np.random.default_rng(seed)
        sequence = "".join(random.choice(list("ACDEFGHIKLMNPQRSTVWYX"), res))
        msa = random.integers(0, 22, (seq, res)).astype(np.int8)
        msa[0] = indices(sequence)
        deletions = (random.integers(0, 9, (seq, res)) // 5).astype(np.int32)
        deletions[0] = 0
        mask = random.random((res, 37)) < 0.8
        assert 0 < mask.sum() < mask.size
        positions = np.where(mask[..., None], random.normal(0, 10, (res, 37, 3)), 0).astype(np.float32)
        solved = Structure(residue_index=np.arange(res, dtype=np.int32), atom_positions=positions, atom_mask=mask)
        return Protein(
            name=name,
            sequence=sequence,
            alignment=Alignment(msa=msa, deletions=deletions),
            structure=solved if structure else None,
        )

    return protein


@pytest.fixture
def template() -> Callable[..., Template]:
    """A template with gaps, which lacks some atoms."""

    def one(name: str = "t", *, res: int = 20, seed: int = 0) -> Template:
        random = np.random.default_rng(seed)
        aatype = random.integers(0, 21, res).astype(np.int32)
        aatype[random.random(res) < 0.3] = GAP
        mask = (random.random((res, 37)) < 0.8) & (aatype != GAP)[:, None]
        assert 0 < mask.sum() < (aatype != GAP).sum() * 37
        positions = np.where(mask[..., None], random.normal(0, 10, (res, 37, 3)), 0).astype(np.float32)
        return Template(name=name, aatype=aatype, atom_positions=positions, atom_mask=mask)

    return one
