"""Memory of a train step as its compiler plans it: nothing runs, nothing is allocated."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from elbowroom.memory.footprint.footprint import Footprint

COMPILER_OPTIONS = {"xla_allow_excess_precision": False}
"""Otherwise compilers keep what a program rounds to bfloat16 in float32 where that is faster, twice as large."""


class NoAccountError(ValueError):
    """A backend whose compiler does not say what its programs hold."""


class Compiled(NamedTuple):
    """A train step ready to run, and what it will hold."""

    executable: Callable[..., Any]
    """`executable(state, batch) -> (state, metrics)`; the state passed in is given up to it."""
    footprint: Footprint


def compile_step(step: Callable[..., Any], state: PyTree, batch: PyTree) -> Compiled:
    """Compile `step`, donating the state, and read the compiler's own account of its memory.

    Args:
      step: what `make_step` gives.
      state, batch: arrays, or `jax.ShapeDtypeStruct`s in their place.
    """
    detail = f"{jax.default_backend()}, jax {jax.__version__}"
    return compile_lowered(lower_step(step, state, batch), state, batch, detail=detail)


def lower_step(step: Callable[..., Any], state: PyTree, batch: PyTree, platform: str | None = None) -> Any:
    """The program that a compiler is given; what waits in host memory before a step waits there after it.

    Args:
      platform: in whose terms, in jax's words; unset, that of the devices on which `state` lies.
    """
    jitted = jax.jit(step, donate_argnums=0)
    if any(in_host_memory(leaf) for leaf in jax.tree.leaves(state)):
        places = jax.tree.map(lambda leaf: leaf.sharding, state)
        jitted = jax.jit(step, donate_argnums=0, out_shardings=(places, None))
    return jitted.trace(state, batch).lower(lowering_platforms=None if platform is None else (platform,))


def compile_lowered(lowered: Any, state: PyTree, batch: PyTree, *, detail: str) -> Compiled:
    """Compile what `lower_step` gives; `detail` says with what."""
    executable = lowered.compile(compiler_options=COMPILER_OPTIONS)
    return Compiled(executable, accounted(_account(executable), state, batch, detail=detail))


def accounted(analysis: Any, state: PyTree, batch: PyTree, *, detail: str) -> Footprint:
    """A compiler's account of a step as a footprint.

    The peak is argument + output + temporary - alias. The compiler's field named peak is not used: it leaves the
    temporaries out on CPU and adds host bytes on accelerators.
    """
    # A compiler that keeps no account of arguments in host memory, as on CPU, counts them as the device's.
    apart = analysis.host_argument_size_in_bytes > 0
    return Footprint.of_step(
        jax.tree.map(lambda leaf: None if apart and in_host_memory(leaf) else leaf, state),
        batch,
        arguments=analysis.argument_size_in_bytes,
        temporary=analysis.temp_size_in_bytes,
        outputs=analysis.output_size_in_bytes - analysis.alias_size_in_bytes,
        host=_host_bytes(analysis),
        provenance="compiled",
        detail=detail,
    )


def compile_forward(function: Callable[..., Any], *arguments: PyTree) -> tuple[Callable[..., Any], int]:
    """Compile a function that only predicts, and read the bytes that the device holds at most while it runs."""
    executable = jax.jit(function).lower(*arguments).compile(compiler_options=COMPILER_OPTIONS)
    analysis = _account(executable)
    held = analysis.argument_size_in_bytes + analysis.output_size_in_bytes + analysis.temp_size_in_bytes
    return executable, held - analysis.alias_size_in_bytes


def in_host_memory(leaf: Any) -> bool:
    """Whether an array, or the shape of one, is to be beside the device and not on it."""
    sharding = getattr(leaf, "sharding", None)
    return sharding is not None and sharding.memory_kind == "pinned_host"


def _account(executable: Any) -> Any:
    analysis = executable.memory_analysis()
    if analysis is None:
        raise NoAccountError("this compiler does not report memory; use --how formula, or measured on the device")
    return analysis


def _host_bytes(analysis: Any) -> int:
    return (
        analysis.host_argument_size_in_bytes
        + analysis.host_output_size_in_bytes
        + analysis.host_temp_size_in_bytes
        - analysis.host_alias_size_in_bytes
    )
