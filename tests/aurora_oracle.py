"""Reads the reference numbers of the original Aurora, from any folder laid out like `tests/oracles`.

The environment variable `ELBOWROOM_ORACLES` names another such folder. A case is a file `aurora_*.npz` with its
`config_*.json` and `params_*.json`; all sizes are read from them.
"""

import json
import math
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from flax import nnx
from oracle_folders import found

from elbowroom.models.aurora.config import AuroraConfig
from elbowroom.models.aurora.encodings import Encodings, encodings
from elbowroom.models.aurora.model import Aurora, History
from elbowroom.models.aurora.weights import load_published


def cases() -> list[Path]:
    """Files of Aurora cases."""
    return found("aurora_*.npz")


@cache
def arrays(case: Path) -> dict[str, np.ndarray]:
    with np.load(case) as stored:
        return dict(stored)


def beside(case: Path, kind: str) -> Any:
    """The JSON file of a kind that belongs to a case."""
    return json.loads(case.with_name(f"{case.stem.replace('aurora', kind, 1)}.json").read_text())


def parameter(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The rule by which the reference made its parameters from their published names."""
    x = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, np.float32)
    if len(shape) == 1:
        return np.float32(1) + np.float32(0.1) * x if name.endswith(".weight") else np.float32(0.1) * x
    return x / np.float32(math.sqrt(math.prod(shape[1:])))


def config(case: Path, **changes: Any) -> AuroraConfig:
    told = beside(case, "config")
    return AuroraConfig(
        **{
            "surface": tuple(told["surf_vars"]),
            "static": tuple(told["static_vars"]),
            "atmosphere": tuple(told["atmos_vars"]),
            "history": told["history"],
            "patch": told["patch_size"],
            "channels": told["embed_dim"],
            "latent_levels": told["latent_levels"],
            "heads": told["num_heads"],
            "encoder_depth": told["enc_depth"],
            "decoder_depth": told["dec_depth"],
            "mlp_factor": told["mlp_ratio"],
            "decoder_mlp_factor": told["dec_mlp_ratio"],
            "window": tuple(told["window_size"]),
            "down_depths": tuple(told["encoder_depths"]),
            "down_heads": tuple(told["encoder_num_heads"]),
            "up_depths": tuple(told["decoder_depths"]),
            "up_heads": tuple(told["decoder_num_heads"]),
            **changes,
        }
    )


@cache
def model(case: Path, variant: str | None = None, **changes: Any) -> Aurora:
    """The reference's model, or a variant with its further parameters."""
    names = {**beside(case, "params")["model"], **(beside(case, "params")[variant] if variant else {})}
    made = nnx.eval_shape(lambda: Aurora(config(case, **changes), rngs=nnx.Rngs(0)))
    load_published(made, {name: parameter(name, tuple(entry["shape"])) for name, entry in names.items()})
    return made


def statistics(case: Path, kind: str, variable: str, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of a variable, of one in the atmosphere for every level, shaped to meet its field."""
    told = json.loads((case.parent / "normalisation.json").read_text())[kind][variable]
    if kind != "atmos":
        return np.asarray(told[0], dtype), np.asarray(told[1], dtype)
    levels = [told[str(int(level))] for level in arrays(case)["inputs/levels"]]
    mean, scale = np.array(levels, dtype).T[..., None, None]
    return mean, scale


def normalised(case: Path, kind: str, variable: str, dtype: str) -> np.ndarray:
    """An input, normalised, on the latitudes that make whole patches."""
    mean, scale = statistics(case, kind, variable, dtype)
    field = (arrays(case)[f"inputs/{kind}/{variable}"].astype(dtype) - mean) / scale
    return field[..., : field.shape[-2] // config(case).patch * config(case).patch, :]


def history(case: Path, example: int, dtype: str = "float32") -> History:
    sizes = config(case)
    return History(
        np.stack([normalised(case, "surf", v, dtype)[example] for v in sizes.surface]),
        np.stack([normalised(case, "static", v, dtype) for v in sizes.static]),
        np.stack([normalised(case, "atmos", v, dtype)[example] for v in sizes.atmosphere]),
    )


def where_and_when(case: Path, example: int, *, steps: int = 0) -> Encodings:
    """Encodings of an example, or of what it becomes some steps later."""
    held, sizes = arrays(case), config(case)
    latitudes = held["inputs/lat"][: len(held["inputs/lat"]) // sizes.patch * sizes.patch]
    lead = float(held["inputs/lead_time_hours"][example])
    date = float(held["inputs/time_hours"][example]) + steps * lead
    return encodings(sizes, latitudes, held["inputs/lon"], held["inputs/levels"], lead, date)
