"""Trade time for memory: activations computed again in the backward pass instead of kept.

`jax.checkpoint` keeps only a function's inputs (Chen et al. 2016). A stack of blocks runs as one scan whose body is
checkpointed; cut into groups, only the inputs of groups are kept and the blocks of one group at a time are run again.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, PyTree

from elbowroom.memory.offload import fetched
from elbowroom.memory.plan import Offload, Plan, Recompute
from elbowroom.memory.precision import as_it_is

type Block = Callable[[PyTree, PyTree], PyTree]
"""(activations, parameters of one block) -> activations."""


def name(array: Array, label: str) -> Array:
    """Give an activation the name by which a plan can save or offload it."""
    return checkpoint_name(array, label)


def scan_blocks(block: Block, activations: PyTree, stacked: PyTree, plan: Plan) -> PyTree:
    """Run a stack of equal blocks one after the other, keeping for the backward pass what the plan says.

    Args:
      block: one block; `name` its inputs at its start if they are to be offloaded.
      stacked: parameters and whatever else a block needs, with the blocks on the first axis.
    """
    recompute = plan.recompute

    def body(carry: PyTree, layer: PyTree) -> tuple[PyTree, None]:
        return block(carry, jax.tree.map(as_it_is, fetched(layer))), None

    depth = jax.tree.leaves(stacked)[0].shape[0]
    size = -(-depth // recompute.groups) if depth >= recompute.groups else depth
    # In a loop forward and backward are apart and cannot be merged. But the compiler unrolls a loop of one step,
    # and without a barrier it would then undo the recomputation.
    body = recomputed_block(body, plan, barrier=size == 1)
    if recompute.groups == 1:
        return jax.lax.scan(body, activations, stacked)[0]
    return _scan_groups(body, activations, stacked, size)


def recomputed_block[**P, T](block: Callable[P, T], plan: Plan, *, barrier: bool = False) -> Callable[P, T]:
    """A block, its inside computed again in the backward pass where the plan says so, names kept or offloaded.

    Args:
      barrier: keep the compiler from merging both computations; needed wherever the block is not in a loop.
    """
    if not plan.recompute.blocks:
        return block
    return jax.checkpoint(block, prevent_cse=barrier, policy=_policy(plan.recompute, plan.offload))


def _scan_groups(body: Any, activations: PyTree, stacked: PyTree, size: int) -> PyTree:
    """A scan over groups of `size` blocks; blocks left over form a last, smaller group."""
    depth = jax.tree.leaves(stacked)[0].shape[0]
    whole = depth // size * size

    def group(carry: PyTree, layers: PyTree) -> tuple[PyTree, None]:
        return jax.lax.scan(body, carry, layers)[0], None

    group = jax.checkpoint(group, prevent_cse=False)
    grouped = jax.tree.map(lambda x: x[:whole].reshape(-1, size, *x.shape[1:]), stacked)
    activations, _ = jax.lax.scan(group, activations, grouped)
    if whole < depth:
        # The last group stands outside any loop: without a barrier the compiler would keep what it should recompute.
        last = jax.checkpoint(lambda carry, layers: jax.lax.scan(body, carry, layers)[0])
        activations = last(activations, jax.tree.map(lambda x: x[whole:], stacked))
    return activations


def _policy(recompute: Recompute, offload: Offload) -> Any:
    if offload.activations:
        return jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=list(recompute.save),
            names_which_can_be_offloaded=list(offload.activations),
            offload_src="device",
            offload_dst="pinned_host",
        )
    return jax.checkpoint_policies.save_only_these_names(*recompute.save) if recompute.save else None


def recomputed_module[**P, T](module: Callable[P, T], recompute: Recompute) -> Callable[P, T]:
    """A module of a block, its inside computed again in the backward pass where the plan says so.

    Under `blocks` both recomputations stand in one loop body, so a barrier keeps the compiler from merging them.
    """
    return jax.checkpoint(module) if recompute.modules else module
