"""AlphaFold's published parameter files, `params_model_*.npz`: reading and writing."""

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx

from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.models.alphafold.weights import (
    config_of,
    load_published,
    published_arrays,
)
from elbowroom.models.published import WeightsError


def load_deepmind(path: Path, config: AlphaFoldConfig | None = None) -> AlphaFold:
    """A model with the parameters of a file: any published monomer, with or without templates and pTM.

    Args:
      config: the sizes expected; those that the file's own arrays have if left out.

    Raises `WeightsError` naming the file, and every array that is missing, not part of the model or of another shape.
    """
    arrays = _read(path)
    try:
        sizes = config or config_of({name: array.shape for name, array in arrays.items()})
        model = nnx.eval_shape(lambda: AlphaFold(sizes, rngs=nnx.Rngs(0)))
        load_published(model, arrays)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    return model


def save_deepmind(path: Path, model: AlphaFold) -> None:
    """Write all parameters under their published names; `load_deepmind` gives back the same bits."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        arrays: Any = {name: np.asarray(array) for name, array in published_arrays(model).items()}
        np.savez(file, **arrays)
    os.replace(partial, path)


def file_fingerprint(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return dict(stored)
    except OSError as error:
        raise WeightsError(
            f"{path} cannot be read: {error.strerror or error}; give a params_model_*.npz file"
        ) from None
    except (ValueError, TypeError, zipfile.BadZipFile, EOFError):
        raise WeightsError(f"{path} is no npz file or damaged; fetch params_model_*.npz again") from None
