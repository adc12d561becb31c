"""How a model is held in memory: plans, techniques and footprints. Knows no model and no file format."""

import jax

# jax 0.10.2, which older Pythons resolve to, miscompiles fusions on CPU (jax issue 39103): wrong numbers, no error.
if jax.__version_info__ < (0, 12):
    raise ImportError(
        f"elbowroom needs jax 0.12 or newer, found {jax.__version__}: older releases compute wrong values"
    )
