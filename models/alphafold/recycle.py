"""Several passes over a protein, each starting from what the one before found (Jumper et al. 2021, Suppl. 1.10)."""

import jax
from flax import nnx
from jaxtyping import Array, Int, Key

from elbowroom.memory.plan import Plan
from elbowroom.models.alphafold.embed import Features, Previous, no_previous
from elbowroom.models.alphafold.model import AlphaFold

EARLIER = "earlier_"
"""Before the name of a feature: its values in the passes before the last, on a leading axis."""


def recycle(
    model: AlphaFold, features: Features, key: Key[Array, ""] | None, plan: Plan, passes: Int[Array, ""] | int
) -> Previous:
    """What the last of `passes` passes hands on, zeros for none; no gradient flows through it (Algorithm 31).

    Each pass reads the rows of the alignment that `earlier_` features draw for it, where there are any; they must be
    as many as `passes` at least, which may be traced: training draws it anew for every example. Dropout is on where
    `key` is given. Memory is that of one pass without a backward pass, however many there are.
    """
    graph, parameters = nnx.split(model)
    still = jax.lax.stop_gradient(parameters)

    def one(number: Int[Array, ""], previous: Previous) -> Previous:
        own = None if key is None else jax.random.fold_in(key, number)
        prediction = nnx.merge(graph, still)(of_pass(features, number), own, plan, previous)
        found = prediction.recycled(features)
        return jax.tree.map(lambda new, old: new.astype(old.dtype), found, previous)

    return jax.lax.stop_gradient(jax.lax.fori_loop(0, passes, one, no_previous(model.config, features, plan)))


def of_pass(features: Features, number: Int[Array, ""] | int) -> Features:
    """What pass `number` before the last reads."""
    drawn = {name.removeprefix(EARLIER): value for name, value in features.items() if name.startswith(EARLIER)}
    return {**features, **{name: jax.lax.dynamic_index_in_dim(v, number, keepdims=False) for name, v in drawn.items()}}
