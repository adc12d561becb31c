"""A trained AlphaFold, from the folder of a run or from a published parameter file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flax import nnx

from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.studies.deepmind import load_deepmind
from elbowroom.studies.trained import learned, run_record


def trained_model(place: Path) -> tuple[AlphaFold, dict[str, int]]:
    """The model, and the sizes with which it was trained (none are known of a file).

    A run gives the running average of its parameters at the latest checkpoint (Jumper et al. 2021, Suppl. 1.11.7).
    Raises `RunError` or `WeightsError` naming the place.
    """
    if not place.is_dir():
        return load_deepmind(place), {}
    record = run_record(place, AlphaFoldConfig)
    sizes = record["sizes"]
    graph, shapes = nnx.split(model_of(record["model"], sizes), nnx.Param)
    return nnx.merge(graph, learned(place, record, shapes).parameters), sizes


def untrained(model: AlphaFold) -> AlphaFold:
    """A fresh model of the same sizes: what training started from, seed 0."""
    return AlphaFold(model.config, rngs=nnx.Rngs(0))


def model_of(config: Mapping[str, Any], sizes: Mapping[str, int]) -> AlphaFold:
    """A model of these sizes without parameters, only their shapes."""
    depth = {"evoformer_blocks": sizes["blocks"], "extra_blocks": sizes["extra_blocks"]}
    sized = AlphaFoldConfig(**{**config, **depth})
    return nnx.eval_shape(lambda: AlphaFold(sized, rngs=nnx.Rngs(0)))
