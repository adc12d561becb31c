"""Parameters as others published them: whether they fit a model."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float


class WeightsError(ValueError):
    """Published parameters that do not fit the model: missing, extra or of another shape."""


def require_fit(expected: Mapping[str, tuple[int, ...]], arrays: Mapping[str, Float[np.ndarray, "..."]]) -> None:
    """Raise `WeightsError` naming every array that is missing, not part of the model, or of another shape.

    Args:
      expected: the shapes of the model's parameters by their published names.
    """
    problems = [f"missing {name}" for name in sorted(expected.keys() - arrays.keys())]
    problems += [f"not part of the model: {name}" for name in sorted(arrays.keys() - expected.keys())]
    problems += [
        f"{name} has shape {arrays[name].shape}, expected {shape}"
        for name, shape in expected.items()
        if name in arrays and arrays[name].shape != shape
    ]
    if problems:
        raise WeightsError("the parameters do not fit the model:\n  " + "\n  ".join(problems))
