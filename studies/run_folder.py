"""The folder of a run: what fixes its numbers, and the rules that keep one run from harming another.

`run.json` says what the run is, `metrics.csv` and `tensorboard/` what it did, `checkpoints/` where it is.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elbowroom.studies.optimizer import OptimizerSettings
from elbowroom.studies.provenance import provenance

OF_THE_DATA = {"data": "other training data", "model.statistics": "other statistics of the training data"}
"""Settings that follow from the records, and what is said where they differ: their values would tell nobody much."""


class RunError(ValueError):
    """A run cannot be started or resumed in the folder that was given."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that decides the numbers of a run. The memory plan is not part of it: it may change on resume."""

    case: str
    sizes: dict[str, int]
    seed: int
    optimizer: OptimizerSettings
    data: str
    """Fingerprint of the training records."""
    model: dict[str, Any]
    """What the case says of its model, apart from the sizes."""
    start: str
    """Fingerprint of the parameters that training started from, or `random`."""


def inspect_folder(folder: Path, settings: RunSettings, *, resume: bool) -> None:
    """Make sure that a run can start in `folder`, or that the run to be resumed there is the same one.

    Raises `RunError` if the folder holds something else, cannot be read, or its run has other settings.
    """
    if resume:
        _require_same(folder, settings)
        return
    try:
        if (folder / "run.json").exists():
            raise RunError(f"{folder} already holds a run; add --resume to continue it, or choose another --out")
        if folder.exists() and any(folder.iterdir()):
            raise RunError(f"{folder} is not empty and holds no run; choose an empty or new folder with --out")
    except OSError as error:
        raise unusable(folder, error) from None


def claim_folder(folder: Path, settings: RunSettings, *, resume: bool) -> None:
    """Inspect the folder, and write what a new run is into it. Raises `RunError`."""
    inspect_folder(folder, settings, resume=resume)
    if resume:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record = {**dataclasses.asdict(settings), "started_with": provenance()}
        (folder / "run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise unusable(folder, error) from None


def unusable(folder: Path, error: OSError) -> RunError:
    """Why nothing can be saved in a folder, as a mistake of whoever named it."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return RunError(f"{folder} is a file or lies in one; --out must name a folder")
    return RunError(f"{folder} cannot be written: {error.strerror}; choose another --out")


def _require_same(folder: Path, settings: RunSettings) -> None:
    path = folder / "run.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(f"{folder} holds no run to resume; start one without --resume") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}; restore it or start another run with --out") from None
    # What a run from before a setting existed did is what its default does.
    if isinstance(stored, dict) and isinstance(stored.get("optimizer"), dict):
        stored["optimizer"] = {**dataclasses.asdict(OptimizerSettings()), **stored["optimizer"]}
    changes = _differences(stored, dataclasses.asdict(settings))
    if changes:
        raise RunError(
            f"{folder} holds a run with {'; '.join(changes)}; resume it with what it was started with, "
            "or start another run with --out"
        )


def _differences(stored: dict[str, Any], given: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key, value in given.items():
        before = stored.get(key) if isinstance(stored, dict) else None
        if isinstance(value, dict) and prefix + key not in OF_THE_DATA:
            found += _differences(before or {}, value, f"{prefix}{key}.")
        elif prefix + key in OF_THE_DATA and before != value:
            found.append(OF_THE_DATA[prefix + key])
        elif before != value:
            found.append(f"{prefix}{key} = {before!r}, not {value!r}")
    return found
