"""Equal blocks one after the other, as one module whose parameters have the blocks on their first axis."""

from collections.abc import Callable

import jax
from flax import nnx
from jaxtyping import Array, Key, PyTree

from elbowroom.memory.plan import Plan
from elbowroom.memory.recompute import scan_blocks


def stack[Block: nnx.Module](make: Callable[[nnx.Rngs], Block], depth: int, *, rngs: nnx.Rngs) -> Block:
    """`depth` blocks, each made with random numbers of its own."""
    return nnx.split_rngs(splits=depth)(nnx.vmap(make, in_axes=(0,)))(rngs)


def run_stack[Block: nnx.Module, Activations](
    blocks: Block,
    call: Callable[[Block, Activations, Key[Array, ""] | None], Activations],
    activations: Activations,
    key: Key[Array, ""] | None,
    plan: Plan,
) -> Activations:
    """All blocks of a `stack` in one scan, each called with a dropout key of its own, or None without dropout."""
    graph, parameters = nnx.split(blocks)
    depth = jax.tree.leaves(parameters)[0].shape[0]
    keys = None if key is None else jax.random.split(key, depth)

    def block(activations: Activations, layer: tuple[PyTree, PyTree]) -> Activations:
        return call(nnx.merge(graph, layer[0]), activations, layer[1])

    return scan_blocks(block, activations, (parameters, keys), plan)
