"""Where the bytes of a train step go, and how that is known."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import jax
from jaxtyping import PyTree

from elbowroom.memory.footprint.size import format_size

PARTS = ("parameters", "gradients", "optimizer", "inputs", "temporaries", "outputs")


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Bytes on one device during one train step, by part; `peak` is the sum of the device's parts.

    No compiler reports gradients: they live inside its temporaries. They are split off with the size of the
    parameters' own arrays, so `gradients` + `temporaries` is what the compiler calls temporary. A program that never
    holds all gradients at once has less temporary than that; then `gradients` is all of it and `temporaries` is 0.
    """

    parameters: int
    gradients: int
    optimizer: int
    """The optimizer's running moments, the step counter and the random key."""
    inputs: int
    """The batch; a compiled step does not hold features that it never reads."""
    temporaries: int
    """Activations and everything else that lives only inside the step, without the gradients."""
    outputs: int
    """Results that are not written over donated arguments: metrics, or a second state where it is not donated."""
    host: int
    """Bytes in host memory, beside the device; 0 where a device has no separate host memory, as on CPU."""
    peak: int
    provenance: Literal["formula", "compiled", "measured"]
    detail: str
    """Backend and versions; for measurements also what was measured."""

    @classmethod
    def of_step(
        cls,
        state: PyTree,
        batch: PyTree,
        *,
        temporary: int,
        outputs: int,
        provenance: Literal["formula", "compiled", "measured"],
        detail: str,
        host: int = 0,
        arguments: int | None = None,
    ) -> "Footprint":
        """Share out what a step holds over the parts.

        Args:
          state: a `TrainState` of arrays or of their shapes.
          temporary: bytes of temporaries, gradients included.
          arguments: bytes of state and batch as the compiler counts them; unset, the sum of their arrays.
        """
        parameters, held = tree_bytes(state.parameters), tree_bytes(state)
        arguments = held + tree_bytes(batch) if arguments is None else arguments
        gradients = min(parameters, temporary)
        return cls(
            parameters=parameters,
            gradients=gradients,
            optimizer=held - parameters,
            inputs=arguments - held,
            temporaries=temporary - gradients,
            outputs=outputs,
            host=host,
            peak=arguments + temporary + outputs,
            provenance=provenance,
            detail=detail,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain types, for a row of JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        rows = [(part, getattr(self, part)) for part in (*PARTS, "peak")]
        if self.host:
            rows.append(("host", self.host))
        lines = [f"{part:<12}{format_size(size):>12}" for part, size in rows]
        return "\n".join([f"{self.provenance} ({self.detail})", *lines])


def tree_bytes(tree: PyTree) -> int:
    """Bytes of all arrays of a tree; random keys count as the integers they are made of."""
    return sum(_array_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _array_bytes(array: Any) -> int:
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        raw = jax.eval_shape(jax.random.key_data, array)
        return raw.size * raw.dtype.itemsize
    return array.size * array.dtype.itemsize
