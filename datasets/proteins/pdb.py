"""Protein chains from the PDB format."""

import io
import math
import warnings
from collections.abc import Sequence
from pathlib import Path

import biotite.structure.io.pdb as biotite_pdb
import numpy as np
from biotite import InvalidFileError

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.chain import LEAST_IDENTITY, Chain, chain_from_residues, moved_onto, place
from elbowroom.datasets.proteins.residues import AtomTable, Residue, chain_residues, component_letter, polymer


def read_pdb(lines: Sequence[str], path: Path, findings: Findings) -> list[Chain]:
    """Every protein chain of the first model. Its sequence is that of SEQRES; without it, that of the atoms."""
    table = _atom_table(lines, path, findings)
    if table is None:
        return []
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table.chain):
        rows.setdefault(name, []).append(row)
    listed, resolution = _listed_sequences(lines), _resolution(lines)
    chains = []
    for label, own in rows.items():
        residues = polymer(chain_residues(table, own))
        if not residues:
            continue
        chain = chain_from_residues(residues, label=label, author=label, path=path, resolution=resolution)
        if label in listed:
            placed = _on_listed(chain, listed[label], residues, path, findings)
            chains.extend([] if placed is None else [placed])
        else:
            findings.warn("sequence taken from the atoms, in which unresolved residues cannot be seen", path)
            chains.append(chain)
    if not any(polymer(chain_residues(table, own)) for own in rows.values()):
        findings.defect(path, "", "holds no protein chain", "choose an entry with a protein")
    return chains


def _on_listed(
    chain: Chain, sequence: str, residues: Sequence[Residue], path: Path, findings: Findings
) -> Chain | None:
    placement = place(sequence, chain.sequence, [residue.number for residue in residues])
    if placement.identity < LEAST_IDENTITY:
        where, reason = f"chain {chain.label!r}", f"{placement.identity:.0%} of its atoms' residues agree with SEQRES"
        return findings.defect(path, where, reason, "correct SEQRES, or remove it to use the atoms alone")
    structure = moved_onto(chain.structure, placement, sequence, chain.sequence)
    return Chain(label=chain.label, author=chain.author, sequence=sequence, structure=structure, path=path)


def _listed_sequences(lines: Sequence[str]) -> dict[str, str]:
    """SEQRES of each chain, selenocysteine (U) and pyrrolysine (O) kept."""
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith("SEQRES"):
            chain = line[11:12].strip()
            found[chain] = found.get(chain, "") + "".join(map(component_letter, line[19:70].split()))
    return found


def _resolution(lines: Sequence[str]) -> float | None:
    for line in lines:
        if line.startswith("REMARK   2 RESOLUTION."):
            try:
                angstrom = float(line[22:].split()[0])
            except (ValueError, IndexError):
                return None  # "NOT APPLICABLE", as for NMR
            return angstrom if angstrom > 0 else None
    return None


def _atom_table(lines: Sequence[str], path: Path, findings: Findings) -> AtomTable | None:
    records = _first_model(lines, path, findings)
    if not records:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            file = biotite_pdb.PDBFile.read(io.StringIO("\n".join(records)))
            atoms = file.get_structure(model=1, altloc="all", extra_fields=["occupancy"])
    except (InvalidFileError, ValueError, IndexError) as error:
        return findings.defect(path, "", f"is not readable as PDB ({error})", "check the columns of its ATOM records")
    chains = [str(name).strip() for name in atoms.chain_id]
    return AtomTable(
        chain=chains,
        author_chain=chains,
        number=[int(number) for number in atoms.res_id],
        insertion=[str(code).strip() for code in atoms.ins_code],
        component=[str(name) for name in atoms.res_name],
        atom=[str(name) for name in atoms.atom_name],
        alternate=[str(label).strip(" .?") for label in atoms.get_annotation("altloc_id")],
        occupancy=np.asarray(atoms.occupancy, np.float32),
        hetero=[bool(hetero) for hetero in atoms.hetero],
        position=np.asarray(atoms.coord, np.float32),
    )


def _first_model(lines: Sequence[str], path: Path, findings: Findings) -> list[str]:
    """Atom records up to the first ENDMDL, with the fields that many programs leave out."""
    records: list[str] = []
    ended = False
    for number, line in enumerate(lines, start=1):
        if line.startswith("ENDMDL"):
            ended = True
        elif line.startswith(("ATOM  ", "HETATM")):
            if ended:
                findings.warn("structure with several models, first one read", path, f"line {number}")
                break
            if not _numeric(line):
                where = f"line {number}, residue {line[17:20].strip()} {line[22:27].strip()}"
                findings.defect(path, where, "a number cannot be read", "check the columns of the ATOM record")
                return []
            occupancy = line[54:60].strip() or "1.00"
            records.append(f"{line[:54]}{occupancy:>6}  0.00{'':11}X  ")
    if not records:
        findings.defect(path, "", "holds no ATOM record", "check the kind of the file")
    return records


def _numeric(line: str) -> bool:
    try:
        int(line[22:26])
        return all(math.isfinite(float(line[at : at + 8])) for at in (30, 38, 46)) and (
            not line[54:60].strip() or math.isfinite(float(line[54:60]))
        )
    except ValueError:
        return False
