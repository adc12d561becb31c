"""Protein chains from mmCIF."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from biotite import DeserializationError, InvalidFileError
from biotite.structure.io.pdbx import CIFBlock, CIFCategory, CIFFile

from elbowroom.datasets.findings import DataError, Findings
from elbowroom.datasets.proteins.chain import Chain, chain_from_residues
from elbowroom.datasets.proteins.residues import (
    AtomTable,
    Residue,
    chain_residues,
    component_letter,
    on_atom37,
    polymer,
)
from elbowroom.datasets.proteins.structure import Structure, centred

_VALUE = re.compile(r"""'.*?'(?=\s|$)|".*?"(?=\s|$)|\S+""")
_NOTHING = ("", ".", "?")
_REMEDY = "check that the file is complete mmCIF"


def read_mmcif(lines: Sequence[str], path: Path, findings: Findings) -> list[Chain]:
    """Every protein chain of the first model, named by label_asym_id.

    The sequence is that of entity_poly_seq, resolved or not; without it, that of the atoms.
    """
    try:
        file = CIFFile.read(io.StringIO("\n".join(lines)))
        block = next(file[name] for name in file if "atom_site" in file[name])
        table = _atom_table(block["atom_site"], path, findings)
        return [] if table is None else _chains(block, table, path, findings)
    except DataError:
        raise
    except StopIteration:
        findings.defect(path, "", "has no atom_site table", _REMEDY)
    except (DeserializationError, InvalidFileError, KeyError, ValueError, IndexError) as error:
        where, reason = _uneven_row(lines) or ("", f"is not readable as mmCIF ({error})")
        findings.defect(path, where, reason, _REMEDY)
    return []


def _uneven_row(lines: Sequence[str]) -> tuple[str, str] | None:
    """Line and complaint for the first atom whose row does not fill the table, which the library does not tell."""
    columns = sum(line.startswith("_atom_site.") for line in lines)
    last = max((number for number, line in enumerate(lines, 1) if line.startswith("_atom_site.")), default=len(lines))
    for number, line in enumerate(lines[last:], start=last + 1):
        if not line.strip() or line.startswith(("#", "_", "loop_", "data_")):
            return None
        values = len(_VALUE.findall(line))
        if values != columns:
            return f"line {number}", f"{values} values, but the atom_site table has {columns} columns"
    return None


def _atom_table(site: CIFCategory, path: Path, findings: Findings) -> AtomTable | None:
    rows = len(_text(site, "label_atom_id", "auth_atom_id"))
    models = _text(site, "pdbx_PDB_model_num", default=["1"] * rows)
    first = [row for row, model in enumerate(models) if model == models[0]]
    if len(first) < rows:
        findings.warn("structure with several models, first one read", path)

    def column(*names: str, default: str | None = None) -> list[str]:
        values = _text(site, *names, default=None if default is None else [default] * rows)
        return [values[row] for row in first]

    component, author_number = column("label_comp_id", "auth_comp_id"), column("auth_seq_id", "label_seq_id")
    numbers = column("label_seq_id", "auth_seq_id")
    if all(number in _NOTHING for number in numbers):
        numbers = author_number
    coordinates = np.empty((len(first), 3), np.float32)
    for axis, name in enumerate(("Cartn_x", "Cartn_y", "Cartn_z")):
        for row, text in enumerate(column(name)):
            try:
                coordinates[row, axis] = float(text)
            except ValueError:
                coordinates[row, axis] = np.nan
    broken = np.flatnonzero(~np.isfinite(coordinates).all(axis=1))
    if len(broken):
        row = broken[0]
        where = f"atom {row + 1}, residue {component[row]} {author_number[row]}"
        return findings.defect(path, where, "a coordinate is not a finite number", "correct or remove the atom")
    chains = column("label_asym_id", "auth_asym_id")
    return AtomTable(
        chain=chains,
        author_chain=column("auth_asym_id", "label_asym_id"),
        number=[-1 if number in _NOTHING else int(number) for number in numbers],
        insertion=[_or_empty(code) for code in column("pdbx_PDB_ins_code", default="?")],
        component=component,
        atom=column("label_atom_id", "auth_atom_id"),
        alternate=[_or_empty(label) for label in column("label_alt_id", default=".")],
        occupancy=np.array([1.0 if o in _NOTHING else float(o) for o in column("occupancy", default="1")], np.float32),
        hetero=[group == "HETATM" for group in column("group_PDB", default="ATOM")],
        position=coordinates,
    )


def _chains(block: CIFBlock, table: AtomTable, path: Path, findings: Findings) -> list[Chain]:
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table.chain):
        rows.setdefault(name, []).append(row)
    monomers, resolution = _monomers(block), _resolution(block)
    chains = []
    for label in {**rows, **dict.fromkeys(monomers)}:
        own = rows.get(label, [])
        author = table.author_chain[own[0]] if own else label
        names = {"label": label, "author": author, "path": path, "resolution": resolution}
        if label in monomers:
            numbered = [row for row in own if table.number[row] > 0]
            chains.append(_on_monomers(monomers[label], chain_residues(table, numbered), names))
        elif residues := _unlisted(block, chain_residues(table, own)):
            findings.warn("sequence taken from the atoms, in which unresolved residues cannot be seen", path)
            chains.append(chain_from_residues(residues, **names))
    if not chains:
        findings.defect(path, "", "holds no protein chain", "choose an entry with a protein")
    return chains


def _unlisted(block: CIFBlock, residues: Sequence[Residue]) -> list[Residue]:
    """Residues of a chain that no sequence table describes; where one exists, it lists every protein."""
    return [] if "entity_poly_seq" in block else polymer(residues)


def _on_monomers(monomers: Sequence[Sequence[str]], residues: Sequence[Residue], names: dict[str, Any]) -> Chain:
    """The chain on all its positions. Where the sequence allows several monomers the resolved one counts."""
    chosen = [alternatives[0] for alternatives in monomers]
    positions, mask = np.zeros((len(chosen), 37, 3), np.float32), np.zeros((len(chosen), 37), bool)
    seen, seen_mask = on_atom37(residues)
    for i, residue in enumerate(residues):
        if residue.number <= len(chosen):
            chosen[residue.number - 1] = residue.component
            positions[residue.number - 1], mask[residue.number - 1] = seen[i], seen_mask[i]
    structure = Structure(
        residue_index=np.arange(len(chosen), dtype=np.int32),
        atom_positions=centred(positions, mask),
        atom_mask=mask,
        resolution=names["resolution"],
    )
    sequence = "".join(map(component_letter, chosen))
    return Chain(
        label=names["label"], author=names["author"], path=names["path"], sequence=sequence, structure=structure
    )


def _monomers(block: CIFBlock) -> dict[str, list[list[str]]]:
    """For each protein chain, the monomers that each position of its sequence may have."""
    if "entity_poly_seq" not in block:
        return {}
    table = block["entity_poly_seq"]
    of_entity: dict[str, dict[int, list[str]]] = {}
    for entity, number, monomer in zip(
        _text(table, "entity_id"), _text(table, "num"), _text(table, "mon_id"), strict=True
    ):
        of_entity.setdefault(entity, {}).setdefault(int(number), []).append(monomer)
    proteins = _protein_entities(block, of_entity)
    return {
        chain: [of_entity[entity][number] for number in sorted(of_entity[entity])]
        for chain, entity in _entities(block).items()
        if entity in of_entity and entity in proteins
    }


def _protein_entities(block: CIFBlock, monomers: dict[str, dict[int, list[str]]]) -> set[str]:
    if "entity_poly" in block and "type" in block["entity_poly"]:
        table = block["entity_poly"]
        return {e for e, kind in zip(_text(table, "entity_id"), _text(table, "type"), strict=True) if "peptide" in kind}
    alone = {
        e: [Residue(number=1, insertion="", component=n[0], hetero=False, atoms={}) for n in m.values()]
        for e, m in monomers.items()
    }
    return {entity for entity, residues in alone.items() if polymer(residues)}


def _entities(block: CIFBlock) -> dict[str, str]:
    """Entity of each chain."""
    if "struct_asym" in block:
        table = block["struct_asym"]
        return dict(zip(_text(table, "id"), _text(table, "entity_id"), strict=True))
    site = block["atom_site"]
    return dict(zip(_text(site, "label_asym_id"), _text(site, "label_entity_id"), strict=True))


def _resolution(block: CIFBlock) -> float | None:
    """Angstrom, from X-ray refinement, the electron microscopy map or the diffraction data; None where none says."""
    for category, name in (
        ("refine", "ls_d_res_high"),
        ("em_3d_reconstruction", "resolution"),
        ("reflns", "d_resolution_high"),
    ):
        for text in _text(block[category], name, default=[]) if category in block else []:
            if text not in _NOTHING and float(text) > 0:
                return float(text)
    return None


def _text(table: CIFCategory, *names: str, default: list[str] | None = None) -> list[str]:
    for name in names:
        if name in table:
            return [str(value) for value in table[name].as_array(str)]
    if default is None:
        raise KeyError(f"column {names[0]}")
    return default


def _or_empty(text: str) -> str:
    return "" if text in _NOTHING else text
