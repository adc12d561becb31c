"""Which files hold proteins, and what they hold."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from rich.console import Console
from rich.progress import track

from elbowroom.datasets.findings import Findings
from elbowroom.datasets.proteins.a3m import read_a3m
from elbowroom.datasets.proteins.chain import Chain
from elbowroom.datasets.proteins.fasta import NamedSequence, read_fasta
from elbowroom.datasets.proteins.mmcif import read_mmcif
from elbowroom.datasets.proteins.pdb import read_pdb
from elbowroom.datasets.proteins.query import AlignedQuery
from elbowroom.datasets.proteins.stockholm import read_stockholm
from elbowroom.datasets.proteins.text import read_lines

type Kind = Literal["fasta", "a3m", "stockholm", "mmcif", "pdb"]

KIND_OF_SUFFIX: Final[dict[str, Kind]] = {
    **dict.fromkeys((".fasta", ".fa", ".faa", ".fas"), "fasta"),
    ".a3m": "a3m",
    **dict.fromkeys((".sto", ".stk", ".stockholm"), "stockholm"),
    **dict.fromkeys((".cif", ".mmcif"), "mmcif"),
    **dict.fromkeys((".pdb", ".ent"), "pdb"),
}
_KNOWN: Final = f"{', '.join(KIND_OF_SUFFIX)}, each also with .gz"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to read."""

    path: Path
    stem: str
    """Its name without suffixes: what sequences, alignments and structures are paired by."""
    kind: Kind


@dataclass(kw_only=True)
class Contents:
    """What all files hold, not yet paired."""

    sequences: dict[str, list[NamedSequence]] = field(default_factory=dict)
    """By stem of their file."""
    alignments: dict[str, AlignedQuery] = field(default_factory=dict)
    chains: dict[str, list[Chain]] = field(default_factory=dict)


def find_sources(place: Path, findings: Findings) -> list[Source]:
    """The file itself, or all files of a known kind in a folder and below, in the order of their paths."""
    if not place.exists():
        findings.defect(place, "", "does not exist", "check the path")
        return []
    if place.is_file():
        source = _source(place)
        if source is None:
            findings.defect(place, "", f"is of no known kind ({_KNOWN})", "rename it by what it holds")
        return [] if source is None else [source]
    found = []
    for path in sorted(place.rglob("*")):
        if path.name.startswith(".") or not path.is_file():
            continue
        source = _source(path)
        if source is None:
            findings.warn("file of no known kind, left out", path)
        else:
            found.append(source)
    if not found:
        findings.defect(
            place, "", f"holds no file of a known kind ({_KNOWN})", "name the folder that has your proteins"
        )
    return found


def read_sources(sources: Sequence[Source], findings: Findings) -> Contents:
    """Read every file. Two alignments or two structures of one name are a defect."""
    contents = Contents()
    seen: dict[tuple[str, str], Path] = {}
    console = Console(stderr=True)
    for source in track(sources, "reading", console=console, transient=True, disable=not console.is_terminal):
        lines = read_lines(source.path, findings)
        if lines is None:
            continue
        holds = {"a3m": "alignments", "stockholm": "alignments", "mmcif": "structures", "pdb": "structures"}
        key = (holds.get(source.kind, str(source.path)), source.stem)
        if key in seen:
            reason = f"{seen[key]} has the same name: two {key[0]} for one protein"
            findings.defect(source.path, "", reason, "keep one of them, or rename it")
            continue
        seen[key] = source.path
        _read(source, lines, contents, findings)
    return contents


def _source(path: Path) -> Source | None:
    named = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    kind = KIND_OF_SUFFIX.get(named.suffix.lower())
    return None if kind is None else Source(path=path, stem=named.stem, kind=kind)


def _read(source: Source, lines: Sequence[str], contents: Contents, findings: Findings) -> None:
    path, stem = source.path, source.stem
    match source.kind:
        case "fasta":
            contents.sequences.setdefault(stem, []).extend(read_fasta(lines, path, stem, findings))
        case "a3m" | "stockholm":
            read = read_a3m if source.kind == "a3m" else read_stockholm
            query = read(lines, path, findings)
            if query is not None:
                contents.alignments[stem] = query
        case "mmcif" | "pdb":
            read = read_mmcif if source.kind == "mmcif" else read_pdb
            contents.chains[stem] = read(lines, path, findings)
