"""Parameters under their published names: `alphafold/alphafold_iteration/<module>/<module>//<array>`.

Attribute names of the modules are the published ones, so the mapping is mechanical; stacks of blocks have the blocks
on the first axis in both.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float

from elbowroom.models.alphafold.config import AlphaFoldConfig
from elbowroom.models.alphafold.template import CLASSES as TEMPLATE_LETTERS
from elbowroom.models.published import WeightsError, require_fit

PREFIX = "alphafold/alphafold_iteration"


def published_names(model: nnx.Module, prefix: str = PREFIX) -> dict[str, tuple[int, ...]]:
    """The published name of every parameter, with its shape."""
    return {name: tuple(array.shape) for name, array in published_arrays(model, prefix).items()}


def published_arrays(model: nnx.Module, prefix: str = PREFIX) -> dict[str, Any]:
    """Every parameter, or its shape in a model that holds only those, under its published name."""
    state = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {_published(path, prefix): leaf.get_value() for path, leaf in state}


def load_published(model: nnx.Module, arrays: Mapping[str, Float[np.ndarray, "..."]], prefix: str = PREFIX) -> None:
    """Put published parameters into `model`, in their own dtype. Raises `WeightsError` naming all that do not fit."""
    require_fit(published_names(model, prefix), arrays)
    state = nnx.to_flat_state(nnx.state(model, nnx.Param))
    filled = [(path, leaf.replace(jnp.asarray(arrays[_published(path, prefix)]))) for path, leaf in state]
    nnx.update(model, nnx.from_flat_state(filled))


def config_of(shapes: Mapping[str, tuple[int, ...]]) -> AlphaFoldConfig:
    """The sizes of a model from the shapes of its published parameters.

    Dropout rates and the number of structure iterations leave no trace in them and are the published ones.
    Raises `WeightsError` where parameters are missing that sizes are read from.
    """
    at = {name.removeprefix(f"{PREFIX}/"): shape for name, shape in shapes.items()}
    try:
        return AlphaFoldConfig(**_trunk_sizes(at), **_template_sizes(at), **_structure_sizes(at), **_head_sizes(at))
    except KeyError as error:
        raise WeightsError(f"missing {PREFIX}/{error.args[0]}: these are not the parameters of a monomer") from None


type _Shapes = Mapping[str, tuple[int, ...]]


def _trunk_sizes(at: _Shapes) -> dict[str, Any]:
    block, extra = "evoformer/evoformer_iteration", "evoformer/extra_msa_stack"
    blocks, msa, heads, _ = at[f"{block}/msa_column_attention/attention//query_w"]
    _, pair, pair_heads, _ = at[f"{block}/triangle_attention_starting_node/attention//query_w"]
    extra_blocks, extra_channels, _ = at[f"{extra}/msa_transition/transition1//weights"]
    return {
        "evoformer_blocks": blocks,
        "extra_blocks": extra_blocks,
        "msa_channels": msa,
        "extra_msa_channels": extra_channels,
        "pair_channels": pair,
        "single_channels": at["evoformer/single_activations//weights"][1],
        "msa_heads": heads,
        "extra_msa_heads": at[f"{extra}/msa_row_attention_with_pair_bias/attention//query_w"][2],
        "pair_heads": pair_heads,
        "outer_channels": at[f"{block}/outer_product_mean/left_projection//weights"][2],
        "triangle_channels": at[f"{block}/triangle_multiplication_outgoing/left_projection//weights"][2],
        "transition_factor": at[f"{block}/msa_transition/transition1//weights"][2] // msa,
        "relative_window": at["evoformer/pair_activiations//weights"][0] // 2,
        "previous_bins": at["evoformer/prev_pos_linear//weights"][0],
    }


def _template_sizes(at: _Shapes) -> dict[str, Any]:
    single = "evoformer/template_embedding/single_template_embedding"
    transition = f"{single}/template_pair_stack/__layer_stack_no_state/pair_transition/transition1//weights"
    if transition not in at:
        return {"templates": False}
    blocks, channels, wide = at[transition]
    return {
        "template_channels": channels,
        "template_blocks": blocks,
        "template_heads": at["evoformer/template_embedding/attention//query_w"][1],
        "template_factor": wide // channels,
        "template_bins": at[f"{single}/embedding2d//weights"][0] - 2 * TEMPLATE_LETTERS - 5,
    }


def _structure_sizes(at: _Shapes) -> dict[str, Any]:
    fold = "structure_module/fold_iteration"
    point = f"{fold}/invariant_point_attention"
    (heads,) = at[f"{point}//trainable_point_weights"]
    keys, both, key_points, points = (
        at[f"{point}/{name}//bias"][0] // heads for name in ("q_scalar", "kv_scalar", "q_point_local", "kv_point_local")
    )
    return {
        "point_heads": heads,
        "scalar_key_channels": keys,
        "scalar_value_channels": both - keys,
        "point_keys": key_points // 3,
        "point_values": (points - key_points) // 3,
        "sidechain_channels": at[f"{fold}/rigid_sidechain/input_projection//bias"][0],
    }


def _head_sizes(at: _Shapes) -> dict[str, Any]:
    aligned = at.get("predicted_aligned_error_head/logits//bias")
    return {
        "distogram_bins": at["distogram_head/half_logits//weights"][1],
        "lddt_bins": at["predicted_lddt_head/logits//bias"][0],
        "lddt_channels": at["predicted_lddt_head/act_0//bias"][0],
        "aligned_error": aligned is not None,
        **({} if aligned is None else {"aligned_error_bins": aligned[0]}),
    }


def _published(path: tuple[Any, ...], prefix: str) -> str:
    *modules, array = [str(part) for part in path]
    return "/".join([prefix, *modules] if prefix else modules) + "//" + array
