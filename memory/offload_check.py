"""Does this machine's compiler bring offloaded activations back unchanged?

At least one release of XLA read offloaded residuals of a loop in the wrong order on GPUs: right memory, right loss,
wrong gradients, no error (openxla/xla issue 46231). So a plan that offloads is tried on a small stack first.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from elbowroom.memory.plan import Offload, Plan, PlanError, Recompute
from elbowroom.memory.recompute import name, scan_blocks

LAYERS, ROWS, WIDTH = 5, 2048, 128
"""One megabyte an activation: smaller ones are not worth moving, and some compilers leave them."""
TOLERANCE = 1e-5
"""Largest difference relative to the largest gradient; the two programs do the same arithmetic in the same order."""

OFFLOADED = Plan(recompute=Recompute(blocks=True), offload=Offload(activations=("block_in",)))

type Gradient = Callable[[Plan, Array, Array], Array]


def require_sound_offload(gradient_of: Gradient | None = None) -> None:
    """Raise `PlanError` where gradients with offloaded activations differ from those without.

    Args:
      gradient_of: the gradient of a small stack under a plan; another one only in tests.
    """
    gradient_of = gradient_of or jax.jit(_gradient, static_argnums=0)
    key, other = jax.random.split(jax.random.key(0))
    x = jax.random.normal(key, (ROWS, WIDTH))
    weights = jax.random.normal(other, (LAYERS, WIDTH, WIDTH)) / WIDTH**0.5
    plain, offloaded = (np.asarray(gradient_of(plan, x, weights)) for plan in (Plan(), OFFLOADED))
    gap = float(np.abs(plain - offloaded).max() / np.abs(plain).max())
    if not gap <= TOLERANCE:
        raise PlanError(
            f"offload.activations: on this machine ({jax.default_backend()}, jax {jax.__version__}) gradients with "
            f"offloaded activations are wrong by {gap:.1e} of the largest; remove it from the plan, or update jax"
        )


def _gradient(
    plan: Plan, x: Float[Array, "row width"], weights: Float[Array, "layer width width"]
) -> Float[Array, "layer width width"]:
    def block(x: Array, weight: Array) -> Array:
        x = name(x, "block_in")
        return x + jnp.tanh(x @ weight)

    return jax.grad(lambda w: jnp.square(scan_blocks(block, x, w, plan)).sum())(weights)
