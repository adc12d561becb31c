"""Adam, or what a plan puts in its place, with a warm-up and one late decay of the rate."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from elbowroom.memory.optimizer import scale_by_adam_8bit
from elbowroom.memory.plan import OptimizerState, Plan


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """By default AlphaFold's (Jumper et al. 2021, Suppl. 1.11.3); counts of samples are divided by its batch of 128."""

    learning_rate: float = 1e-3
    warmup_steps: int = 1_000  # 0.128e6 samples
    decay: float = 0.95
    decay_after: int = 50_000  # 6.4e6 samples
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 0.1  # L2 norm of each example's own gradient
    average: float | None = 0.999  # of the parameters that are evaluated (Suppl. 1.11.7); None evaluates the last
    weight_decay: float = 0.0  # of every parameter, apart from the gradient (Loshchilov & Hutter 2019)


def learning_rate(settings: OptimizerSettings, step: Int[Array, ""]) -> Float[Array, ""]:
    """Rises over the warm-up to the full rate, and falls once by `decay` after `decay_after` steps."""
    taken = (step + 1).astype(jnp.float32)
    warm = jnp.minimum(1.0, taken / settings.warmup_steps)
    late = jnp.where(step >= settings.decay_after, settings.decay, 1.0)
    return settings.learning_rate * warm * late.astype(jnp.float32)


class AverageState(NamedTuple):
    """A running mean of the parameters."""

    seen: Int[Array, ""]
    average: PyTree


def averaging(decay: float) -> optax.GradientTransformation:
    """Keep an exponential moving average of the parameters; updates pass through unchanged.

    The first steps are averaged over fewer of their predecessors, so that the initial parameters are soon forgotten.
    """

    def init(params: PyTree) -> AverageState:
        # A copy: the step donates the parameters' own buffers.
        return AverageState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.copy, params))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, AverageState]:
        seen = state.seen + 1
        kept = jnp.minimum(decay, seen / (seen + 10.0)).astype(jnp.float32)
        new = jax.tree.map(lambda old, p, u: old + (1 - kept) * (p + u - old), state.average, params, updates)
        return updates, AverageState(seen, new)

    return optax.GradientTransformation(init, update)


def _rule(settings: OptimizerSettings, held: OptimizerState) -> optax.GradientTransformation:
    beta1, beta2, epsilon = settings.beta1, settings.beta2, settings.epsilon
    if held.rule == "adam-8bit":
        return scale_by_adam_8bit(beta1, beta2, epsilon)
    if held.rule == "adafactor":
        return optax.chain(optax.scale_by_factored_rms(), optax.clip_by_block_rms(1.0))
    if held.rule == "lion":
        return optax.scale_by_lion(beta1, beta2)
    return optax.scale_by_adam(beta1, beta2, epsilon, mu_dtype=jnp.dtype(held.first_moment))


def averaged_parameters(optimizer_state: PyTree) -> PyTree:
    """What evaluation and prediction use."""
    return optax.tree.get(optimizer_state, "average")


def make_optimizer(settings: OptimizerSettings, plan: Plan) -> optax.GradientTransformation:
    """The update rule that `plan` names, Adam unless it says otherwise. Clipping belongs to the step."""
    rate = optax.scale_by_learning_rate(lambda step: learning_rate(settings, jnp.asarray(step)))
    decay = [optax.add_decayed_weights(settings.weight_decay)] if settings.weight_decay else []
    average = [] if settings.average is None else [averaging(settings.average)]
    chain = optax.chain(_rule(settings, plan.optimizer), *decay, rate, *average)

    def update(updates: optax.Updates, state: optax.OptState, params: optax.Params | None = None) -> tuple[Any, Any]:
        with jax.numpy_dtype_promotion("standard"):  # optax raises floats to integer powers, which strict mode refuses
            return chain.update(updates, state, params)

    return optax.GradientTransformation(chain.init, update)
