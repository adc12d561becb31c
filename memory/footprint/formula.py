"""Memory of a train step estimated from its traced program: nothing is compiled, nothing runs."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import PyTree

from elbowroom.memory.footprint.dataflow import program
from elbowroom.memory.footprint.footprint import Footprint
from elbowroom.memory.footprint.lifetimes import peak_bytes


def formula_footprint(step: Callable[..., Any], state: PyTree, batch: PyTree) -> Footprint:
    """What the compiled step will hold, to about 15 %, in seconds.

    The program is traced, and read as a compiler would read it:
      - which values are stored, and which fused into their users (`fusion`);
      - matrix products need operands with their axes in order, and float32: copies are counted (`dataflow`);
      - a loop's state and stacks are held once, and its body's values within one iteration (`lifetimes`);
      - a value may take the memory of one that ends there; all are packed as XLA packs them.

    Parameters and optimizer state are exact. The temporaries are an estimate, made to follow XLA on CPU:
    kernels are taken in the order of the program, which the compiler may change, and rules that it applies to small
    values only are left out. Steps of a few MiB can come out up to 45 % too high. The batch counts whole, though the
    compiler drops what is never read. It knows no model; `results/formula_vs_compiled.md` tells how far off it is.

    Args:
      step: what `make_step` gives; the state is taken as donated.
      state, batch: arrays, or `jax.ShapeDtypeStruct`s in their place.
    """
    traced, results = jax.make_jaxpr(step, return_shape=True)(state, batch)
    metrics = results[1]
    return Footprint.of_step(
        state,
        batch,
        temporary=peak_bytes(program(traced)),
        outputs=sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(metrics)),
        provenance="formula",
        detail=f"as on cpu, jax {jax.__version__}",
    )
