"""Structures for sequences: the plan is chosen for the memory at hand, so that any length that fits is predicted."""

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, PyTree

from elbowroom.datasets.findings import DataError, Findings
from elbowroom.datasets.proteins.alphabet import indices
from elbowroom.datasets.proteins.features import FeatureSizes, prediction_features
from elbowroom.datasets.proteins.protein import Protein, file_names
from elbowroom.datasets.proteins.sources import find_sources, read_sources
from elbowroom.datasets.proteins.templates import template_from_chain
from elbowroom.memory.budget import BudgetError
from elbowroom.memory.footprint.compiled import compile_forward
from elbowroom.memory.footprint.size import format_size
from elbowroom.memory.plan import Chunk, Plan
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.models.alphafold.recycle import recycle
from elbowroom.models.alphafold.residues import ATOM37_EXISTS
from elbowroom.studies.peak import free_memory
from elbowroom.studies.prediction_plots import plot_aligned_error, plot_confidence
from elbowroom.studies.sizes import Sizes
from elbowroom.studies.structure_files import PredictedStructure, whole, write_structure

LADDER = (
    Plan(),
    Plan(chunk=Chunk(rows=64, queries=256, keys=256)),
    Plan(chunk=Chunk(rows=16, queries=128, keys=128)),
    Plan(chunk=Chunk(rows=4, queries=64, keys=64)),
    Plan(chunk=Chunk(rows=1, queries=64, keys=64)),
)
"""From the plain forward pass to the leanest; all give the same structure."""
STEP = 32
"""Lengths are padded to multiples of this, so that proteins of similar length share one compilation."""


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """A structure and how far it can be trusted."""

    structure: PredictedStructure
    contacts: np.ndarray
    """probability that two residues' pseudo-beta atoms are less than 8 Angstrom apart"""
    aligned_error: np.ndarray | None
    """Angstrom; None of models without that head"""
    largest_error: float
    tm_score: float | None
    """as the model expects it"""
    plan: Plan
    peak: int
    """bytes, the compiler's account"""


