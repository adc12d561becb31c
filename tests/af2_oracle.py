"""Reads the reference numbers of the original AlphaFold 2, from any folder laid out like `tests/oracles`.

The environment variable `ELBOWROOM_ORACLES` names another such folder. A case is a folder with `params.json`; all
sizes are read from its arrays.
"""

import json
import math
import os
import zlib
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from flax import nnx

from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.weights import PREFIX, load_published

ROOT = Path(os.environ.get("ELBOWROOM_ORACLES", Path(__file__).parent / "oracles"))
STACKED = ("/evoformer_iteration", "/extra_msa_stack", "/__layer_stack_no_state")


def cases(file: str) -> list[Path]:
    """Folders of AlphaFold cases that hold `file`; never an empty list, or parity would pass unseen."""
    found = sorted(path.parent for path in ROOT.rglob("params.json") if (path.parent / file).exists())
    if not found:
        raise FileNotFoundError(f"no AlphaFold case with {file} under {ROOT}")
    return found


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
    """All sizes from the shapes of the case's parameters."""
    at = {name.removeprefix(f"{PREFIX}/"): shape for name, shape in shapes(case).items()}
    block, extra = "evoformer/evoformer_iteration", "evoformer/extra_msa_stack"
    blocks, msa, heads, _ = at[f"{block}/msa_column_attention/attention//query_w"]
    _, pair, pair_heads, _ = at[f"{block}/triangle_attention_starting_node/attention//query_w"]
    return AlphaFoldConfig(
        evoformer_blocks=blocks,
        extra_blocks=at[f"{extra}/msa_transition/transition1//weights"][0],
        msa_channels=msa,
        extra_msa_channels=at[f"{extra}/msa_transition/transition1//weights"][1],
        pair_channels=pair,
        single_channels=at["evoformer/single_activations//weights"][1],
        msa_heads=heads,
        extra_msa_heads=at[f"{extra}/msa_row_attention_with_pair_bias/attention//query_w"][2],
        pair_heads=pair_heads,
        outer_channels=at[f"{block}/outer_product_mean/left_projection//weights"][2],
        triangle_channels=at[f"{block}/triangle_multiplication_outgoing/left_projection//weights"][2],
        transition_factor=at[f"{block}/msa_transition/transition1//weights"][2] // msa,
        relative_window=at["evoformer/pair_activiations//weights"][0] // 2,
        previous_bins=at["evoformer/prev_pos_linear//weights"][0],
        distogram_bins=at["distogram_head/half_logits//weights"][1],
        **_structure_sizes(case, at),
        **_template_sizes(at),
        aligned_error="predicted_aligned_error_head/logits//bias" in at,
        aligned_error_bins=at.get("predicted_aligned_error_head/logits//bias", (64,))[0],
        lddt_bins=at["predicted_lddt_head/logits//bias"][0],
        lddt_channels=at["predicted_lddt_head/act_0//bias"][0],
    )


def _template_sizes(at: dict[str, tuple[int, ...]]) -> dict[str, int]:
    single = "evoformer/template_embedding/single_template_embedding"
    block = f"{single}/template_pair_stack/__layer_stack_no_state"
    if f"{single}/embedding2d//weights" not in at:
        return {"templates": False}
    inputs, channels = at[f"{single}/embedding2d//weights"]
    return {
        "template_channels": channels,
        "template_blocks": at[f"{block}/pair_transition/transition1//weights"][0],
        "template_heads": at["evoformer/template_embedding/attention//query_w"][1],
        "template_factor": at[f"{block}/pair_transition/transition1//weights"][2] // channels,
        "template_bins": inputs - 49,
    }


def _structure_sizes(case: Path, at: dict[str, tuple[int, ...]]) -> dict[str, int]:
    fold = "structure_module/fold_iteration"
    point = f"{fold}/invariant_point_attention"
    (heads,) = at[f"{point}//trainable_point_weights"]
    keys, both, key_points, points = (
        at[f"{point}/{name}//bias"][0] // heads for name in ("q_scalar", "kv_scalar", "q_point_local", "kv_point_local")
    )
    return {
        "structure_layers": len(arrays(case, "structure.npz")["outputs/traj"]),
        "point_heads": heads,
        "scalar_key_channels": keys,
        "scalar_value_channels": both - keys,
        "point_keys": key_points // 3,
        "point_values": (points - key_points) // 3,
        "sidechain_channels": at[f"{fold}/rigid_sidechain/input_projection//bias"][0],
    }


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
