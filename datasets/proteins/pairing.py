"""Sequences, alignments and structures of one name become one protein."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elbowroom.datasets.findings import Findings, listed
from elbowroom.datasets.proteins.alignment import Alignment
from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.chain import LEAST_IDENTITY, Chain, Placement, moved_onto, place
from elbowroom.datasets.proteins.protein import Protein, file_names
from elbowroom.datasets.proteins.query import AlignedQuery
from elbowroom.datasets.proteins.sources import Contents
from elbowroom.datasets.proteins.structure import Structure

NO_RESOLUTION = "structure without resolution, from which no pLDDT is learned (PDB files state it in REMARK 2)"


@dataclass(frozen=True, kw_only=True)
class _Entry:
    name: str
    keys: tuple[str, ...]
    """Names under which its alignment and structure may stand."""
    sequence: str
    path: Path
    where: str


def paired(contents: Contents, library: Mapping[str, list[Chain]], findings: Findings) -> list[Protein]:
    """Every sequence, then every alignment without one, then every chain without either.

    A structure belongs to `name` if its file is called so, or if the name is the file's followed by `_` and a chain.
    `library` holds structures by file name that serve the others but are no proteins of their own.
    """
    entries = _entries(contents, findings)
    used: set[str] = set()
    found: dict[str, Protein] = {}
    for entry in entries:
        chain = _chain_of(entry, {**library, **contents.chains}, used, findings)
        _warn_of_resolution(chain, findings)
        found[entry.name] = Protein(
            name=entry.name,
            sequence=entry.sequence,
            alignment=_alignment_of(entry, contents.alignments, findings),
            structure=None if chain is None else _structure_of(entry, chain, findings),
        )
    for name, chain in _unused(contents.chains, used):
        if name in found:
            reason = f"its chain {chain.label!r} and another protein are both named {name!r}"
            findings.defect(chain.path, "", reason, "rename one of the files")
            continue
        _warn_of_resolution(chain, findings)
        found[name] = Protein(name=name, sequence=chain.sequence, structure=chain.structure)
    return list(found.values())


def _entries(contents: Contents, findings: Findings) -> list[_Entry]:
    entries: dict[str, _Entry] = {}
    for stem, records in contents.sequences.items():
        safe = file_names(record.name for record in records)
        for record in records:
            keys = (record.name, safe[record.name], *([stem] if len(records) == 1 else []))
            where = f"line {record.line}"
            entry = _Entry(name=record.name, keys=keys, sequence=record.sequence, path=record.path, where=where)
            if record.name in entries:
                other = entries[record.name]
                reason = f"{record.name!r} also stands in {other.path} {other.where}"
                findings.defect(record.path, where, reason, "give each record its own name")
                continue
            entries[record.name] = entry
    taken = {key for entry in entries.values() for key in entry.keys}
    for stem, query in contents.alignments.items():
        if stem not in taken:
            entries[stem] = _Entry(name=stem, keys=(stem,), sequence=query.sequence, path=query.path, where="row 1")
    return list(entries.values())


def _alignment_of(entry: _Entry, alignments: Mapping[str, AlignedQuery], findings: Findings) -> Alignment | None:
    query = next((alignments[key] for key in entry.keys if key in alignments), None)
    if query is None:
        return None
    if len(query.sequence) != len(entry.sequence):
        reason = f"the query has {len(query.sequence)} residues, but {entry.path} {entry.where} {len(entry.sequence)}"
        return findings.defect(query.path, "row 1", reason, "the first row must be the sequence itself")
    differing = np.flatnonzero(indices(query.sequence) != indices(entry.sequence))
    if len(differing):
        first = int(differing[0])
        ours, theirs = query.sequence[first], entry.sequence[first]
        reason = f"residue {first + 1} of the query is {ours}, but {theirs} in {entry.path} {entry.where}"
        return findings.defect(query.path, "row 1", reason, "the first row must be the sequence itself")
    return query.alignment


def _chain_of(entry: _Entry, chains: Mapping[str, list[Chain]], used: set[str], findings: Findings) -> Chain | None:
    for key in entry.keys:
        if chains.get(key):
            # Copies of one molecule differ in what is resolved; another molecule may share the entry.
            used.update(_key(key, chain) for chain in chains[key])
            if len(chains[key]) > 1:
                count = len(chains[key]) - 1
                findings.warn("chain beside the one that fits a sequence, left out", chains[key][0].path, count=count)
            return max(chains[key], key=lambda chain: _placed(entry, chain).identity)
    for key in entry.keys:
        stem, _, wanted = key.rpartition("_")
        candidates = chains.get(stem, [])
        chain = next((chain for chain in candidates if chain.label == wanted), None)
        if chain is None:
            chain = next((chain for chain in candidates if chain.author == wanted), None)
            if chain is not None:
                findings.warn("chain found by its author's name, not its label", chain.path, f"chain {chain.label!r}")
        if chain is not None:
            used.add(_key(stem, chain))
            return chain
    return None


def _structure_of(entry: _Entry, chain: Chain, findings: Findings) -> Structure | None:
    if chain.sequence == entry.sequence:
        return chain.structure
    placement = _placed(entry, chain)
    where = f"chain {chain.label!r}"
    if placement.identity < LEAST_IDENTITY:
        reason = f"{placement.identity:.0%} identical with the sequence {entry.name!r} ({entry.path} {entry.where})"
        remedy = f"pair structures and sequences with at least {LEAST_IDENTITY:.0%}, or rename the file"
        return findings.defect(chain.path, where, reason, remedy)
    if placement.differences:
        named = f"{where}: {listed(placement.differences)}"
        count = len(placement.differences)
        findings.warn("residue that differs between sequence and structure", chain.path, named, count)
    unplaced = int((placement.position < 0).sum())
    if unplaced:
        findings.warn("residue of a structure that its sequence lacks, left out", chain.path, where, unplaced)
    return moved_onto(chain.structure, placement, entry.sequence, chain.sequence)


def _warn_of_resolution(chain: Chain | None, findings: Findings) -> None:
    """Confidence is learned from experiments of known, good resolution only (Jumper et al. 2021, Suppl. 1.9.6)."""
    if chain is not None and chain.structure.resolution is None:
        findings.warn(NO_RESOLUTION, chain.path)


def _placed(entry: _Entry, chain: Chain) -> Placement:
    return place(entry.sequence, chain.sequence, chain.structure.residue_index)


def _unused(chains: Mapping[str, list[Chain]], used: Iterable[str]) -> Iterator[tuple[str, Chain]]:
    for stem, members in chains.items():
        for chain in members:
            if _key(stem, chain) not in used:
                yield (stem if len(members) == 1 else f"{stem}_{chain.label}"), chain


def _key(stem: str, chain: Chain) -> str:
    return f"{stem}/{chain.label}"
