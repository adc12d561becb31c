"""AlphaFold's published parameter files, `params_model_*.npz`: reading and writing."""

from pathlib import Path

from flax import nnx

from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.model import AlphaFold
from elbowroom.models.alphafold.weights import (
    config_of,
    load_published,
    published_arrays,
)
from elbowroom.models.published import WeightsError
from elbowroom.studies.parameter_file import read_arrays, write_arrays


def load_deepmind(path: Path, config: AlphaFoldConfig | None = None) -> AlphaFold:
    """A model with the parameters of a file: any published monomer, with or without templates and pTM.

    Args:
      config: the sizes expected; those that the file's own arrays have if left out.

    Raises `WeightsError` naming the file, and every array that is missing, not part of the model or of another shape.
    """
    arrays = read_arrays(path, "a params_model_*.npz file")
    try:
        sizes = config or config_of({name: array.shape for name, array in arrays.items()})
        model = nnx.eval_shape(lambda: AlphaFold(sizes, rngs=nnx.Rngs(0)))
        load_published(model, arrays)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from None
    return model


def save_deepmind(path: Path, model: AlphaFold) -> None:
    """Write all parameters under their published names; `load_deepmind` gives back the same bits."""
    write_arrays(path, published_arrays(model))
