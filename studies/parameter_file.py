"""Files of published parameters: arrays by name in an `.npz`."""

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elbowroom.models.published import WeightsError

TORCH = (".ckpt", ".pt", ".pth", ".safetensors")


def read_arrays(path: Path, expected: str) -> dict[str, np.ndarray]:
    """Every array of the file. Raises `WeightsError` naming it; `expected` says what it should have been."""
    if path.suffix in TORCH:
        raise WeightsError(f"{path} is not read as it is; write its arrays under their names with numpy.savez")
    try:
        # Opened here, because numpy leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return dict(stored)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror or error}; give {expected}") from None
    except (ValueError, TypeError, zipfile.BadZipFile, EOFError):
        raise WeightsError(f"{path} is no npz file or damaged; get it again: {expected}") from None


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write the file whole; `read_arrays` gives back the same bits."""
    partial = path.with_name(f".{path.name}.partial")
    held: Any = {name: np.asarray(array) for name, array in arrays.items()}
    with partial.open("wb") as file:
        np.savez(file, **held)
    os.replace(partial, path)


def file_fingerprint(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
