"""Predicted against experimental structures: a trained model, the same model untrained, and a constant predictor."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.atoms import CA
from elbowroom.datasets.proteins.protein import Protein
from elbowroom.datasets.proteins.structure import pseudo_beta
from elbowroom.studies.alphafold_predict import Predictor
from elbowroom.studies.evaluate import score_of
from elbowroom.studies.metrics.calibration import calibration
from elbowroom.studies.metrics.contacts import CONTACT, contact_precision
from elbowroom.studies.metrics.lddt import lddt, lddt_ca
from elbowroom.studies.metrics.similarity import gdt_ts, tm_score
from elbowroom.studies.metrics.superposition import rmsd
from elbowroom.studies.table import Column

HIGHER_IS_BETTER = ("lddt_ca", "tm_score", "gdt_ts", "contact_precision")
METRICS = (*HIGHER_IS_BETTER, "rmsd")
SHAPES = {
    "alpha helix": (2.3, 100.0, 1.5),
    "3-10 helix": (1.9, 120.0, 2.0),
    "beta strand": (0.9, 180.0, 3.3),
    "extended chain": (0.0, 180.0, 3.8),
}
"""Radius in Angstrom, turn in degrees and rise in Angstrom of CA for every residue: what a chain can do everywhere."""

type Scores = dict[str, float]
type Predict = Callable[[Protein], tuple[Float[np.ndarray, "res 3"], Float[np.ndarray, "res res"]]]
"""CA positions, and a score for every pair of residues that is higher where a contact is likelier."""


def with_structure(proteins: Sequence[Protein]) -> list[Protein]:
    return [p for p in proteins if p.structure is not None and p.structure.atom_mask[:, CA].sum() > 1]


def scores_of(predict: Predict, protein: Protein) -> Scores:
    """All metrics of one prediction, over the residues whose CA is resolved."""
    structure = protein.structure
    assert structure is not None
    places, contacts = predict(protein)
    known = structure.atom_mask[:, CA]
    found, true = places[known].astype(np.float64), structure.atom_positions[known, CA].astype(np.float64)
    beta, resolved = pseudo_beta(indices(protein.sequence).astype(np.int32), structure)
    return {
        "lddt_ca": lddt_ca(found, true, np.ones(len(true), bool)),
        "tm_score": tm_score(found, true),
        "gdt_ts": gdt_ts(found, true),
        "contact_precision": contact_precision(contacts, beta, resolved > 0),
        "rmsd": rmsd(found, true),
    }


def model_predict(predictor: Predictor, seen: list[tuple[np.ndarray, np.ndarray]]) -> Predict:
    """Of a model; its pLDDT and the true lDDT of all residues are added to `seen`."""

    def predict(protein: Protein) -> tuple[Any, Any]:
        predicted = predictor(protein)
        places, structure = predicted.structure.positions[:, CA], protein.structure
        assert structure is not None
        true = lddt(places, structure.atom_positions[:, CA], structure.atom_mask[:, CA])
        seen.append((predicted.structure.confidence, 100 * true))
        return places, predicted.contacts

    return predict


def constant_predict(training: Sequence[Protein]) -> tuple[str, Predict]:
    """The best predictor that knows nothing of a protein but its length, and its name.

    Its structure is the regular shape with the highest mean lDDT-Ca on the training proteins; its contacts are as
    likely as they were in those at the same separation along the chain.
    """
    known = with_structure(training)
    means = {name: np.mean([_lddt_of_shape(shape, protein) for protein in known]) for name, shape in SHAPES.items()}
    best = max(means, key=means.__getitem__)
    frequency = _contact_frequency(known)

    def predict(protein: Protein) -> tuple[Any, Any]:
        length = len(protein.sequence)
        separation = np.abs(np.arange(length)[:, None] - np.arange(length)[None])
        return _regular(SHAPES[best], length), frequency[np.minimum(separation, len(frequency) - 1)]

    return best, predict


def evaluation_rows(
    predictors: Mapping[str, Predict], proteins: Sequence[Protein], seen: Callable[[str], None]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A row of mean scores for each predictor, gains of the first over it included, and a row for each protein.

    `seen` is called with each protein's name. Means and gains come with bootstrap 95 % intervals over proteins;
    proteins for which a metric is undefined are left out of it.
    """
    each: list[dict[str, Any]] = []
    for protein in proteins:
        row: dict[str, Any] = {"protein": protein.name, "residues": len(protein.sequence)}
        each.append({**row, "scores": {name: scores_of(predict, protein) for name, predict in predictors.items()}})
        seen(protein.name)
    first = next(iter(predictors))
    rows = []
    for name in predictors:
        row = {"predictor": name, "proteins": len(proteins)}
        for metric in METRICS:
            own, best = (np.array([e["scores"][n][metric] for e in each]) for n in (name, first))
            there = np.isfinite(own) & np.isfinite(best)
            row[metric] = score_of(own[there]).to_dict()
            row[f"gain_{metric}"] = score_of((best - own)[there]).to_dict() if name != first else None
        rows.append(row)
    return rows, each


def calibration_of(seen: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """How well pLDDT tells the true lDDT-Ca of residues."""
    return calibration(*(np.concatenate(part) for part in zip(*seen, strict=True)))._asdict()


def _interval(score: dict[str, float] | None) -> str:
    return "-" if score is None else f"{score['mean']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"


COLUMNS = (
    Column("predictor", lambda r: r["predictor"]),
    Column("lDDT-Ca", lambda r: r["lddt_ca"], _interval),
    Column("model's gain", lambda r: r["gain_lddt_ca"], _interval),
    Column("contacts L/5", lambda r: r["contact_precision"], _interval),
    Column("model's gain", lambda r: r["gain_contact_precision"], _interval),
    Column("TM-score", lambda r: r["tm_score"], _interval),
    Column("GDT-TS", lambda r: r["gdt_ts"], _interval),
    Column("RMSD", lambda r: r["rmsd"], _interval),
)


def _regular(shape: tuple[float, float, float], length: int) -> Float[np.ndarray, "res 3"]:
    radius, degrees, rise = shape
    angle, along = np.deg2rad(degrees) * np.arange(length), rise * np.arange(length)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), along], axis=1)


def _lddt_of_shape(shape: tuple[float, float, float], protein: Protein) -> float:
    assert protein.structure is not None
    true, known = protein.structure.atom_positions[:, CA], protein.structure.atom_mask[:, CA]
    return lddt_ca(_regular(shape, len(protein.sequence)), true, known)


def _contact_frequency(proteins: Sequence[Protein]) -> Float[np.ndarray, "separation"]:
    """Share of contacts among the pairs of residues at each separation, each counted once more than seen."""
    longest = max(len(p.sequence) for p in proteins)
    near, all_pairs = np.ones(longest), np.full(longest, 2.0)
    for protein in proteins:
        assert protein.structure is not None
        beta, resolved = pseudo_beta(indices(protein.sequence).astype(np.int32), protein.structure)
        apart = np.linalg.norm(beta[:, None] - beta[None], axis=-1)
        both = (resolved[:, None] * resolved[None]) > 0
        first, second = np.triu_indices(len(beta))
        np.add.at(all_pairs, (second - first)[both[first, second]], 1)
        np.add.at(near, (second - first)[both[first, second] & (apart[first, second] < CONTACT)], 1)
    return near / all_pairs