class Predictor:
    """A model that predicts one protein after the other, compiling once for every padded length."""

    def __init__(
        self,
        model: AlphaFold,
        sizes: Sizes,
        *,
        budget: int | None = None,
        plan: Plan | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ):
        """`plan` None takes the first of `LADDER` within `budget` bytes, None being what is free on the device."""
        self._graph, self._parameters = nnx.split(model, nnx.Param)
        self._sizes, self._plans, self._tell = sizes, LADDER if plan is None else (plan,), tell
        self._budget = free_memory() if budget is None else budget
        self._largest = model.predicted_aligned_error_head.centres()[-1] if model.config.aligned_error else 0.0
        self._compiled: dict[tuple[int, int], tuple[Callable[..., Any], Plan, int]] = {}

    def __call__(self, protein: Protein) -> Predicted:
        """Raises `BudgetError` where even the leanest plan needs more memory than there is."""
        length = len(protein.sequence)
        padded = -(-length // STEP) * STEP
        features = prediction_features(
            protein,
            FeatureSizes(
                res=padded,
                seq=self._sizes["clusters"],
                extra_seq=self._sizes["extra"],
                templates=self._sizes["templates"] if protein.templates else 0,
                recycles=self._sizes["recycles"],
            ),
        )
        run, plan, peak = self._executable(padded, features, protein.name)
        found = jax.tree.map(np.asarray, run(self._parameters, features))
        structure = PredictedStructure(
            name=protein.name,
            sequence=protein.sequence,
            positions=found["positions"][:length],
            exists=ATOM37_EXISTS[indices(protein.sequence)],
            confidence=found["lddt"][:length],
        )
        error = found.get("aligned_error")
        return Predicted(
            structure=structure,
            contacts=found["contacts"][:length, :length],
            aligned_error=None if error is None else error[:length, :length],
            largest_error=float(self._largest),
            tm_score=None if error is None else float(found["tm_score"]),
            plan=plan,
            peak=peak,
        )

    def _executable(
        self, padded: int, features: Mapping[str, np.ndarray], name: str
    ) -> tuple[Callable[..., Any], Plan, int]:
        key = (padded, len(features["template_mask"]))
        if key not in self._compiled:
            self._compiled[key] = self._compile(features, name)
        return self._compiled[key]

    def _compile(self, features: Mapping[str, np.ndarray], name: str) -> tuple[Callable[..., Any], Plan, int]:
        shapes = {k: jax.ShapeDtypeStruct(v.shape, v.dtype) for k, v in features.items()}
        padded, least = features["aatype"].shape[0], 0
        for plan in self._plans:
            run, least = compile_forward(self._forward(plan), self._parameters, shapes)
            self._tell(f"{padded} residues, {plan}: {format_size(least)} (compiled) of {format_size(self._budget)}")
            if least <= self._budget:
                return run, plan, least
        raise BudgetError(
            f"{name}: {padded} residues need {format_size(least)} even chunked ({self._plans[-1]}), "
            f"there are {format_size(self._budget)}; predict domains apart, or use fewer rows with --size extra="
        )

    def _forward(self, plan: Plan) -> Callable[[PyTree, Mapping[str, Array]], dict[str, Array]]:
        graph, passes = self._graph, self._sizes["recycles"]

        def forward(parameters: PyTree, features: Mapping[str, Array]) -> dict[str, Array]:
            model, features = nnx.merge(graph, parameters), dict(features)
            previous = recycle(model, features, None, plan, passes) if passes else None
            prediction = model(features, None, plan, previous)
            found = {
                "positions": prediction.structure.atom37,
                "lddt": model.predicted_lddt_head.expected(prediction.structure.act),
                "contacts": model.distogram_head.contacts(prediction.trunk.pair, plan),
            }
            if model.config.aligned_error:
                mask = jnp.asarray(features["seq_mask"]) > 0
                head = model.predicted_aligned_error_head
                found["aligned_error"], found["tm_score"] = head.expected(prediction.trunk.pair, mask, plan)
            return found

        return forward


def with_templates(protein: Protein, files: Sequence[Path]) -> Protein:
    """The protein with the chains of some structure files as templates, those that cover it too little left out.

    Raises `DataError` for a file that cannot be read.
    """
    templates = []
    for file in files:
        findings = Findings(strict=True)
        for chain in itertools.chain(*read_sources(find_sources(file, findings), findings).chains.values()):
            # Another protein of the same command may be the one that this chain is for.
            with contextlib.suppress(DataError):
                templates.append(template_from_chain(protein.sequence, chain))
    return dataclasses.replace(protein, templates=tuple(templates))


def write_prediction(predicted: Predicted, stem: Path, note: Mapping[str, Any]) -> list[Path]:
    """Structure files, confidence as JSON, and plots; gives their paths.

    The JSON holds pLDDT and, where known, the aligned error in the layout of the AlphaFold database, with `note`.
    """
    written = write_structure(predicted.structure, stem)
    record: dict[str, Any] = {
        **note,
        "name": predicted.structure.name,
        "plan": predicted.plan.to_dict(),
        "peak_bytes": predicted.peak,
        "plddt": predicted.structure.confidence.round(2).tolist(),
    }
    if predicted.aligned_error is not None:
        record["ptm"] = predicted.tm_score
        record["predicted_aligned_error"] = predicted.aligned_error.round(1).tolist()
        record["max_predicted_aligned_error"] = round(predicted.largest_error, 2)
    text = json.dumps(record)

    def write(partial: str) -> None:
        Path(partial).write_text(text, encoding="utf-8")

    return [*written, *_plots(predicted, stem), whole(_confidence(stem), write)]


def _plots(predicted: Predicted, stem: Path) -> list[Path]:
    title, confidence = predicted.structure.name[:80], predicted.structure.confidence
    plots = [plot_confidence(stem.with_name(f"{stem.name}_plddt.png"), confidence, title)]
    if predicted.aligned_error is not None:
        path = stem.with_name(f"{stem.name}_pae.png")
        plots.append(plot_aligned_error(path, predicted.aligned_error, predicted.largest_error, title))
    return plots


def trust_in(structure: PredictedStructure) -> str:
    """The mean confidence in words; 50 everywhere is what the head says before it has learned anything."""
    if np.allclose(structure.confidence, 50.0, atol=1e-3):
        return "pLDDT is 50 for all residues and says nothing: the model has never learned it"
    return f"mean pLDDT {structure.confidence.mean():.1f}"


def stems(proteins: Sequence[Protein], out: Path) -> list[Path]:
    """Where the files of each protein go, without their endings; the folder is made."""
    out.mkdir(parents=True, exist_ok=True)
    files = file_names(protein.name for protein in proteins)
    return [out / files[protein.name] for protein in proteins]


def is_written(stem: Path) -> bool:
    """Whether the files of a protein are there: the confidence is written last."""
    return _confidence(stem).exists()


def _confidence(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}_confidence.json")
