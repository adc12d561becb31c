"""Reads the reference numbers of the original AlphaFold 2, from any folder laid out like `tests/oracles`.

The environment variable `ELBOWROOM_ORACLES` names another such folder. A case is a folder with `params.json`; all
sizes are read from its arrays.
"""

import dataclasses
import json
import math
import zlib
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from flax import nnx
from oracle_folders import found

from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.weights import PREFIX, config_of, load_published

STACKED = ("/evoformer_iteration", "/extra_msa_stack", "/__layer_stack_no_state")


def cases(file: str) -> list[Path]:
    """Folders of AlphaFold cases that hold `file`."""
    return [path.parent for path in found("params.json", lambda path: (path.parent / file).exists())]


@cache
def arrays(case: Path, file: str) -> dict[str, np.ndarray]:
    with np.load(case / file) as stored:
        return dict(stored)


@cache
def shapes(case: Path) -> dict[str, tuple[int, ...]]:
    return {k: tuple(v) for k, v in json.loads((case / "params.json").read_text())["params"].items()}


def parameter(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The rule by which the reference made its parameters from their published names."""
    scope, leaf = name.split("//")
    x = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, np.float32)
    if leaf == "scale":
        return np.float32(1) + np.float32(0.1) * x
    if leaf in ("offset", "bias") or leaf.endswith("_b"):
        return np.float32(0.1) * x
    if any(s in scope for s in STACKED):
        shape = shape[1:]
    fan_in = shape[0] if leaf in ("query_w", "key_w", "value_w", "gating_w") else math.prod(shape[:-1])
    return x * np.float32((0.2 if scope.endswith("/affine_update") else 1.0) / math.sqrt(fan_in))


def config(case: Path) -> AlphaFoldConfig:
    """All sizes from the shapes of the case's parameters, and the number of iterations from its structures."""
    layers = len(arrays(case, "structure.npz")["outputs/traj"])
    return dataclasses.replace(config_of(shapes(case)), structure_layers=layers)


def load(module: nnx.Module, case: Path, scope: str, layer: int | None = None) -> None:
    """Fill `module` with the case's parameters under `scope`; `layer` picks one block of a stack."""
    prefix = f"{PREFIX}/{scope}"
    own = {n: parameter(n, s) for n, s in shapes(case).items() if n.startswith((f"{prefix}/", f"{prefix}//"))}
    load_published(module, {n: a if layer is None else a[layer] for n, a in own.items()}, prefix)


def assert_close(case: Path, file: str, name: str, got: jnp.ndarray) -> None:
    """Compare with `outputs/name` within ten times the reference's own float32 error (2e-5 at least)."""
    want = arrays(case, f"{file}.npz")[f"outputs/{name}"]
    noise = json.loads((case / "noise.json").read_text()).get(file, {}).get(name, {"error": 0.0, "scale": 1.0})
    tolerance = max(10 * noise["error"], 2e-5)
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance * noise["scale"], err_msg=name)
