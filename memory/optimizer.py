"""Adam whose running moments take one byte a number instead of four (Dettmers et al. 2022).

Each block of 256 numbers is divided by its largest magnitude and rounded to one of 256 values of a dynamic data type:
seven decades, with more fraction bits the higher the decade. Optimizers that hold less by other means come from optax.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree, UInt8

BLOCK = 256
SMALLEST = 4096
"""numbers; arrays with fewer, such as biases, stay in float32"""
DECADES = 7


class Quantised(NamedTuple):
    """An array in one byte a number; its shape is that of the parameter it belongs to."""

    codes: UInt8[Array, "block 256"]
    scale: Float[Array, "block"]


class Adam8BitState(NamedTuple):
    """Both moments, each `Quantised` or, where the parameter is small, float32."""

    steps: Int[Array, ""]
    mu: PyTree
    nu: PyTree


@cache
def dynamic_values(*, signed: bool) -> Float[np.ndarray, "256"]:
    """The 256 values, ascending, from -1 or 0 to 1 (Dettmers et al. 2022, Section 2.2).

    A decade 10^-k has fractions between 0.1 and 1 in the middle of equal steps, twice as many as the decade below it.
    """
    found = [0.0, 1.0]
    for decade in range(DECADES):
        edges = np.linspace(0.1, 1.0, 2 ** (decade + (not signed)) + 1)
        middles = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (decade - DECADES + 1)
        found += [*middles, *(-middles if signed else ())]
    return np.sort(np.array(found, np.float32))


def quantise(array: Float[Array, "..."], *, signed: bool) -> Quantised:
    """The nearest value of every number. A positive number never becomes zero where `signed` is False.

    That last rule is ours: a second moment of zero beside a first moment that is not would make a step of any length.
    """
    blocks = jnp.pad(array.reshape(-1), (0, -array.size % BLOCK)).reshape(-1, BLOCK)
    scale = jnp.abs(blocks).max(axis=1)
    normal = blocks / jnp.where(scale > 0, scale, 1.0)[:, None]
    values = dynamic_values(signed=signed)
    codes = jnp.searchsorted(jnp.asarray((values[:-1] + values[1:]) / 2), normal)
    if not signed:
        codes = jnp.where(normal > 0, jnp.maximum(codes, 1), codes)
    return Quantised(codes.astype(jnp.uint8), scale)


def restore(quantised: Quantised, like: Array, *, signed: bool) -> Float[Array, "..."]:
    """The numbers in float32, in the shape of `like`."""
    values = jnp.asarray(dynamic_values(signed=signed))[quantised.codes.astype(jnp.int32)]
    return (values * quantised.scale[:, None]).reshape(-1)[: like.size].reshape(like.shape)


def scale_by_adam_8bit(beta1: float, beta2: float, epsilon: float) -> optax.GradientTransformation:
    """Adam (Kingma & Ba 2015) as `optax.scale_by_adam`, its moments kept in 8 bits between steps."""

    def held(array: Array, *, signed: bool) -> Quantised | Array:
        return quantise(array, signed=signed) if array.size >= SMALLEST else array

    def moment(kept: Any, like: Array, *, signed: bool) -> Float[Array, "..."]:
        return restore(kept, like, signed=signed) if isinstance(kept, Quantised) else kept

    def init(params: PyTree) -> Adam8BitState:
        def zeros(*, signed: bool) -> PyTree:
            return jax.tree.map(lambda p: held(jnp.zeros(p.shape, jnp.float32), signed=signed), params)

        return Adam8BitState(jnp.zeros((), jnp.int32), zeros(signed=True), zeros(signed=False))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Adam8BitState]:
        count = state.steps + 1
        steps = count.astype(jnp.float32)

        def one(gradient: Array, mu: Any, nu: Any) -> tuple[Array, Any, Any]:
            wide = gradient.astype(jnp.float32)
            first = beta1 * moment(mu, gradient, signed=True) + (1 - beta1) * wide
            second = beta2 * moment(nu, gradient, signed=False) + (1 - beta2) * jnp.square(wide)
            step = first / (1 - beta1**steps) / (jnp.sqrt(second / (1 - beta2**steps)) + epsilon)
            return step.astype(gradient.dtype), held(first, signed=True), held(second, signed=False)

        leaves, structure = jax.tree.flatten(updates)
        kept = [structure.flatten_up_to(state.mu), structure.flatten_up_to(state.nu)]
        stepped = [one(*of_leaf) for of_leaf in zip(leaves, *kept, strict=True)]
        steps_of, mu, nu = ([s[i] for s in stepped] for i in range(3))
        return (
            structure.unflatten(steps_of),
            Adam8BitState(count, structure.unflatten(mu), structure.unflatten(nu)),
        )

    return optax.GradientTransformation(init, update)
